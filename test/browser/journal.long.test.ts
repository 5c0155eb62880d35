import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { authentication, keyOf } from '../support/authentication.ts'
import { barriers, LOOKS, openPage, overhang, withoutBrowser } from '../support/browser.ts'
import { until, within } from '../support/deadline.ts'
import { json, type RunningProgram, startProgram } from '../support/server.ts'

const SAMPLE = JSON.parse(readFileSync(new URL('../../data/sensors.json', import.meta.url), 'utf8'))
const MAC = 'DC:25:EF:B0:3A:11'
/** How many events the long journal has; `npm run torture -- pages` takes a million. */
const EVENTS = Number(process.env.PAGES_EVENTS ?? 5000)
const options = { skip: withoutBrowser }

const live = (page: Page) => page.locator('#state[data-state=live]').waitFor()
const line = (position: number | string): string =>
  `#list li[data-state=shown]:not([hidden]):has(.position:text-is("${position}"))`
const panel = (page: Page) => page.locator('#event')
const changed = (page: Page) => panel(page).locator('.diff').first().locator('tr').allInnerTexts()

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
    await page.locator(line(40)).waitFor()
    await page.getByText('40 events', { exact: true }).waitFor()
    assert.deepEqual(await barriers(page), [])
    assert.equal(await overhang(page), 0)

    await page.locator(`${line(39)} a`).click()
    await panel(page).getByText('Changes since revision 2').waitFor()
    assert.deepEqual(
      (await changed(page)).map((text) => text.replace(/\s+/g, ' ').trim()),
      ['~ changed data.humidity 50 → 60', '− removed data.note "damp"'],
    )
    await until('the whole timeline', async () => (await panel(page).locator('.timeline > li').count()) === 4)
    assert.deepEqual(await barriers(page), [])
    assert.equal(await overhang(page), 0)
    assert.equal(await page.title(), 'Journal · Recollect')
    assert.deepEqual(errors, [])
    assert.deepEqual(outside, [])
  })
}

test('new events appear without moving the event that is being read', options, async (t) => {
  const rows = Array.from({ length: 500 }, (_, id) => ({ id }))
  const server = await startProgram(t, { data: { rows } })
  const { page, errors } = await openPage(t, `${server.url}/journal.html`)
  await live(page)
  await page.locator(line(501)).waitFor()
  await server.fetch('/api/rows', json('POST', {}))
  await page.locator(line(502)).waitFor()

  await page.evaluate("document.getElementById('list').scrollTop = 2800")
  await page.locator(line(401)).waitFor()
  const before = await page.locator(line(395)).boundingBox()
  for (let more = 0; more < 20; more++) await server.fetch('/api/rows', json('POST', {}))
  await page.getByText('522 events', { exact: true }).waitFor()
  const scrolled = "document.getElementById('list').scrollTop === 2800 + 20 * 28"
  await until('the list has scrolled by the new lines', () => page.evaluate<boolean>(scrolled))
  assert.deepEqual(await page.locator(line(395)).boundingBox(), before)
  assert.deepEqual(errors, [])
})

test('a list stays where it was scrolled to when the browser is slow to announce the scroll', options, async (t) => {
  const rows = Array.from({ length: 500 }, (_, id) => ({ id }))
  const server = await startProgram(t, { data: { rows } })
  const { page, errors } = await openPage(t, `${server.url}/journal.html`)
  await page.locator(line(501)).waitFor()
  // The list settles 150 ms after a scroll: each further scroll is just before that, and announced after it.
  const scroll = page.evaluate(`(async () => {
    const list = document.getElementById('list')
    const frame = () => new Promise(requestAnimationFrame)
    const kept = []
    for (let top = 280; top <= 5600; top += 280) {
      list.scrollTop = top - 140
      await frame()
      await new Promise((resolve) => setTimeout(resolve, 149))
      list.scrollTop = top
      for (const end = performance.now() + 3; performance.now() < end; ) {}
      await frame()
      kept.push(list.scrollTop)
    }
    list.scrollTop = list.scrollHeight
    return kept
  })()`)
  assert.deepEqual(
    await within('twenty pairs of scrolls', scroll),
    Array.from({ length: 20 }, (_, round) => 280 * (round + 1)),
  )
  await page.locator(line(1)).waitFor()
  assert.deepEqual(errors, [])
})

test('a list stays where it was scrolled to when lines come before the scroll is announced', options, async (t) => {
  const server = await startProgram(t, { data: { rows: [] } })
  const { page, errors } = await openPage(t, `${server.url}/journal.html`)
  const kept = page.evaluate(`(async () => {
    const { virtualList } = await import('/pages/js/virtual-list.js')
    const place = document.body.appendChild(document.createElement('div'))
    place.style.cssText = 'height: 280px; overflow-y: auto'
    const list = virtualList(place, { newRow: () => document.createElement('li'), show: () => true, onView() {} })
    list.resize(500)
    place.scrollTop = 2800
    list.resize(503, 3)
    return place.scrollTop
  })()`)
  assert.equal(await within('a scroll', kept), 2800 + 3 * 28)
  assert.deepEqual(errors, [])
})

