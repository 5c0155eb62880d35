import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { authentication, keyOf } from '../support/authentication.ts'
import { barriers, LOOKS, openPage, overhang, withoutBrowser } from '../support/browser.ts'
import { until } from '../support/deadline.ts'
import { post, row, total } from '../support/journal-page.ts'
import { json, type RunningProgram, startProgram } from '../support/server.ts'

const SAMPLE = JSON.parse(readFileSync(new URL('../../data/sensors.json', import.meta.url), 'utf8'))
const MAC = 'DC:25:EF:B0:3A:11'
const options = { skip: withoutBrowser }

const live = (page: Page) => page.locator('#state[data-state=live]').waitFor()
const panel = (page: Page) => page.locator('#event')
const dialog = (page: Page) => page.getByRole('dialog')
const texts = async (page: Page, selector: string) =>
  (await page.locator(selector).allInnerTexts()).map((text) => text.replace(/\s+/g, ' ').trim())
const changed = (page: Page) => panel(page).locator('.changes').first().locator('li').allInnerTexts()

/** Three changes to one item: events 38 to 40. */
async function change(server: RunningProgram): Promise<void> {
  await server.fetch(`/api/sensors/${MAC}`, json('PATCH', { data: { humidity: 50, note: 'damp' } }))
  await server.fetch(`/api/sensors/${MAC}`, json('PATCH', { data: { humidity: 60, note: null } }))
  await server.fetch(`/api/sensors/${MAC}`, { method: 'DELETE' })
}

async function answered(server: RunningProgram, path: string): Promise<unknown> {
  const answer = await server.fetch(path)
  return answer.ok ? await answer.json() : answer.status
}

for (const { name, ...look } of LOOKS) {
  test(`the journal page, ${name}: no error, no request to another host, accessible`, options, async (t) => {
    const server = await startProgram(t, { data: SAMPLE })
    await change(server)
    const { page, errors, outside } = await openPage(t, `${server.url}/journal.html`, look)
    await live(page)
    await total(page, '40 events')
    await row(page, 40).getByText('deleted').waitFor()
    assert.deepEqual(await barriers(page), [])
    assert.equal(await overhang(page), 0)

    await row(page, 39).locator('.main').click()
    await panel(page).getByText('What changed').waitFor()
    assert.deepEqual(
      await changed(page),
      ['data.humidity 50 60', 'data.note damp nothing'].slice(0, 1).concat('data.note damp '.trim()),
    )
    await until('the whole history', async () => (await panel(page).locator('.timeline > li').count()) === 4)
    assert.deepEqual(await barriers(page), [])
    assert.equal(await overhang(page), 0)
    assert.equal(await page.title(), 'event 39 · Journal · Recollect')
    const scrolls = 'document.documentElement.scrollHeight > innerHeight'
    assert.equal(await page.evaluate(scrolls), false, 'the page has one scroll bar, that of the list')
    assert.deepEqual(errors, [])
    assert.deepEqual(outside, [])
  })
}

test(
  'the journal page is accessible in forced colours, in the past, with filters and their form',
  options,
  async (t) => {
    const server = await startProgram(t, { data: SAMPLE })
    await change(server)
    for (const forcedColors of ['active', 'none'] as const) {
      const { page } = await openPage(t, `${server.url}/journal.html?at=39&collection=sensors`, { forcedColors })
      await row(page, 39).waitFor()
      await page.getByRole('button', { name: 'Filter', exact: true }).click()
      assert.deepEqual(await barriers(page), [])
    }
  },
)

test('rows are requests with what changed in words, and unfold into their events', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  const posts = [{ title: 'One' }, { title: 'Two' }]
  await server.fetch('/api/posts', json('POST', posts))
  await server.fetch('/api/posts/0', json('PATCH', { title: 'Won' }))
  const { page, errors } = await openPage(t, `${server.url}/journal.html`)
  await row(page, 41).waitFor()
  assert.deepEqual(await texts(page, '#list .what'), [
    'posts/0 title One → Won',
    'posts: 2 items created ▸',
    'sensors, sensordatas: 35 items created ▸',
  ])
  await row(page, 40).locator('.main').click()
  await page.locator('#list [data-key="event 39"]').waitFor()
  assert.deepEqual((await texts(page, '#list .event-row .what')).slice(0, 3), [
    'posts/1 created “Two”',
    'posts/0 created “One”',
    'posts created',
  ])
  await row(page, 40).locator('.main').click()
  await page.locator('#list .event-row').first().waitFor({ state: 'detached' })
  assert.deepEqual(errors, [])
})

