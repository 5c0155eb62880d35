import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Page } from 'playwright-core'
import { authentication, passwordOf, tokenOf } from '../support/authentication.ts'
import { barriers, holdBack, type OpenPage, openPage, withoutBrowser } from '../support/browser.ts'
import { until } from '../support/deadline.ts'
import { startDemo } from '../support/demo.ts'
import { json, type RunningProgram, startProgram } from '../support/server.ts'

const options = { skip: withoutBrowser }
const HOUR = 3_600_000
const DAY = 24 * HOUR
const FLAGS = ['--Collections', '{"sensordatas": {"Time": "timestamp", "Latest": {"in": "sensors", "by": "mac"}}}']
const NAMES = ['Kitchen', 'Cellar', 'Attic'] as const

const status = (page: Page, text: string) => page.locator('#state-of-series').getByText(text, { exact: true }).waitFor()
const values = (page: Page) => page.locator('figure:has(h3:text-is("temperature")) .values')
const charted = (page: Page) => page.locator('#chosen').textContent()
const marked = (page: Page) => page.locator('#tiles [aria-current] h2').textContent()
const address = (page: Page) => new URL(page.url()).searchParams

/** Three sensors, each with a reading an hour over three days, up to so long ago. */
function house(agoMs = 60_000) {
  const last = Date.now() - agoMs
  const sensordatas = NAMES.flatMap((_, index) =>
    Array.from({ length: 72 }, (_, hour) => ({
      id: index * 72 + hour,
      mac: `M${index}`,
      timestamp: new Date(last - (71 - hour) * HOUR).toISOString(),
      data: { temperature: 10 * (index + 1) + Math.floor(hour / 24) + (hour % 2) / 2, humidity: 50 },
    })),
  )
  const units = { temperature: '°C', humidity: '%' }
  const sensors = NAMES.map((name, index) => {
    const { mac, timestamp, data } = sensordatas[index * 72 + 71] as (typeof sensordatas)[number]
    return { id: mac, mac, name, units, order: index, timestamp, data }
  })
  return { sensors, sensordatas }
}

async function open(t: TestContext, search = '', data = house()): Promise<OpenPage & { server: RunningProgram }> {
  const server = await startProgram(t, { data, flags: FLAGS })
  return { server, ...(await openPage(t, `${server.url}/sensors.html${search}`)) }
}

async function drag(page: Page, from: number, to: number): Promise<void> {
  const box = await page.locator('.charts .u-over').first().boundingBox()
  assert.ok(box)
  await page.mouse.move(box.x + box.width * from, box.y + 20)
  await page.mouse.down()
  await page.mouse.move(box.x + box.width * to, box.y + 20, { steps: 4 })
  await page.mouse.up()
}

test('a drag in a chart zooms, a double click zooms back, and so does Back', options, async (t) => {
  const { page, errors } = await open(t)
  await status(page, '24 readings')
  await page.locator('.extent').first().getByText('min 12 · average of readings 12.25 · max 12.5 °C').waitFor()
  await drag(page, 0.25, 0.5)
  await page.locator('#state-of-series', { hasText: /^[5-7] readings$/ }).waitFor()
  const [from, to] = ['from', 'to'].map((name) => Date.parse(address(page).get(name) ?? '')) as [number, number]
  assert.ok(Math.abs(to - from - 6 * HOUR) < HOUR / 4, `${to - from}`)
  assert.equal(await page.locator('#ranges :checked').count(), 0)
  await page.locator('.charts .u-over').nth(1).dblclick()
  await status(page, '24 readings')
  assert.equal(address(page).get('from'), null)
  await page.goBack()
  await page.locator('#state-of-series', { hasText: /^[5-7] readings$/ }).waitFor()
  assert.deepEqual(errors, [])
})

test('arrows and a calendar lead to another time, and to the present again', options, async (t) => {
  const { page, errors } = await open(t)
  await status(page, '24 readings')
  await page.getByRole('button', { name: 'Earlier' }).click()
  await until('the day before', async () => (await values(page).textContent())?.includes('11.5 °C') === true)
  await page.getByRole('button', { name: 'Earlier' }).click()
  await until('two days before', async () => (await values(page).textContent())?.includes('10.5 °C') === true)
  await page.getByRole('button', { name: 'Earlier' }).click()
  await page.getByText('None in this time; the last one was').waitFor()
  // Pressed before the first answer comes.
  const release = await holdBack(page, '**/api/sensordatas*')
  for (let times = 0; times < 3; times++) await page.getByRole('button', { name: 'Later' }).click()
  await release()
  await until('the present', () => address(page).get('to') === null)
  await status(page, '24 readings')
  await page.getByRole('button', { name: 'Later', disabled: true }).waitFor()

  const before = await page.evaluate(`(() => {
    const day = new Date(Date.now() - ${DAY})
    return [day.getFullYear(), day.getMonth() + 1, day.getDate()].map((part) => String(part).padStart(2, '0')).join('-')
  })()`)
  await page.getByLabel('Day shown').fill(String(before))
  await page
    .locator('.when')
    .getByText(/, 00:00 – \d+ \w+ \d+, 00:00/)
    .waitFor()
  await status(page, '24 readings')
  assert.deepEqual(errors, [])
})

