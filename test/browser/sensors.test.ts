import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { test } from 'node:test'
import { openPage, withoutBrowser } from '../support/browser.ts'
import { json, startServer } from '../support/server.ts'

const UPSERT = ['--Api.UpsertOnPut', 'true']
const SAMPLE = JSON.parse(readFileSync(new URL('../../data/sensors.json', import.meta.url), 'utf8'))
const MAC = 'F4:A5:74:89:16:57'
const options = { skip: withoutBrowser, timeout: 60_000 }

const card = (mac: string): string => `#sensors > li:has(h2:text-is(${JSON.stringify(mac)}))`
const reading = (mac: string, temperature: unknown) => ({ id: mac, mac, data: { temperature } })

test('the page shows the latest reading of each sensor, without an error or an outside request', options, async (t) => {
  const server = await startServer(t, { data: SAMPLE })
  const { page, errors, outside } = await openPage(t, `${server.url}/sensors.html`)
  await page.locator('#connection[data-state=live]').waitFor()
  await page.getByText('5 sensors, position').waitFor()
  assert.deepEqual(await page.locator('#sensors h2').allTextContents(), [
    'F4:A5:74:89:16:57',
    'DC:25:EF:B0:3A:11',
    'C8:7B:21:0E:94:6D',
    'E1:09:5C:D2:77:40',
    'D6:44:AB:18:E3:9F',
  ])
  assert.deepEqual(await page.locator(`${card('DC:25:EF:B0:3A:11')} :is(time, dt, dd)`).allTextContents(), [
    '2026-11-20 12:50:07',
    'humidity',
    '42.5',
    'temperature',
    '21.5',
    'pressure',
    '1013.1',
    'battery',
    '3005',
  ])
  assert.equal(
    await page
      .locator(`${card(MAC)} dd`)
      .last()
      .textContent(),
    '–',
    'an identifier that is null',
  )
  assert.equal(await page.title(), 'Sensors · Recollect')
  assert.equal(await page.getByRole('heading', { level: 1 }).textContent(), 'Sensors')
  assert.equal(await page.getByRole('status').textContent(), 'Live')
  assert.deepEqual(errors, [])
  assert.deepEqual(outside, [])
})

test('a reading that arrives shows without a reload, and that item alone is read again', options, async (t) => {
  const server = await startServer(t, { data: SAMPLE, flags: UPSERT })
  const { page, errors, outside } = await openPage(t, `${server.url}/sensors.html`)
  await page.locator('#connection[data-state=live]').waitFor()
  await page.waitForLoadState('networkidle')
  await page.evaluate('globalThis.loaded = "once"')
  const asked: string[] = []
  page.on('request', (request) => asked.push(decodeURIComponent(new URL(request.url()).search)))

  await server.fetch(`/api/sensors/${MAC}`, json('PUT', reading(MAC, 33.25)))
  await page.locator(`${card(MAC)} dd:text-is("33.25")`).waitFor()
  assert.deepEqual(await page.locator(`${card(MAC)} dt`).allTextContents(), ['temperature'])

  await server.fetch('/api/sensors/NEW', json('PUT', reading('NEW', 1)))
  await page.locator(card('NEW')).waitFor()
  await server.fetch('/api/sensors/NEW', json('PATCH', { data: { temperature: 2 } }))
  await page.locator(`${card('NEW')} dd:text-is("2")`).waitFor()
  await server.fetch('/api/sensors/NEW', { method: 'DELETE' })
  await page.locator(card('NEW')).waitFor({ state: 'detached' })

  assert.equal(asked[0], `?id=${MAC}`)
  for (const search of asked) assert.match(search, /^\?id=(F4:A5:74:89:16:57|NEW)$/)
  assert.equal(await page.evaluate('globalThis.loaded'), 'once')
  assert.deepEqual(errors, [])
  assert.deepEqual(outside, [])
})

test('the changes of a moment are read in few requests, and the last one shows', options, async (t) => {
  const macs = Array.from({ length: 50 }, (_, index) => `S${index}`)
  const server = await startServer(t, { data: { sensors: macs.map((mac) => reading(mac, 0)) } })
  const { page, errors } = await openPage(t, `${server.url}/sensors.html`)
  await page.locator('#connection[data-state=live]').waitFor()
  await page.waitForLoadState('networkidle')
  let asked = 0
  page.on('request', () => asked++)
  for (let round = 1; round <= 10; round++) {
    await Promise.all(macs.map((mac) => server.fetch(`/api/sensors/${mac}`, json('PUT', reading(mac, round)))))
  }
  for (const mac of macs) await page.locator(`${card(mac)} dd:text-is("10")`).waitFor()
  assert.ok(asked < 250, `${asked} requests for 500 changes`)
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
  const odd = [
    { id: 7 },
    { id: 8, mac: null, data: null },
    { id: 9, mac: { a: 1 }, data: [1, 2], timestamp: 5 },
    { id: '\u202e\u0000', data: 'plain' },
  ]
  const server = await startServer(t, { data: { sensors: [hostile, ...odd] }, flags: UPSERT })
  const { page, errors, outside } = await openPage(t, `${server.url}/sensors.html`)
  await page.getByText('5 sensors, position').waitFor()
  await page.locator('#connection[data-state=live]').waitFor()
  const first = page.locator('#sensors > li').first()
  assert.equal(await first.locator('h2').textContent(), attack)
  assert.equal(await first.locator('time').textContent(), attack)
  assert.deepEqual(await first.locator('dt').allTextContents(), [attack, 'a\nb', 'a', 'constructor', 'nested'])

  await server.fetch('/api/sensors/later', json('PUT', { ...hostile, id: 'later', mac: `${attack}!` }))
  await page.getByText(`${attack}!`).waitFor()
  assert.equal(await page.locator('#sensors :is(img, script, b, a)').count(), 0)
  assert.equal(await page.evaluate('globalThis.attacked'), undefined)
  assert.deepEqual(errors, [])
  assert.deepEqual(outside, [])
})