test('events that could not be read for a while appear when the server sends them', options, async (t) => {
  const rows = Array.from({ length: 500 }, (_, id) => ({ id }))
  const server = await startProgram(t, { data: { rows } })
  const { page } = await openPage(t, `${server.url}/journal.html`)
  await page.locator(line(501)).waitFor()
  let refused = 0
  await page.route(/events\?from=/, async (route) => {
    if (refused++ > 3) return route.continue()
    // As when the network of the browser's machine changes.
    if (refused === 1) return route.abort()
    await route.fulfill({ status: 503, headers: { 'Retry-After': '1' }, json: { title: 'Too busy' } })
  })
  await page.evaluate("document.getElementById('list').scrollTop = document.getElementById('list').scrollHeight")
  await page.locator(line(1)).waitFor()
  assert.ok(refused > 4)
})

test('the address contains the filters, which find the same as the API', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  await change(server)
  const { page, errors } = await openPage(t, `${server.url}/journal.html`)
  await page.locator(line(40)).waitFor()
  await page.getByLabel('Collection', { exact: true }).fill('sensors')
  await page.getByLabel('Collection', { exact: true }).press('Enter')
  await page.getByText('9 events', { exact: true }).waitFor()
  await page.getByLabel('Type', { exact: true }).selectOption('ItemPatched')
  await page.getByText('2 events', { exact: true }).waitFor()
  await page.getByLabel('Type', { exact: true }).selectOption('')
  await page.getByLabel('Id', { exact: true }).fill(MAC)
  await page.getByLabel('Id', { exact: true }).press('Enter')
  await page.getByText('4 events', { exact: true }).waitFor()
  await page.getByLabel('Actor').fill('data-file')
  await page.getByLabel('Actor').press('Enter')
  await page.getByText('1 event', { exact: true }).waitFor()
  const again = await openPage(t, page.url())
  await again.page.getByText('1 event', { exact: true }).waitFor()
  assert.equal(await again.page.getByLabel('Id', { exact: true }).inputValue(), MAC)

  await page.getByRole('button', { name: 'Clear' }).click()
  await page.getByText('40 events', { exact: true }).waitFor()
  await page.getByLabel('Until').fill('2000-01-01T00:00:00')
  await page.getByText('Nothing matches.').waitFor()
  await page.goBack()
  await page.getByText('40 events', { exact: true }).waitFor()

  // Matching events are inserted at the top as they come.
  await page.goto(`${server.url}/journal.html?type=ItemDeleted`)
  await page.getByText('1 event', { exact: true }).waitFor()
  await server.fetch('/api/sensors/F4:A5:74:89:16:57', { method: 'DELETE' })
  await page.getByText('2 events', { exact: true }).waitFor()
  await page.locator(line(41)).waitFor()
  assert.deepEqual([...errors, ...again.errors], [])
})

test('any two revisions of an item are compared', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  await change(server)
  const { page, errors } = await openPage(t, `${server.url}/journal.html?event=39`)
  await panel(page).locator('.timeline > li').last().getByRole('button', { name: 'Compare with it' }).click()
  await panel(page).getByText('Differences from revision 1 to revision 3').waitFor()
  assert.deepEqual(
    (await changed(page)).map((text) => text.replace(/\s+/g, ' ').trim()),
    ['~ changed data.humidity 42.5 → 60'],
  )
  assert.deepEqual(errors, [])
})

test('a selected moment of the past ends the list there, and everything can be restored to it', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  await change(server)
  const then = await answered(server, '/api/sensors?asOf=37')
  const { page, errors } = await openPage(t, `${server.url}/journal.html?at=37`)
  await page.getByText('37 events', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Restore this moment…' }).click()
  await page.getByRole('dialog').getByText(`created: sensors/${MAC}`).waitFor()
  await page
    .getByRole('dialog')
    .getByRole('button', { name: /^Restore, \d events?$/ })
    .click()
  await page.getByText(/^Everything restored by/).waitFor()
  assert.deepEqual(await answered(server, '/api/sensors'), then)
  assert.deepEqual(errors, [])
})

test('a restore can be previewed, done and undone', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE })
  await change(server)
  const { page, errors } = await openPage(t, `${server.url}/journal.html?event=38`)
  const dialog = page.getByRole('dialog')
  await panel(page).getByRole('button', { name: 'Back to this…' }).click()
  await dialog.getByText(`created: sensors/${MAC}`).waitFor()
  assert.deepEqual(await barriers(page), [])
  assert.equal(await answered(server, `/api/sensors/${MAC}`), 404, 'trying changes nothing')
  await dialog.getByRole('button', { name: 'Everything' }).click()
  await dialog.getByText(`created: sensors/${MAC}`).waitFor()
  await dialog.getByRole('button', { name: `sensors/${MAC}` }).click()
  await dialog.getByRole('button', { name: 'Restore, 1 event' }).click()
  await page.getByText(`sensors/${MAC} restored by 1 event.`).waitFor()
  assert.deepEqual(await answered(server, `/api/sensors/${MAC}/data/note`), 'damp')
  await page.locator(line(41)).waitFor()
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByText('Undone by 1 event.').waitFor()
  assert.equal(await answered(server, `/api/sensors/${MAC}`), 404)
  assert.deepEqual(errors, [])
})