test('a click on an item, a type, an actor or a request filters by it, in the address', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  await change(server)
  const { page, errors } = await openPage(t, `${server.url}/journal.html`)
  await row(page, 40)
    .getByRole('link', { name: `sensors/${MAC}` })
    .click()
  await total(page, '4 events')
  assert.equal(await page.title(), `sensors/${MAC} · Journal · Recollect`)
  await row(page, 39).getByRole('link', { name: 'Only ItemPatched' }).click()
  await total(page, '2 events')
  assert.deepEqual(Object.fromEntries(new URL(page.url()).searchParams), {
    collection: 'sensors',
    id: MAC,
    type: 'ItemPatched',
  })
  assert.equal(await page.title(), `sensors/${MAC} changed · Journal · Recollect`)
  await page.getByRole('button', { name: 'Remove the filter Type' }).click()
  await total(page, '4 events')
  await row(page, 5).or(page.locator('#list li').last()).getByRole('link', { name: 'data-file' }).click()
  await total(page, '1 event')
  await page.getByRole('button', { name: 'Clear' }).click()
  await total(page, '40 events')
  await row(page, 37).locator('.request a').click()
  await total(page, '37 events')
  await page.locator('#list .event-row').first().waitFor()
  await page.goBack()
  await total(page, '40 events')
  const again = await openPage(t, `${page.url()}?actor=data-file`)
  await total(again.page, '37 events')
  assert.deepEqual([...errors, ...again.errors], [])
})

test(
  'the filters of the form find the same as the API, and matching events appear as they come',
  options,
  async (t) => {
    const server = await startProgram(t, { data: SAMPLE })
    await change(server)
    const { page, errors } = await openPage(t, `${server.url}/journal.html?type=ItemDeleted`)
    await total(page, '1 event')
    await server.fetch('/api/sensors/F4:A5:74:89:16:57', { method: 'DELETE' })
    await total(page, '2 events')
    await row(page, 41).waitFor()
    await page.getByRole('button', { name: 'Filter', exact: true }).click()
    await page.getByLabel('Type', { exact: true }).selectOption('')
    await total(page, '41 events')
    await page.getByLabel('Id', { exact: true }).fill(MAC)
    await page.getByLabel('Id', { exact: true }).press('Enter')
    await total(page, '4 events')
    await page.getByLabel('Until', { exact: true }).fill('2000-01-01T00:00:00')
    await page.getByLabel('Until', { exact: true }).blur()
    await page.getByText('Nothing matches.').waitFor()
    await page.goto(`${server.url}/journal.html?type=Nonsense`)
    await page.getByText('There are no events of the type "Nonsense".').waitFor()
    assert.deepEqual(
      errors.filter((error) => !error.includes('400')),
      [],
    )
  },
)

test('new events appear at the top, and elsewhere do not move what is read', options, async (t) => {
  const server = await startProgram(t, { data: { rows: [] } })
  await post(server, 200)
  const { page, errors } = await openPage(t, `${server.url}/journal.html`)
  await live(page)
  await row(page, 201).waitFor()
  await server.fetch('/api/rows', json('POST', {}))
  await row(page, 202).waitFor()

  const read = row(page, 140)
  await until('row 140', async () => {
    await page.evaluate("document.getElementById('list').scrollTop = 2000")
    return (await read.count()) > 0
  })
  const before = await read.boundingBox()
  await post(server, 20)
  await page.getByRole('button', { name: '↑ 20 new' }).waitFor()
  const after = await read.boundingBox()
  assert.ok(Math.abs((after?.y ?? 0) - (before?.y ?? 0)) < 1, `${after?.y}, before ${before?.y}`)
  await page.getByRole('button', { name: '↑ 20 new' }).click()
  await row(page, 222).waitFor()
  assert.equal(await page.evaluate("document.getElementById('list').scrollTop"), 0)
  assert.deepEqual(errors, [])
})

