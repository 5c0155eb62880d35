import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { barriers, LOOKS, openPage, overhang, withoutBrowser } from '../support/browser.ts'
import { until } from '../support/deadline.ts'
import { json, startProgram } from '../support/server.ts'

const UPSERT = ['--Api.UpsertOnPut', 'true']
const TIME = ['--Collections', '{"sensordatas": {"Time": "timestamp"}}']
const SAMPLE = twoHoursAgo(JSON.parse(readFileSync(new URL('../../data/sensors.json', import.meta.url), 'utf8')))
const MAC = 'F4:A5:74:89:16:57'
const options = { skip: withoutBrowser }

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
  test(`the sensors page, ${name}: no error, no request to another host, accessible`, options, async (t) => {
    const server = await startProgram(t, { data: SAMPLE, flags: UPSERT })
    const { page, errors, outside } = await openPage(t, `${server.url}/sensors.html`, look)
    await live(page)
    await page.getByText('5 sensors').waitFor()
    await page.getByText('6 readings').waitFor()
    assert.equal(await page.locator('figure').first().isVisible(), true, 'a chart before anything was chosen')
    const search = page.getByRole('searchbox', { name: 'Search sensors' })
    await search.fill('dc:25:ef')
    await page.getByText('1 of 5 sensors').waitFor()
    const rest = page.locator(`${tile('DC:25:EF:B0:3A:11')} .rest`)
    assert.equal(await rest.textContent(), 'humidity 42.5, pressure 1013.1, battery 3005')
    await search.fill(MAC)
    await page.locator(main(MAC, '19.75')).waitFor()
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
    assert.deepEqual(await barriers(page), [])
    assert.equal(await overhang(page), 0)
    assert.equal(await page.title(), `${MAC} · Sensors · Recollect`)
    assert.deepEqual(errors, [])
    assert.deepEqual(outside, [])
  })
}

test('a new reading appears in the tile and at the right edge of the chart without a reload', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE, flags: UPSERT })
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