test('the ranges are one tab stop, whose arrow keys choose, and so are the tiles', options, async (t) => {
  const { page, errors } = await open(t)
  await status(page, '24 readings')
  await page.getByLabel('Sort').focus()
  await page.keyboard.press('Tab')
  const focused = () => page.evaluate('document.activeElement.textContent + (document.activeElement.value ?? "")')
  assert.match(String(await focused()), /^Kitchen/)
  await page.keyboard.press('ArrowDown')
  await until('the next tile', async () => /^Attic|^Cellar/.test(String(await focused())))
  await page.keyboard.press('End')
  await until('the last tile', async () => /^Attic/.test(String(await focused())))
  await page.keyboard.press('Enter')
  await until('its chart', async () => (await charted(page)) === 'Attic')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Tab')
  await page.keyboard.press('Tab')
  assert.equal(await focused(), '24h')
  await page.keyboard.press('ArrowRight')
  await status(page, '72 readings')
  await page.keyboard.press('Tab')
  assert.equal(await page.evaluate('document.activeElement.ariaLabel'), 'Earlier')
  await page.keyboard.press('Escape')
  await until('the focus is in the tile again', async () => /^Attic/.test(String(await focused())))
  assert.deepEqual(errors, [])
})

test('several sensors and the time before are drawn in one chart, each with its value', options, async (t) => {
  const { page, errors } = await open(t)
  await status(page, '24 readings')
  await page.getByLabel('The time before').check()
  await values(page).getByText('before').waitFor()
  await page.getByLabel('Compare with a sensor').selectOption('Cellar')
  await values(page).getByText('Cellar').waitFor()
  assert.deepEqual(await values(page).locator('strong').allTextContents(), ['12.5 °C', '11.5 °C', '22.5 °C'])
  await page.reload()
  await values(page).getByText('Cellar').waitFor()
  await page.getByRole('button', { name: 'Without Cellar' }).click()
  await until('one line less', async () => (await values(page).locator('strong').count()) === 2)
  assert.deepEqual(errors, [])
})

test('a writer gives names, units, order and limits to the item; others are offered none', options, async (t) => {
  const server = await startProgram(t, { data: house(), flags: [...FLAGS, ...authentication(['token'])] })
  const signIn = async (user: 'reader' | 'writer') => {
    const opened = await openPage(t, `${server.url}/sensors.html`)
    const { page } = opened
    await page.locator('#account').click()
    await page.getByLabel('Name', { exact: true }).fill(user)
    await page.getByLabel('Password', { exact: true }).fill(passwordOf(user))
    await page.getByRole('dialog').getByRole('button', { name: 'Sign in' }).click()
    await status(page, '24 readings')
    return opened
  }
  const reader = await signIn('reader')
  assert.equal(await reader.page.getByRole('button', { name: 'Settings…' }).count(), 0)

  const { page, errors } = await signIn('writer')
  const settings = page.getByRole('button', { name: 'Settings…' })
  await settings.click()
  await page.getByRole('dialog').waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('dialog').waitFor({ state: 'detached' })
  assert.equal(await page.evaluate('document.activeElement.textContent'), 'Settings…')
  await settings.click()
  await page.getByLabel('Name', { exact: true }).fill('Bakery')
  await page.getByLabel('Order:').fill('9')
  await page.getByLabel('unit of humidity').fill('rh')
  await page.getByLabel('high of temperature').fill('11.5')
  assert.deepEqual(await barriers(page), [])
  await page.getByRole('button', { name: 'Save' }).click()
  await until('the new name', async () => (await charted(page)) === 'Bakery')
  await page.getByText('temperature above 11.5').waitFor()
  await page.locator('#tiles > li:nth-child(3) h2:text-is("Bakery")').waitFor()
  const headers = { Authorization: `Bearer ${await tokenOf(server.url, 'writer')}` }
  const item = (await (await server.fetch('/api/sensors/M0', { headers })).json()) as Record<string, unknown>
  assert.deepEqual([item.name, item.order], ['Bakery', 9])
  assert.deepEqual(item.thresholds, { temperature: { high: 11.5 } })
  assert.deepEqual(item.units, { temperature: '°C', humidity: 'rh' })
  // Before one has signed in the server refuses.
  assert.deepEqual(
    errors.filter((error) => !error.includes('401')),
    [],
  )
})