test('while the journal is paused, new events are counted and not shown', options, async (t) => {
  const server = await startProgram(t, { data: { rows: [] } })
  const { page, errors } = await openPage(t, `${server.url}/journal.html`)
  await live(page)
  await row(page, 1).waitFor()
  const pause = page.getByRole('button', { name: 'Pause' })
  await pause.click()
  await post(server, 3)
  await page.getByText('↑ 3 new').waitFor()
  assert.equal(await row(page, 4).count(), 0)
  await pause.click()
  await row(page, 4).waitFor()
  assert.equal(await pause.getAttribute('aria-pressed'), 'false')
  assert.deepEqual(errors, [])
})

test('events that could not be read for a while appear when the server sends them', options, async (t) => {
  const server = await startProgram(t, { data: { rows: [] } })
  await post(server, 250)
  const { page } = await openPage(t, `${server.url}/journal.html`)
  await row(page, 251).waitFor()
  let refused = 0
  await page.route(/events\?.*from=/, async (route) => {
    if (refused++ > 2) return route.continue()
    // As when the network of the browser's machine changes.
    if (refused === 1) return route.abort()
    await route.fulfill({ status: 503, headers: { 'Retry-After': '1' }, json: { title: 'Too busy' } })
  })
  const bottom = "document.getElementById('list').scrollTop = document.getElementById('list').scrollHeight"
  await until('the first event', async () => {
    await page.evaluate(bottom)
    return (await row(page, 1).count()) > 0
  })
  assert.ok(refused > 3)
})

test('a search that takes long says so, and can be stopped and continued', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  const { page } = await openPage(t, `${server.url}/journal.html`)
  await total(page, '37 events')
  const waiting: (() => void)[] = []
  await page.route(/events\?.*actor=nobody/, async (route) => {
    await new Promise<void>((resolve) => waiting.push(resolve))
    await route.continue().catch(() => {})
  })
  await page.goto(`${server.url}/journal.html?actor=nobody`)
  await page.getByText('Searching…').waitFor()
  const cancelled = page.waitForEvent('requestfailed')
  await page.getByRole('button', { name: 'Stop' }).click()
  await cancelled
  await page.getByText('The search was stopped.').waitFor()
  await page.getByRole('button', { name: 'Continue' }).click()
  await until('another request', () => waiting.length === 2)
  for (const resume of waiting) resume()
  await page.getByText('Nothing matches.').waitFor()
})

test('any two revisions of an item are compared', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  await change(server)
  const { page, errors } = await openPage(t, `${server.url}/journal.html?event=39`)
  await panel(page).locator('.timeline > li').last().getByRole('link', { name: 'Compare' }).click()
  await panel(page).getByText('From revision 1 to revision 3').waitFor()
  assert.deepEqual(await changed(page), ['data.humidity 42.5 60'])
  await panel(page).getByText('The item after this event').click()
  await panel(page).locator('.json').getByText('humidity').waitFor()
  assert.deepEqual(errors, [])
})

test(
  'the keyboard alone leads through the list, opens an event, and Esc returns to where one was',
  options,
  async (t) => {
    const server = await startProgram(t, { data: SAMPLE })
    await change(server)
    for (const viewport of [
      { width: 1280, height: 900 },
      { width: 390, height: 800 },
    ]) {
      const { page, errors } = await openPage(t, `${server.url}/journal.html`, { viewport })
      await row(page, 40).waitFor()
      assert.equal(await page.locator('#list [tabindex="0"]').count(), 1)
      await page.locator('#list [tabindex="0"]').focus()
      await page.keyboard.press('ArrowDown')
      await row(page, 39).locator('.main:focus').waitFor()
      await page.keyboard.press('ArrowLeft')
      await row(page, 39).locator('.what a:not(.main):focus').waitFor()
      await page.keyboard.press('ArrowRight')
      await page.keyboard.press('Enter')
      await panel(page).getByText('What changed').waitFor()
      await page.locator('#event-title:focus').waitFor()
      await page.keyboard.press('Escape')
      await panel(page).waitFor({ state: 'detached' })
      await row(page, 39).locator('.main:focus').waitFor()
      await page.keyboard.press('End')
      await row(page, 37).locator(':focus').waitFor()
      assert.deepEqual(errors, [])
    }
  },
)

