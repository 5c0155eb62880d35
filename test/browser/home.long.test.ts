import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { barriers, holdBack, LOOKS, openPage, overhang, withoutBrowser } from '../support/browser.ts'
import { until } from '../support/deadline.ts'
import { startDemo } from '../support/demo.ts'
import { json, SAMPLE, spawnServer, startProgram } from '../support/server.ts'
import { startHere } from '../support/service.ts'

const options = { skip: withoutBrowser }
const HOUR = 3_600_000

const live = (page: Page) => page.locator('#state[data-state=live]').waitFor()
const rowOf = (page: Page, name: string) => page.locator(`.rows > li:has(.what-row a:text-is("${name}"))`)
const tileOf = (page: Page, name: string) => page.locator(`.multiple:has(h2:text-is("${name}"))`)
const lines = (page: Page) => page.locator('.feed li > p:first-child').allTextContents()
const strip = (page: Page) => page.getByRole('slider', { name: 'Moment' })
const at = (page: Page) => new URL(page.url()).searchParams.get('at')

for (const { name, ...look } of LOOKS) {
  test(
    `the home page, ${name}, now and in the past: no error, no request to another host, accessible`,
    options,
    async (t) => {
      const url = await startDemo(t)
      const { page, errors, outside } = await openPage(t, url, look)
      await live(page)
      await tileOf(page, 'Kitchen').waitFor()
      await page.locator('.feed li').nth(10).waitFor()
      assert.equal(await page.title(), 'Home · Recollect')
      assert.deepEqual([await barriers(page), await overhang(page)], [[], 0])

      await page.goto(`${url}/?at=${new Date(Date.now() - 30 * HOUR).toISOString()}`)
      await page.locator('.multiple .differs').nth(2).waitFor()
      await page.locator('.feed li').nth(10).waitFor()
      assert.match(await page.title(), /^\w{3} \d\d:\d\d · Home · Recollect$/)
      assert.deepEqual([await barriers(page), await overhang(page)], [[], 0])
      assert.deepEqual([errors, outside], [[], []])
    },
  )
}

test('a home of six sensors is complete after eight requests, with few elements', options, async (t) => {
  const url = await startDemo(t)
  const { page } = await openPage(t, 'about:blank')
  const requests: string[] = []
  page.on('request', (request) => requests.push(request.url().replace(/=[^&]*/g, '')))
  await page.goto(url)
  for (const name of ['Kitchen', 'Living room', 'Bedroom', 'Bathroom', 'Outside']) {
    await tileOf(page, name)
      .locator('.main', { hasText: /^-?[\d.]+°C$/ })
      .waitFor()
    await tileOf(page, name)
      .locator('.tile-line', { hasText: /^-?[\d.]+ to -?[\d.]+$/ })
      .waitFor()
  }
  await tileOf(page, 'Cellar').getByText('silent for 2 days').waitFor()
  await page.locator('.strip .changes[d^=M]').waitFor()
  await page.locator('.strip .deletions[d^=M]').waitFor()
  // A reading a second leads to the same ones again.
  const first = new Set(requests.slice(0, requests.findIndex((one) => one.includes('/sensordatas?')) + 1))
  assert.ok(first.size > 1 && first.size <= 8, [...first].join('\n'))
  assert.ok(Number(await page.evaluate('document.querySelectorAll("*").length')) <= 1500)
})

test(
  'the last day is replayed in 20 seconds, by the strip, the counts, the curves and the changes',
  options,
  async (t) => {
    const url = await startDemo(t)
    const { page, errors } = await openPage(t, 'about:blank')
    await page.clock.install()
    await page.goto(url)
    await live(page)
    await tileOf(page, 'Kitchen').waitFor()
    // From here on the page's clock stands, but for `runFor`: the replay must not end while a slow machine draws.
    await page.clock.pauseAt(Number(await page.evaluate('Date.now()')) + 10_000)
    await page.getByRole('button', { name: 'Replay the last day in 20 seconds' }).click()
    await page.locator('#state', { hasText: 'Replay 4320×' }).waitFor()
    const total = rowOf(page, 'sensordatas').locator('.total')
    const newest = page.locator('.feed li').first()
    const hand = page.locator('.strip-hand')
    const state = async () => [await total.textContent(), await newest.textContent(), await hand.getAttribute('style')]
    let before = await state()
    for (let turn = 0; turn < 3; turn++) {
      await page.clock.runFor(4000)
      await until('other numbers, changes and another place in time', async () => {
        await page.clock.runFor(20)
        const after = await state()
        return after.every((text, index) => text !== before[index])
      })
      before = await state()
    }
    await page.locator('.multiple .later').first().waitFor()
    await until('the present', async () => {
      await page.clock.runFor(1000)
      return (await page.locator('#state').textContent())?.includes('Live')
    })
    assert.deepEqual([at(page), errors], [null, []])
  },
)