test('the marked tile is the charted one, also after a search and a sort', options, async (t) => {
  const { page, errors } = await open(t)
  await status(page, '24 readings')
  assert.deepEqual([await charted(page), await marked(page)], ['Kitchen', 'Kitchen'])
  await page.getByLabel('Sort').selectOption('Highest first')
  await until('the highest is first', async () => (await page.locator('#tiles h2').first().textContent()) === 'Attic')
  assert.deepEqual([await charted(page), await marked(page)], ['Kitchen', 'Kitchen'])
  await page.getByRole('searchbox').fill('cellar')
  await page.getByText('1 of 3 sensors').waitFor()
  assert.deepEqual([await charted(page), await page.locator('#tiles [aria-current]').count()], ['Kitchen', 0])
  await page.locator('#tiles a').click()
  await until('the other chart', async () => (await charted(page)) === 'Cellar')
  assert.equal(await marked(page), 'Cellar')
  await page.getByRole('searchbox').fill('')
  await page.getByText('3 sensors', { exact: true }).waitFor()
  assert.deepEqual([await charted(page), await marked(page)], ['Cellar', 'Cellar'])
  assert.deepEqual(errors, [])
})

test('old readings are shown over the day that they end with, and no sensor is silent', options, async (t) => {
  const { page, errors } = await open(t, '', house(8 * DAY))
  await page.getByText('3 sensors, the last reading 8 days ago', { exact: true }).waitFor()
  await status(page, '24 readings')
  await page.locator('#tiles .spark path[d^=M]').nth(2).waitFor()
  assert.equal(await page.locator('.silent').count(), 0)
  assert.deepEqual(errors, [])
})

test('all tiles have their curves by one request', options, async (t) => {
  const server = await startProgram(t, { data: house(), flags: FLAGS })
  const { page } = await openPage(t, 'about:blank')
  const requests: string[] = []
  page.on('request', (request) => requests.push(request.url()))
  await page.goto(`${server.url}/sensors.html`)
  await page.locator('#tiles .spark path[d^=M]').nth(2).waitFor()
  await status(page, '24 readings')
  assert.equal(requests.filter((one) => one.includes('groupBy=mac')).length, 1)
})

test('while one moves through the past, charts and curves are never without their lines', options, async (t) => {
  const { page, errors, server } = await open(t)
  await status(page, '24 readings')
  for (let value = 0; value < 40; value++) {
    const reading = { mac: 'M0', timestamp: new Date().toISOString(), data: { temperature: 13 + value, humidity: 50 } }
    await server.fetch('/api/sensordatas', json('POST', reading))
  }
  await status(page, '64 readings')
  await page.locator('.charts canvas').first().waitFor()
  await page.evaluate(`(() => {
    globalThis.blanks = []
    globalThis.shown = new Set()
    const look = () => {
      const canvas = document.querySelector('.charts canvas')
      const { data } = canvas.getContext('2d').getImageData(60, 0, canvas.width - 60, canvas.height)
      const curves = document.querySelectorAll('#tiles .spark path[d^=M]').length
      if (!data.some((value) => value > 0) || curves < 3) globalThis.blanks.push([data.length, curves])
      globalThis.shown.add(document.querySelector('#tiles .main strong').textContent)
      requestAnimationFrame(look)
    }
    look()
  })()`)
  await page.getByRole('slider', { name: 'Moment' }).focus()
  let before = ''
  for (let step = 0; step < 12; step++) {
    await page.keyboard.press('ArrowLeft')
    await until('another moment', async () => (address(page).get('at') ?? '') !== before)
    before = address(page).get('at') ?? ''
  }
  await until('several moments', async () => Number(await page.evaluate('globalThis.shown.size')) > 3)
  await page.locator('#tiles .differs').first().waitFor()
  assert.deepEqual(await page.evaluate('globalThis.blanks'), [])
  assert.deepEqual(errors, [])
})