test('the page shows the position of the journal, its segments, and whether it is intact', options, async (t) => {
  const rows = Array.from({ length: 300 }, (_, id) => ({ id, text: 'x'.repeat(1000) }))
  const server = await startProgram(t, { data: { rows }, flags: ['--Journal.SegmentBytes', '65536'] })
  for (let more = 0; more < 100; more++) {
    await server.fetch('/api/rows', json('POST', { text: 'x'.repeat(2000) }))
  }
  const { page, errors } = await openPage(t, `${server.url}/journal.html`)
  const health = page.locator('#health')
  await health.getByText('401', { exact: true }).waitFor()
  const { journal } = (await answered(server, '/health')) as { journal: { segments: { first: number }[] } }
  assert.ok(journal.segments.length > 2)
  await health.getByText(`${journal.segments.length} segments`).waitFor()
  const shown = async () => (await health.locator('.segments li').count()) === journal.segments.length
  await until('every segment', shown)
  await health.getByRole('button', { name: 'Verify the journal' }).click()
  await health.getByText('Whole: 401 events').waitFor()
  assert.deepEqual(errors, [])
})

test('a user who is no admin sees the journal without the actions restore and verify', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE, flags: authentication(['apikey']) })
  const { page, errors } = await openPage(t, `${server.url}/journal.html?event=3&at=20`)
  await page.locator('#account').click()
  await page.getByLabel('API key').fill(keyOf('writer'))
  await page.getByRole('dialog').getByRole('button', { name: 'Sign in' }).click()
  await panel(page).getByText('position 3', { exact: true }).waitFor()
  await page.getByText('20 events', { exact: true }).waitFor()
  await page.locator('#health').getByText('Position').waitFor()
  assert.equal(await page.getByRole('button', { name: /Restore|Back to|Verify/ }).count(), 0)
  assert.deepEqual(errors, [])
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
    await panel(page).locator('.diff').first().waitFor()
    assert.ok((await changed(page)).join().includes('\\u202e<img'))
    await page
      .locator(`#list .place:text-is(${JSON.stringify(`${attack}/${attack}`)})`)
      .first()
      .waitFor({ state: 'attached' })
    assert.equal(await overhang(page), 0)
    assert.equal(await page.locator('main img').count(), 0)
    assert.equal(await page.evaluate('globalThis.attacked'), undefined)
    assert.deepEqual([...errors, ...outside], [])
  }
})

test(`the list of ${EVENTS} events renders only a few dozen rows, wherever it is scrolled to`, options, async (t) => {
  const rows = Array.from({ length: EVENTS - 1 }, (_, id) => ({ id, n: id % 97 }))
  const server = await startProgram(t, { data: { rows } })
  const { page, errors } = await openPage(t, `${server.url}/journal.html`)
  const grouped = (position: number): string => new Intl.NumberFormat('en-GB').format(position)
  await page.locator(line(grouped(EVENTS))).waitFor()
  await page.evaluate(`globalThis.long = []
    new PerformanceObserver((list) => globalThis.long.push(...list.getEntries().map(({ duration }) => Math.round(duration))))
      .observe({ type: 'longtask' })`)
  const list = page.locator('#list')
  const nodes = async () => Number(await page.evaluate("document.querySelectorAll('#list *').length"))
  const first = await nodes()
  await list.hover()
  for (let turn = 0; turn < 40; turn++) await page.mouse.wheel(0, 700)
  for (const part of [0.1, 0.35, 0.6, 0.85]) {
    await page.evaluate(
      `document.getElementById('list').scrollTop = document.getElementById('list').scrollHeight * ${part}`,
    )
    const near = page.locator('#list li:not([hidden]) .verb:not(:empty)').first()
    await near.waitFor()
    assert.ok((await nodes()) <= first, 'rows are used again')
  }
  await page.evaluate("document.getElementById('list').scrollTop = document.getElementById('list').scrollHeight")
  await page.locator(line(1)).waitFor()
  await page.locator(`${line(2)} a`).focus()
  for (let turn = 0; turn < 60; turn++) await page.keyboard.press('ArrowUp')
  await page.locator(`${line(62)} a:focus`).waitFor()
  await page.evaluate("document.getElementById('list').scrollTop = 0")
  await page.locator(line(grouped(EVENTS))).waitFor()
  t.diagnostic(`tasks of more than 50 ms while scrolling: ${JSON.stringify(await page.evaluate('globalThis.long'))}`)
  const heap = Number(await page.evaluate('performance.memory?.usedJSHeapSize ?? 0'))
  t.diagnostic(`heap of the tab: ${Math.round(heap / 2 ** 20)} MiB`)
  assert.deepEqual(errors, [])
})