test('each request is a line that says what changed, and new ones appear', options, async (t) => {
  const data = { posts: [{ id: 1, title: 'a' }], notes: [{ id: 1 }, { id: 2 }], profile: { name: 'Ada' } }
  const server = await startProgram(t, { data })
  const { page, errors } = await openPage(t, server.url)
  await live(page)
  await rowOf(page, 'posts').getByText('1 item').waitFor()
  await rowOf(page, 'profile').getByText('object').waitFor()
  await server.fetch('/api/posts/1', json('PATCH', { title: 'b', tag: 'x' }))
  await server.fetch('/api/profile', json('PATCH', { name: '<b>Grace</b>' }))
  await server.fetch('/api/posts', json('POST', [{ title: 'c' }, { title: 'd' }]))
  await server.fetch('/api/notes?id_gte=1', { method: 'DELETE' })
  await page.locator('.feed li').nth(4).waitFor()
  assert.deepEqual(
    (await lines(page)).map((one) => one.trim()),
    [
      'notes: 2 items deleted',
      'posts: 2 items created',
      'profile name Ada → <b>Grace</b>',
      'posts/1 title and 1 more a → b',
      'data-file · posts, notes, profile: 4 items created',
    ],
  )
  await page.locator('.feed .deletion').getByText('notes').waitFor()
  await rowOf(page, 'posts').getByText('3 items').waitFor()
  await rowOf(page, 'notes').getByText('0 items').waitFor()
  assert.deepEqual(errors, [])
})

test('a request is undone, unless its items have changed since', options, async (t) => {
  const server = await startProgram(t, {
    data: {
      posts: [
        { id: 1, title: 'a' },
        { id: 2, title: 'x' },
      ],
    },
  })
  const titles = async () =>
    ((await (await server.fetch('/api/posts')).json()) as { title: string }[]).map((one) => one.title)
  await server.fetch('/api/posts/1', json('PATCH', { title: 'b' }))
  await server.fetch('/api/posts/2', json('PATCH', { title: 'y' }))
  await server.fetch('/api/posts/2', json('PATCH', { title: 'z' }))
  const { page } = await openPage(t, server.url)
  await page.getByRole('button', { name: 'Undo: posts/1 title' }).click()
  await page.getByText('Undone by 1 event.').waitFor()
  assert.deepEqual(await titles(), ['a', 'z'])
  await page.getByRole('button', { name: 'Undo: posts/2 title' }).last().click()
  await page.getByText('posts/2 has changed since').waitFor()
  assert.deepEqual(await titles(), ['a', 'z'])
})

test('a moment of the past is reached by the keyboard, and shows what differs from now', options, async (t) => {
  const server = await startProgram(t, { data: { posts: [{ id: 1 }], notes: [{ id: 1 }] } })
  await server.fetch('/api/posts', json('POST', { title: 'b' }))
  await server.fetch('/api/posts', json('POST', { title: 'c' }))
  const { page, errors } = await openPage(t, server.url)
  await live(page)
  await rowOf(page, 'posts').getByText('3 items').waitFor()
  await strip(page).focus()
  await page.keyboard.press('ArrowLeft')
  await rowOf(page, 'posts')
    .locator('.what-row', { hasText: /2 items\s*now 3,/ })
    .waitFor()
  assert.equal(at(page), '5')
  await page.locator('.rows > .differs').waitFor()
  assert.equal(await page.locator('.rows > .differs').count(), 1)
  await page.keyboard.press('ArrowLeft')
  await page.keyboard.press('ArrowLeft')
  await page.keyboard.press('ArrowLeft')
  await rowOf(page, 'notes')
    .locator('.what-row', { hasText: /did not exist\s*now 1,/ })
    .waitFor()
  assert.match(String(await strip(page).getAttribute('aria-valuetext')), /^\d\d:\d\d:\d\d, position 2 of 6$/)
  await page.keyboard.press('Shift+ArrowLeft')
  await rowOf(page, 'posts')
    .locator('.what-row', { hasText: /did not exist\s*now 3,/ })
    .waitFor()
  assert.equal(at(page), '0')
  await page.keyboard.press('End')
  await rowOf(page, 'posts').locator('.total:text-is("3 items")').waitFor()
  assert.deepEqual([at(page), errors], [null, []])
})