test('without stored readings the chart shows the history of the item', options, async (t) => {
  const server = await startProgram(t, { data: { sensors: [] }, flags: UPSERT })
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

/** Whether a line of the first chart passes parts of its width. */
function areDrawn(page: Page, parts: readonly number[]): Promise<readonly boolean[]> {
  return page.evaluate<readonly boolean[]>(`(() => {
    const canvas = document.querySelector('.charts canvas')
    const plot = document.querySelector('.charts .u-over')
    const scale = canvas.width / canvas.clientWidth
    const wanted = getComputedStyle(document.documentElement).getPropertyValue('--accent').trim()
    const rgb = [1, 3, 5].map((at) => Number.parseInt(wanted.slice(at, at + 2), 16))
    return ${JSON.stringify(parts)}.map((part) => {
      const x = Math.round((plot.offsetLeft + plot.clientWidth * part) * scale)
      const { data } = canvas.getContext('2d').getImageData(x, 0, 1, canvas.height)
      for (let at = 0; at < data.length; at += 4) {
        if (rgb.every((part, index) => Math.abs(data[at + index] - part) < 20) && data[at + 3] > 200) return true
      }
      return false
    })
  })()`)
}

test('many readings are shown as averages with minimum and maximum', options, async (t) => {
  const COUNT = 30_000
  const began = Date.now() - COUNT * 1000
  const readings = Array.from({ length: COUNT }, (_, id) => ({
    ...reading(MAC, id / 8, new Date(began + id * 1000).toISOString().slice(0, -1)),
    id,
  }))
  // Nothing came for a while.
  const kept = readings.filter(({ id }) => id < 10_000 || id > 15_000)
  const last = { ...readings.at(-1), id: MAC }
  const server = await startProgram(t, { data: { sensors: [last], sensordatas: kept }, flags: TIME })
  const { page, errors } = await openPage(t, `${server.url}/sensors.html?sensor=${MAC}&range=all`)
  await page.getByText('24,999 readings, averages', { exact: true }).waitFor()
  const plot = page.locator('.charts .u-over').first()
  const box = await plot.boundingBox()
  assert.ok(box)
  for (const part of [0.1, 0.25, 0.8]) {
    await page.mouse.move(box.x + box.width * part, box.y + 20)
    await page.getByText('At the pointer:').waitFor()
    const average = Number(await value(page, 'temperature').locator('strong').textContent()) * 8
    assert.ok(Math.abs(average / COUNT - part) < 0.01, `${average} at ${part}`)
    const [least = 0, greatest = 0] = ((await value(page, 'temperature').locator('.quiet').textContent()) ?? '')
      .split(' to ')
      .map((text) => Number(text) * 8)
    assert.ok(least < average && average < greatest, `${average} of ${least} to ${greatest}`)
  }
  // A gap is drawn as one: in its middle no line crosses.
  const inked = await areDrawn(page, [0.2, 0.42, 0.8])
  assert.deepEqual(inked, [true, false, true])
  assert.deepEqual(errors, [])
})

test('a selected moment of the past shows the tiles and readings of that time', options, async (t) => {
  const server = await startProgram(t, { data: SAMPLE, flags: UPSERT })
  const at: number[] = []
  for (const temperature of [1, 2, 3]) {
    const now = reading(MAC, temperature)
    await server.fetch(`/api/sensors/${MAC}`, json('PUT', now))
    const answer = await server.fetch('/api/sensordatas', json('POST', now))
    at.push(Number(answer.headers.get('Journal-Position')))
  }
  await server.fetch('/api/sensors/NEW', json('PUT', reading('NEW', 1)))
  const { page, errors } = await openPage(t, `${server.url}/sensors.html?sensor=${MAC}&range=24h`)
  await page.locator(main(MAC, '3')).waitFor()
  await page.getByText('9 readings').waitFor()
  for (const [index, position] of at.entries()) {
    await page.goto(`${server.url}/sensors.html?sensor=${MAC}&range=24h&at=${position}`)
    const then = (await (await server.fetch(`/api/sensors?asOf=${position}`)).json()) as { id: string }[]
    await page.locator(main(MAC, String(index + 1))).waitFor()
    assert.deepEqual((await page.locator('#tiles h2').allTextContents()).sort(), then.map(({ id }) => id).sort())
    await page.getByText(`${7 + index} readings`, { exact: true }).waitFor()
  }
  await page.getByRole('button', { name: 'Back to now' }).click()
  await page.locator(tile('NEW')).waitFor()
  assert.deepEqual(errors, [])
})

test('markup sent by a client is shown as text', options, async (t) => {
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
  const server = await startProgram(t, { data: { sensors: [hostile, ...odd] } })
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

test(
  'without sensors the page explains what a sensor is, and shows the first one when it is created',
  options,
  async (t) => {
    const server = await startProgram(t, { data: { rooms: [] } })
    const { page, errors } = await openPage(t, `${server.url}/sensors.html`)
    await page.getByText('No sensor has sent a reading yet').waitFor()
    assert.match((await page.locator('.note pre').textContent()) ?? '', /^curl http.*\/api\/sensors .*"timestamp":/)
    await server.fetch('/api/sensors', json('POST', { mac: MAC, data: { temperature: 21 } }))
    await page.locator(main(MAC, '21')).waitFor()
    assert.equal(await page.getByText('No sensor has sent a reading yet').count(), 0)
    assert.deepEqual(errors, [])
  },
)

/** A data file with `count` sensors, each with a reading of an hour ago and one of now. */
function fleet(count: number, itemOf: (index: number, latest: ReturnType<typeof reading>) => unknown) {
  const name = (index: number): string => `S${String(index).padStart(4, '0')}`
  const at = (ms: number): string => new Date(Date.now() - ms).toISOString().slice(0, -1)
  const sensordatas = Array.from({ length: 2 * count }, (_, id) => ({
    ...reading(name(id >> 1), (id >> 1) + (id % 2), at(id % 2 === 0 ? 3_600_000 : 0)),
    id,
  }))
  const latest = sensordatas.filter(({ id }) => id % 2 === 1)
  return { sensors: latest.map((one, index) => itemOf(index, { ...one, id: one.mac })), sensordatas }
}

test('with 5,000 sensors only visible tiles are rendered, and only their readings are fetched', options, async (t) => {
  const server = await startProgram(t, { data: fleet(5000, (_, latest) => latest), flags: TIME })
  const { page, errors } = await openPage(t, `${server.url}/sensors.html`)
  const days: string[] = []
  page.on('request', (request) => {
    if (request.url().includes('window=30m') && request.url().includes('groupBy=mac')) days.push(request.url())
  })
  await page.getByText('5,000 sensors').waitFor()
  await page.locator(main('S0000', '1')).waitFor()
  await page.locator(`${tile('S0000')} .spark path[d^=M]`).waitFor()
  const nodes = async () => Number(await page.evaluate('document.querySelectorAll("*").length'))
  assert.ok((await nodes()) <= 1500, `${await nodes()} nodes`)
  // The first sensors are there before the others, so the page becomes longer.
  await until('the last tile', async () => {
    await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)')
    return (await page.locator(main('S4999', '5000')).count()) > 0
  })
  await page.locator(`${tile('S4999')} .spark path[d^=M]`).waitFor()
  assert.ok((await nodes()) <= 1500, `${await nodes()} nodes`)
  assert.equal(await page.locator(tile('S0000')).count(), 0)
  assert.ok(days.length < 10, `${days.length} times the days of tiles were read`)
  assert.equal(await page.locator(tile('S4999')).getAttribute('aria-posinset'), '5000')

  await page.getByLabel('Sort').selectOption('Highest first')
  await page.evaluate('scrollTo(0, 0)')
  await page.locator(`#tiles > li:first-child h2:text-is("S4999")`).waitFor()
  await page.getByRole('searchbox').fill('s123')
  await page.getByText('10 of 5,000 sensors').waitFor()
  await page.reload()
  await page.getByText('10 of 5,000 sensors').waitFor()
  assert.equal(await page.locator('#tiles h2').first().textContent(), 'S1239')
  assert.deepEqual(errors, [])
})

test('a strict server is asked for nothing that it refuses', options, async (t) => {
  const flags = [...TIME, '--Api.StrictQuery', 'true']
  const server = await startProgram(t, { data: fleet(70, (_, latest) => latest), flags })
  const { page, errors } = await openPage(t, `${server.url}/sensors.html`)
  await page.getByText('70 sensors').waitFor()
  await page.getByText('2 readings').waitFor()
  await page.locator(`${tile('S0000')} .spark path[d^=M]`).waitFor()
  assert.deepEqual(errors, [])
})

test('names and units come from the items; low batteries and silent sensors are marked', options, async (t) => {
  const units = { temperature: '°C', battery: '%' }
  const about = (mac: string, name: string) => ({ id: mac, mac, name, units })
  const old = new Date(Date.now() - 3_600_000).toISOString()
  const sensordatas = [
    { ...reading('A', 20), data: { temperature: 20, battery: 11 } },
    { ...reading('B', 30, old), data: { temperature: 30, battery: 90 } },
    { ...reading('C', 40) },
  ].map((one, id) => ({ ...one, id }))
  const sensors = [about('A', 'Kitchen'), about('B', 'Cellar')]
  const server = await startProgram(t, { data: { sensors, sensordatas }, flags: TIME })
  const { page, errors } = await openPage(t, `${server.url}/sensors.html?sensor=A`)
  await page.getByText('3 sensors, 1 silent, 1 with a low battery').waitFor()
  assert.deepEqual(await page.locator('#tiles h2').allTextContents(), ['C', 'Cellar', 'Kitchen'])
  assert.deepEqual(await page.locator(`${tile('Kitchen')} .main > *`).allTextContents(), ['20', '°C', 'temperature'])
  assert.equal(await page.locator(`${tile('Kitchen')} .badge`).textContent(), 'Low battery')
  assert.equal(await page.locator(`${tile('Cellar')} .badge`).count(), 0)
  assert.equal(await page.locator(`${tile('Cellar')} .silent`).count(), 1)
  await value(page, 'temperature').getByText('20 °C').waitFor()

  await server.fetch('/api/sensordatas', json('POST', reading('A', 21.5)))
  await server.fetch('/api/sensordatas', json('POST', reading('D', 50)))
  await page.locator(main('Kitchen', '21.5')).waitFor()
  await page.locator(main('D', '50')).waitFor()
  await value(page, 'temperature').getByText('21.5 °C').waitFor()
  assert.deepEqual(errors, [])
})

test('on a phone a tap on a tile scrolls to its chart, and the close button scrolls back', options, async (t) => {
  const server = await startProgram(t, { data: fleet(60, (_, latest) => latest), flags: TIME })
  const phone = { viewport: { width: 390, height: 800 }, hasTouch: true, reducedMotion: 'reduce' } as const
  const { page, errors } = await openPage(t, `${server.url}/sensors.html`, phone)
  await page.getByText('60 sensors').waitFor()
  await page.evaluate('scrollTo(0, 4000)')
  const far = page.locator(`${tile('S0020')} a`)
  await far.waitFor()
  await far.scrollIntoViewIfNeeded()
  await far.tap()
  await value(page, 'temperature').getByText('21').waitFor()
  await page.locator('#chosen:text-is("S0020")').waitFor()
  const plot = await page.locator('.charts canvas').first().boundingBox()
  assert.ok(plot && plot.y > 0 && plot.y + plot.height < 800, JSON.stringify(plot))
  await page.getByRole('button', { name: 'Back to all sensors' }).tap()
  await far.waitFor()
  await until('the tile is in view again', async () => {
    const box = await far.boundingBox()
    return box !== null && box.y >= 0 && Math.floor(box.y + box.height) <= phone.viewport.height
  })
  assert.deepEqual(errors, [])
})

test('a line joins few readings, however far apart they are', options, async (t) => {
  const at = (days: number): string => new Date(Date.now() - days * 86_400_000).toISOString()
  const sensordatas = [20, 3, 2.9, 2.8, 0].map((days, id) => ({ ...reading(MAC, 20, at(days)), id }))
  const server = await startProgram(t, {
    data: { sensors: [{ ...sensordatas[4], id: MAC }], sensordatas },
    flags: TIME,
  })
  const { page, errors } = await openPage(t, `${server.url}/sensors.html?range=30d`)
  await page.getByText('5 readings').waitFor()
  await page.locator('.charts canvas').waitFor()
  // Ten days ago nothing was measured.
  assert.deepEqual(await areDrawn(page, [2 / 3]), [true])
  assert.deepEqual(errors, [])
})

test('a line joins the readings of a sensor that sends more often at last, and none over a gap', options, async (t) => {
  const second = 1000
  const hour = 3600 * second
  const atNight = (ms: number): boolean => ms > 14 * hour && ms < 20 * hour
  const often = Array.from({ length: 60 }, (_, index) => index * 5 * second)
  const seldom = Array.from({ length: 47 }, (_, index) => (index + 1) * (hour / 2)).filter((ms) => !atNight(ms))
  const sensordatas = [...often, ...seldom].map((ms, id) => {
    return { ...reading(MAC, 20, new Date(Date.now() - ms).toISOString()), id }
  })
  const data = { sensors: [{ ...sensordatas[0], id: MAC }], sensordatas }
  const server = await startProgram(t, { data, flags: TIME })
  const { page, errors } = await openPage(t, `${server.url}/sensors.html`)
  await page.getByText(`${sensordatas.length} readings`).waitFor()
  await page.locator('.charts canvas').waitFor()
  assert.deepEqual(await areDrawn(page, [1 - 17 / 24, 1 - 8.2 / 24]), [false, true])
  assert.deepEqual(errors, [])
})

test('the readings of the selected time are a table to be exported, now and in the past', options, async (t) => {
  const at = (hours: number): string => new Date(Date.now() - hours * 3_600_000).toISOString()
  const sensordatas = [30, 20, 10].map((hours, id) => ({ ...reading(MAC, id, at(hours)), id }))
  const server = await startProgram(t, {
    data: { sensors: [{ ...sensordatas[2], id: MAC }], sensordatas },
    flags: TIME,
  })
  const position = Number((await server.fetch('/api/sensordatas')).headers.get('Journal-Position'))
  await server.fetch('/api/sensordatas', json('POST', { ...reading(MAC, 3), id: 3 }))
  for (const [search, ids] of [
    ['', ['3', '2', '1']],
    [`&at=${position}`, ['2', '1']],
  ] as const) {
    const { page, errors } = await openPage(t, `${server.url}/sensors.html?sensor=${MAC}${search}`)
    await page.getByText(`${ids.length} readings`, { exact: true }).waitFor()
    await page.getByRole('link', { name: 'These readings as a table' }).click()
    await page
      .locator('tbody tr')
      .nth(ids.length - 1)
      .waitFor()
    const rows = await page.locator('tbody tr').allTextContents()
    assert.deepEqual(rows.length, ids.length)
    await page.getByRole('button', { name: 'Export' }).waitFor()
    assert.deepEqual(errors, [])
  }
})

test(
  'when the server has no event time field, the newest readings are drawn, and the page says so',
  options,
  async (t) => {
    const sensordatas = Array.from({ length: 700 }, (_, id) => ({
      ...reading(MAC, id, new Date(Date.now() - (700 - id) * 60_000).toISOString()),
      id,
    }))
    const server = await startProgram(t, { data: { sensors: [{ ...sensordatas[699], id: MAC }], sensordatas } })
    const { page, errors } = await openPage(t, `${server.url}/sensors.html`)
    await page.getByText('The newest 500 of 700 readings').waitFor()
    await value(page, 'temperature').getByText('699', { exact: true }).waitFor()
    await page.locator(`${tile(MAC)} .spark path[d^=M]`).waitFor()
    assert.deepEqual(errors, [])
  },
)

test('the event time may be another field, in seconds', options, async (t) => {
  const now = Math.floor(Date.now() / 1000)
  const sensordatas = Array.from({ length: 700 }, (_, id) => ({
    id,
    mac: MAC,
    time: { at: now - (700 - id) * 60 },
    temperature: id,
  }))
  const flags = ['--Collections', '{"sensordatas": {"Time": "time.at"}}']
  const server = await startProgram(t, { data: { sensors: [], sensordatas }, flags })
  const { page, errors } = await openPage(t, 'about:blank')
  // The range ends at the time of the page, however long the page takes to open.
  await page.clock.setFixedTime(now * 1000)
  await page.goto(`${server.url}/sensors.html?range=6h`)
  await page.locator(main(MAC, '699')).waitFor()
  await page.getByText('360 readings', { exact: true }).waitFor()
  await page.getByText('24 h', { exact: true }).click()
  await page.getByText('700 readings, averages').waitFor()
  assert.deepEqual(errors, [])
})

test('the id of sensors may be another field', options, async (t) => {
  const { id: _, ...about } = { ...reading('A', 20), name: 'Kitchen' }
  const data = { sensors: [{ ...about, key: 'A' }], sensordatas: [{ ...about, key: 0 }] }
  const server = await startProgram(t, { data, flags: [...TIME, ...UPSERT, '--DataStore.IdField', 'key'] })
  const { page, errors } = await openPage(t, `${server.url}/sensors.html?sensor=A`)
  await page.locator(main('Kitchen', '20')).waitFor()
  await page.getByText('1 reading', { exact: true }).waitFor()
  await server.fetch('/api/sensors/A', json('PUT', { ...about, data: { temperature: 21 }, key: 'A' }))
  await page.locator(main('Kitchen', '21')).waitFor()
  assert.deepEqual(errors, [])
})
