import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { barriers, LOOKS, openPage, overhang, withoutBrowser } from '../support/browser.ts'
import { json, startServer } from '../support/server.ts'

const UPSERT = ['--Api.UpsertOnPut', 'true']
const SAMPLE = twoHoursAgo(JSON.parse(readFileSync(new URL('../../data/sensors.json', import.meta.url), 'utf8')))
const MAC = 'F4:A5:74:89:16:57'
const options = { skip: withoutBrowser, timeout: 120_000 }

const live = (page: Page) => page.locator('#state[data-state=live]').waitFor()
const tile = (mac: string): string => `#tiles > li:has(h2:text-is(${JSON.stringify(mac)}))`
const main = (mac: string, value: string): string => `${tile(mac)} .main strong:text-is("${value}")`
const reading = (mac: string, temperature: unknown, timestamp = new Date().toISOString().slice(0, -1)) => ({
  id: mac,
  mac,
  data: { temperature },
  timestamp,
})
const value = (page: Page, name: string) => page.locator(`figure:has(h3:text-is("${name}")) .values`)

/** The same readings, but that the last of them was two hours ago: the page shows a span of time up to now. */
function twoHoursAgo<T extends Record<string, readonly { readonly timestamp: string }[]>>(sample: T): T {
  const at = (timestamp: string): number => Date.parse(`${timestamp}Z`)
  const last = Math.max(...Object.values(sample).flatMap((items) => items.map(({ timestamp }) => at(timestamp))))
  const later = Date.now() - 2 * 60 * 60 * 1000 - last
  const moved = (timestamp: string): string => new Date(at(timestamp) + later).toISOString().slice(0, -1)
  const entries = Object.entries(sample).map(([name, items]) => [
    name,
    items.map((item) => ({ ...item, timestamp: moved(item.timestamp) })),
  ])
  return Object.fromEntries(entries) as T
}

for (const { name, ...look } of LOOKS) {
  test(`sensors and their readings, ${name}: no error, no outside request, no barrier`, options, async (t) => {
    const server = await startServer(t, { data: SAMPLE, flags: UPSERT })
    const { page, errors, outside } = await openPage(t, `${server.url}/sensors.html`, look)
    await live(page)
    await page.getByText('5 sensors').waitFor()
    await page.locator(main(MAC, '19.75')).waitFor()
    assert.deepEqual(await page.locator(`${tile('DC:25:EF:B0:3A:11')} dl > div`).allTextContents(), [
      'humidity42.5',
      'pressure1013.1',
      'battery3005',
    ])
    assert.deepEqual(await barriers(page), [])
    assert.equal(await overhang(page), 0)

    await page.locator(`${tile(MAC)} a`).click()
    await value(page, 'temperature').getByText('19.75').waitFor()
    await page.getByText('6 readings').waitFor()
    assert.deepEqual(
      await page.locator('figure h3').allTextContents(),
      ['temperature', 'humidity', 'pressure', 'battery', 'acceleration'],
      'one chart for each thing that is measured',
    )
    await page.getByText('The latest readings as a table').click()
    await page.locator('#table tbody tr').nth(5).waitFor()
    assert.deepEqual(await barriers(page), [])
    assert.equal(await overhang(page), 0)
    assert.equal(await page.title(), 'Sensors · Recollect')
    assert.deepEqual(errors, [])
    assert.deepEqual(outside, [])
  })
}