test('a server without sensors is shown as such, with links, until there is one', options, async (t) => {
  const server = await startServer(t, { data: { books: [], 'a/b <i>': [] } })
  const { page, errors } = await openPage(t, `${server.url}/sensors.html`)
  const missing = page.locator('#missing')
  await missing.waitFor()
  const anchors = await missing.locator('a').all()
  const links = await Promise.all(anchors.map((anchor) => anchor.getAttribute('href')))
  assert.deepEqual(links, ['/swagger/', '/api', '/api/books', '/api/a%2Fb%20%3Ci%3E'])
  for (const link of links) assert.equal((await server.fetch(String(link))).status, 200, String(link))
  await page.locator('#connection[data-state=live]').waitFor()
  await server.fetch('/api/sensors', json('POST', { mac: MAC, data: { temperature: 21 } }))
  await page.locator(card(MAC)).waitFor()
  assert.ok(await missing.isHidden())
  await server.fetch('/api/sensors/0', { method: 'DELETE' })
  await page.locator('#empty').waitFor()
  assert.deepEqual(errors, [])
})

test('all sensors are shown when they fill more than one page of the answer', options, async (t) => {
  const sensors = Array.from({ length: 600 }, (_, index) => reading(`S${index}`, index))
  const server = await startServer(t, { data: { sensors } })
  const { page, errors } = await openPage(t, `${server.url}/sensors.html`)
  await page.getByText('600 sensors, position').waitFor()
  assert.equal(await page.locator('#sensors > li').count(), 600)
  assert.deepEqual(errors, [])
})

test('the page says when the connection is lost, and shows what it missed when it is back', options, async (t) => {
  const server = await startServer(t, { data: SAMPLE, flags: UPSERT })
  const line = await cuttableLine(t, server.url)
  const { page } = await openPage(t, `${line.url}sensors.html`)
  await page.locator('#connection[data-state=live]').waitFor()
  await line.cut()
  await page.locator('#connection[data-state=lost]').waitFor()
  assert.equal(await page.getByRole('status').textContent(), 'Disconnected, trying again…')
  await server.fetch(`/api/sensors/${MAC}`, json('PUT', reading(MAC, -7.5)))
  await server.fetch('/api/sensors/DC:25:EF:B0:3A:11', { method: 'DELETE' })
  await line.mend()
  await page.locator('#connection[data-state=live]').waitFor()
  await page.locator(`${card(MAC)} dd:text-is("-7.5")`).waitFor()
  await page.locator(card('DC:25:EF:B0:3A:11')).waitFor({ state: 'detached' })
})

test('nothing is wider than a phone, whatever a sensor sends', options, async (t) => {
  const long = 'W'.repeat(300)
  const sensors = [...SAMPLE.sensors, { id: long, mac: long, timestamp: long, data: { [long]: long } }]
  const server = await startServer(t, { data: { sensors } })
  const { page } = await openPage(t, `${server.url}/sensors.html`)
  for (const width of [320, 390, 768]) {
    await page.setViewportSize({ width, height: 700 })
    await page.getByText('6 sensors, position').waitFor()
    assert.equal(await page.evaluate('document.documentElement.scrollWidth'), width)
  }
})

/** Carries connections to a server, until it is cut. */
async function cuttableLine(t: { after(hook: () => unknown): void }, url: string) {
  const target = new URL(url)
  const ends = new Set<Socket>()
  const line = createServer((near) => {
    const far = connect(Number(target.port), target.hostname)
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      ends.add(from)
      from.on('error', () => to.destroy())
      from.on('close', () => ends.delete(from))
      from.pipe(to)
    }
  })
  const listen = (port: number) => new Promise<void>((resolve) => line.listen(port, '127.0.0.1', resolve))
  const cut = (): Promise<void> => {
    const closed = new Promise<void>((resolve) => line.close(() => resolve()))
    for (const end of ends) end.destroy()
    return closed
  }
  await listen(0)
  t.after(cut)
  const { port } = line.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}/`, cut, mend: () => listen(port) }
}