test('a selected moment of the past ends the list there, and everything can be restored to it', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  await change(server)
  const then = await answered(server, '/api/sensors?asOf=37')
  const { page, errors } = await openPage(t, `${server.url}/journal.html?at=37`)
  await total(page, '37 events')
  assert.equal(await page.locator('#list li').count(), 1)
  await page.getByRole('button', { name: 'Restore this moment…' }).click()
  await dialog(page).getByText(`sensors/${MAC}`).waitFor()
  await dialog(page)
    .getByRole('heading', { name: /^Restore the state of \d\d:\d\d:\d\d/ })
    .waitFor()
  await dialog(page)
    .getByRole('button', { name: /^Restore \(\d events?\)$/ })
    .click()
  await page.getByText(/^Everything restored by/).waitFor()
  assert.deepEqual(await answered(server, '/api/sensors'), then)
  assert.deepEqual(errors, [])
})

test('a date leads to the events before it, and an empty one back to the present', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  await change(server)
  const { page, errors } = await openPage(t, `${server.url}/journal.html`)
  await total(page, '40 events')
  await page.getByLabel('Go to').fill('2000-01-01T00:00:00')
  await total(page, '0 events')
  await page.locator('#state[data-state=past]').waitFor()
  await page.getByLabel('Go to').fill('')
  await total(page, '40 events')
  assert.deepEqual(errors, [])
})

test('a restore can be previewed, done and undone', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  await change(server)
  const { page, errors } = await openPage(t, `${server.url}/journal.html?event=38`)
  await panel(page).getByRole('button', { name: 'Restore this version…' }).click()
  await dialog(page).getByText('created', { exact: false }).first().waitFor()
  assert.deepEqual(await barriers(page), [])
  assert.equal(await answered(server, `/api/sensors/${MAC}`), 404, 'trying changes nothing')
  await dialog(page).getByRole('button', { name: 'Restore (1 event)' }).click()
  await page.getByText(`sensors/${MAC} restored by 1 event.`).waitFor()
  assert.deepEqual(await answered(server, `/api/sensors/${MAC}/data/note`), 'damp')
  await row(page, 41).waitFor()
  await page.locator('#messages').getByRole('button', { name: 'Undo' }).click()
  await page.getByText('Undone by 1 event.').waitFor()
  assert.equal(await answered(server, `/api/sensors/${MAC}`), 404)
  assert.deepEqual(errors, [])
})

test('a request is undone as a whole, by one restore of what it changed', options, async (t) => {
  const data = { rows: Array.from({ length: 60 }, (_, id) => ({ id })), others: [{ id: 1, n: 1 }] }
  const server = await startProgram(t, { data })
  await server.fetch('/api/rows?id_gte=0', { method: 'DELETE' })
  await server.fetch('/api/others/1', json('PATCH', { n: 2 }))
  // A filter hides some of the request's events.
  const { page, errors } = await openPage(t, `${server.url}/journal.html?collection=rows&id=7`)
  const restores: string[] = []
  page.on('request', (request) => {
    const body = request.postData() ?? ''
    if (request.url().endsWith('/restore') && !JSON.parse(body).dryRun) restores.push(body)
  })
  const undo = page.locator('#list li').first().getByRole('button', { name: /^Undo/ })
  await undo.click()
  await page.getByText('Undone by 60 events.').waitFor()
  assert.deepEqual(
    restores.map((body) => JSON.parse(body).collection),
    ['rows'],
  )
  assert.equal(((await answered(server, '/api/rows?pageSize=100')) as unknown[]).length, 60)
  assert.deepEqual(await answered(server, '/api/others/1/n'), 2, 'what came later stays')

  await page.goto(`${server.url}/journal.html?collection=rows&id=7&until=${new Date().toISOString()}`)
  const again = page.locator('#list li').nth(1).getByRole('button', { name: /^Undo/ })
  await again.click()
  await page.getByText('All is as it was before.').waitFor()
  await server.fetch('/api/rows/7', json('PATCH', { n: 7 }))
  await again.click()
  await page.getByText(/rows has changed since/).waitFor()
  assert.equal(restores.length, 2)
  assert.deepEqual(
    errors.filter((error) => !error.includes('412')),
    [],
  )
})