test('a reading that arrives shows without a reload, in the tile and at the right edge', options, async (t) => {
  const server = await startServer(t, { data: SAMPLE, flags: UPSERT })
  const { page, errors } = await openPage(t, `${server.url}/sensors.html?sensor=${MAC}`)
  await live(page)
  await page.getByText('6 readings').waitFor()
  await page.evaluate('globalThis.loaded = "once"')
  const now = reading(MAC, 33.25)
  await server.fetch(`/api/sensors/${MAC}`, json('PUT', now))
  await server.fetch('/api/sensordatas', json('POST', now))
  await page.locator(main(MAC, '33.25')).waitFor()
  await value(page, 'temperature').getByText('33.25').waitFor()

  await server.fetch('/api/sensors/NEW', json('PUT', reading('NEW', 1)))
  await page.locator(main('NEW', '1')).waitFor()
  await server.fetch('/api/sensors/NEW', json('PATCH', { data: { temperature: 2 } }))
  await page.locator(main('NEW', '2')).waitFor()
  await server.fetch('/api/sensors/NEW', { method: 'DELETE' })
  await page.locator(tile('NEW')).waitFor({ state: 'detached' })
  assert.equal(await page.evaluate('globalThis.loaded'), 'once')
  assert.deepEqual(errors, [])
})

test('where no readings are kept, the history of the item is the series', options, async (t) => {
  const server = await startServer(t, { data: { sensors: [] }, flags: UPSERT })
  for (const temperature of [20, 20.5, 21]) {
    await server.fetch(`/api/sensors/${MAC}`, json('PUT', reading(MAC, temperature)))
  }
  const { page, errors } = await openPage(t, `${server.url}/sensors.html?sensor=${MAC}`)
  await page.getByText('3 readings').waitFor()
  await value(page, 'temperature').getByText('21').waitFor()
  await server.fetch(`/api/sensors/${MAC}`, json('PUT', reading(MAC, 21.75)))
  await page.getByText('4 readings').waitFor()
  await value(page, 'temperature').getByText('21.75').waitFor()
  assert.deepEqual(errors, [])
})

test('the value under the pointer is that of the reading, however many there are', options, async (t) => {
  const COUNT = 30_000
  const began = Date.now() - COUNT * 1000
  const readings = Array.from({ length: COUNT }, (_, id) => ({
    ...reading(MAC, id / 8, new Date(began + id * 1000).toISOString().slice(0, -1)),
    id,
  }))
  // Nothing came for a while.
  const kept = readings.filter(({ id }) => id < 10_000 || id > 15_000)
  const last = { ...readings.at(-1), id: MAC }
  const server = await startServer(t, { data: { sensors: [last], sensordatas: kept } })
  const { page, errors } = await openPage(t, `${server.url}/sensors.html?sensor=${MAC}&span=all`)
  await page.getByText('24,999 readings', { exact: true }).waitFor()
  const plot = page.locator('.u-over').first()
  const box = await plot.boundingBox()
  assert.ok(box)
  for (const part of [0.1, 0.25, 0.8]) {
    await page.mouse.move(box.x + box.width * part, box.y + 20)
    await page.getByText('At the pointer:').waitFor()
    const [span] = await value(page, 'temperature').locator('strong').allTextContents()
    const id = Number(span) * 8
    assert.ok(kept.some((one) => one.id === id))
    assert.ok(Math.abs(id / COUNT - part) < 0.01, `${id} at ${part}`)
  }
  // A gap is drawn as one: in its middle no line crosses.
  const inked = await page.evaluate(`(() => {
    const canvas = document.querySelector('.u-wrap canvas')
    const { width, height } = canvas
    const plot = document.querySelector('.u-over')
    const scale = width / canvas.clientWidth
    const left = plot.offsetLeft * scale, wide = plot.clientWidth * scale
    const inkAt = (part) => {
      const { data } = canvas.getContext('2d').getImageData(Math.round(left + wide * part), 0, 1, height)
      const wanted = getComputedStyle(document.documentElement).getPropertyValue('--accent').trim()
      const [r, g, b] = [1, 3, 5].map((at) => Number.parseInt(wanted.slice(at, at + 2), 16))
      for (let at = 0; at < data.length; at += 4) {
        if (Math.abs(data[at] - r) + Math.abs(data[at + 1] - g) + Math.abs(data[at + 2] - b) < 60 && data[at + 3] > 200) return true
      }
      return false
    }
    return [0.2, 0.42, 0.8].map(inkAt)
  })()`)
  assert.deepEqual(inked, [true, false, true])
  assert.deepEqual(errors, [])
})