test('the strip is dragged, zoomed, and says what is under the pointer', options, async (t) => {
  const url = await startDemo(t)
  const { page } = await openPage(t, url)
  await live(page)
  await page.locator('.strip .changes[d^=M]').waitFor()
  const { x, y, width } = (await strip(page).boundingBox()) as { x: number; y: number; width: number }
  await page.mouse.move(x + width / 2, y + 20)
  await page.locator('.strip-hover', { hasText: /\d\d:\d\d, \d+ changes, hub/ }).waitFor()
  await page.mouse.down()
  await page.mouse.move(x + width / 4, y + 20)
  await page.mouse.up()
  await page.locator('#state', { hasText: 'Viewing' }).waitFor()
  await until('a position', () => Number(at(page)) > 1000)
  const ticks = await page.locator('.strip-tick').allTextContents()
  await strip(page).focus()
  for (let times = 0; times < 4; times++) await page.keyboard.press('[')
  await until('other ticks', async () => {
    const found = await page.locator('.strip-tick').allTextContents()
    return found.length > 0 && found.join() !== ticks.join()
  })
  await strip(page).dblclick()
  await until(
    'the first ticks',
    async () => (await page.locator('.strip-tick').allTextContents()).join() === ticks.join(),
  )
  await page.getByRole('button', { name: 'Back to now' }).click()
  await page.locator('#state[data-state=live]').waitFor()
})

test('keys of the strip that are pressed before the first answer comes all count', options, async (t) => {
  const url = await startDemo(t)
  const { page, errors } = await openPage(t, url)
  await live(page)
  await page.locator('.strip .changes[d^=M]').waitFor()
  const read = async (attribute: string) => Number(await strip(page).getAttribute(attribute))
  const spanShown = async () => (await read('aria-valuemax')) - (await read('aria-valuemin'))
  const press = async (key: string, addresses: string): Promise<void> => {
    const release = await holdBack(page, addresses)
    for (let times = 0; times < 3; times++) await page.keyboard.press(key)
    await release()
  }
  await strip(page).focus()
  await press('PageDown', '**/events?until=*')
  await until('three days ago', async () => (await read('aria-valuenow')) < Date.now() - 71 * HOUR)
  const before = await spanShown()
  await press('[', '**/events?window=*')
  await until('an eighth of the time', async () => (await spanShown()) < before / 7)
  assert.deepEqual(errors, [])
})

test('a sensor is silent from its last reading on, not from the end of the window of its curve', options, async (t) => {
  const [now, window] = [Date.now(), HOUR / 2]
  const begin = Math.floor(now / window) * window
  // Its window has ended lately, or not yet.
  const last = (now - begin < 15.5 * 60_000 ? begin - window : begin) + 5000
  const readingOf = (mac: string, ms: number) => ({
    mac,
    timestamp: new Date(ms).toISOString(),
    data: { temperature: 20 },
  })
  const sensordatas = Array.from({ length: 6 }, (_, index) => [
    readingOf('Often', last - index * 1000),
    readingOf('Hourly', now - 60_000 - index * HOUR),
  ])
  const sensors = ['Often', 'Hourly'].map((id) => ({ ...readingOf(id, id === 'Often' ? last : now), id }))
  const flags = ['--Collections', '{"sensordatas": {"Time": "timestamp", "Latest": {"in": "sensors", "by": "mac"}}}']
  const data = { sensors, sensordatas: sensordatas.flat().map((reading, id) => ({ ...reading, id })) }
  const server = await startProgram(t, { data, flags })
  const { page, errors } = await openPage(t, server.url)
  await tileOf(page, 'Often').getByText('silent for').waitFor()
  assert.equal(await page.getByText('silent for').count(), 1)
  assert.deepEqual(errors, [])
})