test('nothing is said to be missing while another moment or another time is read', options, async (t) => {
  const { page, errors } = await openPage(t, `${await startDemo(t)}/sensors.html`)
  await page.locator('#state-of-series', { hasText: /\d+ readings/ }).waitFor()
  await page.evaluate(`(() => {
    globalThis.said = []
    const place = document.getElementById('state-of-series')
    new MutationObserver(() => said.push(place.textContent)).observe(place, { subtree: true, characterData: true, childList: true })
  })()`)
  const when = () => page.locator('.when').textContent()
  await page.getByRole('slider', { name: 'Moment' }).focus()
  for (const key of ['PageDown', 'PageDown', 'PageUp', 'End']) {
    const before = await when()
    await page.keyboard.press(key)
    await until('another time', async () => (await when())?.slice(0, 9) !== before?.slice(0, 9))
  }
  await page.getByText('30 days', { exact: true }).click()
  await page.locator('#state-of-series', { hasText: 'averages' }).waitFor()
  const said = (await page.evaluate('globalThis.said')) as readonly string[]
  assert.deepEqual(
    said.filter((text) => /None|No readings/.test(text)),
    [],
  )
  assert.deepEqual(errors, [])
})

test('a sensor is silent when it sends less often than it used to', options, async (t) => {
  const MINUTE = 60_000
  const readingsOf = (mac: string, every: number, last: number) =>
    Array.from({ length: 6 }, (_, index) => ({
      mac,
      timestamp: new Date(last - every * index).toISOString(),
      data: { temperature: 20 + index },
    }))
  const now = Date.now()
  // A window of the curve ends between its readings.
  const often = (Math.floor(now / (30 * MINUTE)) - 1) * 30 * MINUTE + 2.5 * MINUTE
  const all = [
    ...readingsOf('often', MINUTE, often),
    ...readingsOf('hourly', HOUR, now - 90 * MINUTE),
    ...readingsOf('daily', 60 * HOUR, now - 30 * MINUTE),
  ]
  const sensordatas = all.map((reading, id) => ({ ...reading, id }))
  const sensors = ['often', 'hourly', 'daily'].map((id) => ({ ...all.find(({ mac }) => mac === id), id }))
  const { page, errors } = await open(t, '', { sensors, sensordatas } as never)
  await page.locator('#tiles > li:has(h2:text-is("often")) .silent').getByText('silent for').waitFor()
  await page.getByText('3 sensors, 1 silent', { exact: true }).waitFor()
  assert.deepEqual(errors, [])
})

test('while the server is gone another range leaves what is drawn, and its labels', options, async (t) => {
  const { page, server } = await open(t)
  await status(page, '24 readings')
  await page.locator('.charts canvas').first().waitFor()
  const when = () => page.locator('.when').textContent()
  await server.stop('SIGKILL')
  await page.locator('#state[data-state=gone]').waitFor()
  const before = (await when())?.slice(0, 12)
  await page.getByText('7 days', { exact: true }).click()
  await status(page, 'The server cannot be reached')
  assert.equal((await when())?.slice(0, 12), before)
})

test('a replay has ages by the time that it shows', options, async (t) => {
  const health = { time: new Date(Date.now() - 2 * DAY).toISOString(), speed: 60 }
  const server = await startProgram(t, { data: house(2 * DAY), flags: FLAGS })
  const { page } = await openPage(t, 'about:blank')
  const own = (await (await server.fetch('/health')).json()) as object
  await page.route('**/health', (route) => route.fulfill({ json: { ...own, replay: health } }))
  await page.goto(`${server.url}/sensors.html`)
  await page.getByText('3 sensors', { exact: true }).waitFor()
  assert.equal(await page.locator('.silent').count(), 0)
  await page
    .locator('#tiles .age', { hasText: /^\d+ s ago$|^\d min ago$|^now$/ })
    .first()
    .waitFor()
})

test(
  'the charts keep their colours apart, and marks are readable, where the system forces colours',
  options,
  async (t) => {
    const data = house()
    const sensors = data.sensors.map((item) => ({
      ...item,
      data: { ...item.data, battery: item.name === 'Kitchen' ? 14 : 90 },
      ...(item.name === 'Cellar' && { timestamp: new Date(Date.now() - 2 * DAY).toISOString() }),
    }))
    const sensordatas = data.sensordatas.filter(({ mac }) => mac !== 'M1')
    const { page, errors } = await open(t, '', { sensors, sensordatas })
    await page.emulateMedia({ forcedColors: 'active' })
    await status(page, '24 readings')
    await page.getByText('Low battery', { exact: true }).waitFor()
    await page.getByText('silent for 2 days').waitFor()
    assert.deepEqual(await barriers(page), [])
    assert.deepEqual(errors, [])
  },
)