test('a moment of the past has the tiles and the readings that there were', options, async (t) => {
  const server = await startServer(t, { data: SAMPLE, flags: UPSERT })
  const at: number[] = []
  for (const temperature of [1, 2, 3]) {
    const now = reading(MAC, temperature)
    await server.fetch(`/api/sensors/${MAC}`, json('PUT', now))
    const answer = await server.fetch('/api/sensordatas', json('POST', now))
    at.push(Number(answer.headers.get('Journal-Position')))
  }
  await server.fetch('/api/sensors/NEW', json('PUT', reading('NEW', 1)))
  const { page, errors } = await openPage(t, `${server.url}/sensors.html?sensor=${MAC}&span=24h`)
  await page.locator(main(MAC, '3')).waitFor()
  await page.getByText('9 readings').waitFor()
  const slider = page.getByRole('slider', { name: 'Moment' })
  for (const [index, position] of at.entries()) {
    await slider.fill(String(position))
    const then = (await (await server.fetch(`/api/sensors?asOf=${position}`)).json()) as { id: string }[]
    await page.locator(main(MAC, String(index + 1))).waitFor()
    assert.deepEqual((await page.locator('#tiles h2').allTextContents()).sort(), then.map(({ id }) => id).sort())
    await page.getByText(`${7 + index} readings`, { exact: true }).waitFor()
  }
  await page.getByRole('button', { name: 'Live' }).click()
  await page.locator(tile('NEW')).waitFor()
  assert.deepEqual(errors, [])
})

test('what a client sends is shown as text, never as markup', options, async (t) => {
  const attack = '<img src="/x" onerror="globalThis.attacked = true"><script>globalThis.attacked = true</script>'
  const hostile = {
    id: attack,
    mac: attack,
    timestamp: attack,
    data: { [attack]: attack, 'a\nb': 1, a: 2, constructor: 3, nested: { [attack]: [attack, null] } },
    [attack]: attack,
  }
  const long = 'W'.repeat(300)
  const odd = [
    { id: 7 },
    { id: 8, mac: null, data: null },
    { id: 9, mac: { a: 1 }, data: [1, 2], timestamp: 5 },
    { id: '\u202e\u0000', data: 'plain' },
    { id: long, mac: long, timestamp: long, data: { [long]: long } },
    { id: 'big', data: { text: 'x'.repeat(10_240) } },
  ]
  const server = await startServer(t, { data: { sensors: [hostile, ...odd] } })
  for (const width of [320, 1280]) {
    const { page, errors, outside } = await openPage(
      t,
      `${server.url}/sensors.html?sensor=${encodeURIComponent(attack)}`,
      { viewport: { width, height: 800 } },
    )
    await page.getByText('7 sensors').waitFor()
    await page.locator('#chosen').getByText(attack).waitFor()
    await page.locator('figure').first().waitFor()
    assert.equal(await overhang(page), 0)
    assert.equal(await page.locator('main img, main script').count(), 0)
    assert.equal(await page.evaluate('globalThis.attacked'), undefined)
    assert.deepEqual([...errors, ...outside], [])
  }
})

test('where there are no sensors the page says what would be one, and shows it when it comes', options, async (t) => {
  const server = await startServer(t, { data: { rooms: [] } })
  const { page, errors } = await openPage(t, `${server.url}/sensors.html`)
  await page.getByText('No sensor has sent a reading yet').waitFor()
  await server.fetch('/api/sensors', json('POST', { mac: MAC, data: { temperature: 21 } }))
  await page.locator(main(MAC, '21')).waitFor()
  assert.ok(await page.locator('#empty').isHidden())
  assert.deepEqual(errors, [])
})