test('an address that names no moment says so and shows the present', options, async (t) => {
  const server = await startProgram(t, { data: { posts: [{ id: 1 }] } })
  for (const text of ['yesterday', '77', '-5', '2026-13-01', '2999-01-01T00:00:00Z']) {
    const { page } = await openPage(t, `${server.url}/?at=${text}`)
    await page.getByRole('alert').getByText(`at=${text} in the address is not a moment`).waitFor()
    await live(page)
    await rowOf(page, 'posts').getByText('1 item').waitFor()
  }
})

test(
  'the sample shows its curves over the time that it has, and offers a home of six sensors once',
  options,
  async (t) => {
    const server = await startProgram(t, { data: SAMPLE })
    const { page, errors } = await openPage(t, server.url)
    await tileOf(page, 'Sensor 3A:11').getByText('21.5 to 22').waitFor()
    assert.equal(await page.getByText('silent').count(), 0)
    await page.getByText('npx --no-install recollect demo').waitFor()
    await page.getByRole('button', { name: 'Dismiss' }).click()
    await page.reload()
    await tileOf(page, 'Sensor 3A:11').waitFor()
    assert.equal(await page.getByText('npx --no-install recollect demo').count(), 0)
    assert.deepEqual(errors, [])
  },
)

test('a server without collections shows how to make the first one', options, async (t) => {
  const server = await startProgram(t, { data: {} })
  const { page, errors } = await openPage(t, server.url)
  await page.getByText(`curl ${server.url}/api/notes`).waitFor()
  await server.fetch('/api/notes', json('POST', { text: 'Hello' }))
  await rowOf(page, 'notes').getByText('1 item').waitFor()
  assert.deepEqual(errors, [])
})

test('more collections than an answer has rows are shown, with the bars of all together', options, async (t) => {
  const data = Object.fromEntries(Array.from({ length: 60 }, (_, n) => [`c${n}`, [{ id: 1 }]]))
  const server = await startProgram(t, { data, flags: ['--Limits.PageSize', '50'] })
  const { page } = await openPage(t, server.url)
  await page.locator('.strip .changes[d^=M]').waitFor()
  await rowOf(page, 'c59').getByText('1 item').waitFor()
  await page.locator('.feed li').first().waitFor()
})

test('a server that refuses long pages is quoted in place of the changes', options, async (t) => {
  const server = await startProgram(t, { data: { posts: [{ id: 1 }] }, flags: ['--Limits.PageSize', '10'] })
  const { page } = await openPage(t, server.url)
  await page.locator('.feed').getByText('The parameter limit must be between 1 and 10.').waitFor()
  await rowOf(page, 'posts').getByText('1 item').waitFor()
})

test('a replay says how fast it is and what it shows, and when it has ended', options, async (t) => {
  let ms = Date.parse('2026-11-20T10:00:00Z')
  const data = { posts: [{ id: 1, title: 'a' }] }
  const written = await startHere(t, { data, now: () => new Date(ms) })
  for (const title of ['b', 'c']) {
    await written.fetch('/api/posts/1', json('PATCH', { title }))
    ms += HOUR
  }
  await written.stop()
  const openReplay = async (from: number) => {
    const flags = ['replay', 'db.json', '--from', String(from), '--port', '0']
    const replay = spawnServer(t, written.directory, { isBare: true, flags })
    const url = await replay.listening()
    assert.ok(url, replay.stderr())
    return openPage(t, url, { timezoneId: 'UTC' })
  }
  const running = await openReplay(3)
  await running.page.locator('#state', { hasText: /^Replay 1× · .*10:0\d/ }).waitFor()
  await running.page.locator('.feed li').getByText('posts/1 title a → b').waitFor()
  assert.equal(await running.page.getByRole('button', { name: 'Undo' }).count(), 0)
  const ended = await openReplay(4)
  await ended.page.locator('#state', { hasText: /^Replay ended · .*11:00/ }).waitFor()
  await ended.page.locator('.feed li').getByText('posts/1 title b → c').waitFor()
  assert.deepEqual([running.errors, ended.errors], [[], []])
})

test('an address of the page as it was before leads to the collections', options, async (t) => {
  const server = await startProgram(t, { data: { posts: [{ id: 1 }] } })
  const { page } = await openPage(t, `${server.url}/?collection=posts&item=1`)
  await page.waitForURL(/collections\.html\?collection=posts&item=1$/)
})