test('an undo does not overwrite what somebody writes at the same moment', options, async (t) => {
  const server = await startProgram(t, { data: { rows: [{ id: 1, n: 1 }] } })
  await server.fetch('/api/rows/1', json('PATCH', { n: 2 }))
  const { page } = await openPage(t, `${server.url}/journal.html`)
  await page.route('**/admin/restore', async (route) => {
    if (!route.request().postDataJSON().dryRun) await server.fetch('/api/rows/1', json('PATCH', { n: 3 }))
    await route.continue()
  })
  await row(page, 3).getByRole('button', { name: /^Undo/ }).click()
  await page.getByText('Something of it has changed since.').waitFor()
  assert.equal(await answered(server, '/api/rows/1/n'), 3)
})

test('the page says in words how the journal is, and verifies it', options, async (t) => {
  const rows = Array.from({ length: 300 }, (_, id) => ({ id, text: 'x'.repeat(1000) }))
  const server = await startProgram(t, { data: { rows }, flags: ['--Journal.SegmentBytes', '65536'] })
  for (let more = 0; more < 100; more++) {
    await server.fetch('/api/rows', json('POST', { text: 'x'.repeat(2000) }))
  }
  const { page, errors } = await openPage(t, `${server.url}/journal.html`)
  const health = page.locator('#health')
  await health.getByText('401', { exact: true }).waitFor()
  await health.getByText('All is well').waitFor()
  await health.getByText(/^(shows the newest state|is about to be written|\d+ events? behind)$/).waitFor()
  const { journal } = (await answered(server, '/health')) as { journal: { segments: { first: number }[] } }
  assert.ok(journal.segments.length > 2)
  await health.getByText(`${journal.segments.length} segments`).click()
  const shown = async () => (await health.locator('.segments li').count()) === journal.segments.length
  await until('every segment', shown)
  await health.getByRole('button', { name: 'Verify the journal' }).click()
  await health.getByText('Intact: 401 events').waitFor()
  assert.deepEqual(errors, [])
})

test('a user who is no admin sees the journal without the actions undo, restore and verify', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE, flags: authentication(['apikey']) })
  await server.fetch('/api/posts', {
    ...json('POST', {}),
    headers: { 'Content-Type': 'application/json', 'X-API-KEY': keyOf('writer') },
  })
  const { page } = await openPage(t, `${server.url}/journal.html?event=3&at=38`)
  await page.getByRole('heading', { level: 1, name: 'Journal' }).waitFor()
  await page.locator('#account').click()
  await page.getByLabel('API key').fill(keyOf('writer'))
  await dialog(page).getByRole('button', { name: 'Sign in' }).click()
  await panel(page).getByText('Position').waitFor()
  await total(page, '38 events')
  assert.equal(await page.getByRole('button', { name: /Restore|Undo/ }).count(), 0)
  await panel(page).getByRole('button', { name: 'Close' }).click()
  await page.locator('#health').getByText('Last position').waitFor()
  assert.equal(await page.getByRole('button', { name: /Verify/ }).count(), 0)
})

test('markup in events is shown as text', options, async (t) => {
  const attack = '<img src="/x" onerror="globalThis.attacked = true">'
  const server = await startProgram(t, {
    data: { [attack]: [{ id: attack, [attack]: attack, text: 'x'.repeat(10_240) }] },
  })
  await server.fetch(
    `/api/${encodeURIComponent(attack)}/${encodeURIComponent(attack)}`,
    json('PATCH', { [attack]: `\u202e${attack}` }),
  )
  for (const width of [320, 1280]) {
    const { page, errors, outside } = await openPage(t, `${server.url}/journal.html?event=3`, {
      viewport: { width, height: 800 },
    })
    await panel(page).locator('.changes').first().waitFor()
    assert.ok((await changed(page)).join().includes('\\u202e<img'))
    await row(page, 3).getByText('\\u202e<img').first().waitFor({ state: 'attached' })
    assert.equal(await overhang(page), 0)
    assert.equal(await page.locator('main img').count(), 0)
    assert.equal(await page.evaluate('globalThis.attacked'), undefined)
    assert.deepEqual([...errors, ...outside], [])
  }
})
