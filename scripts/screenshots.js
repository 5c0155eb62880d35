// Makes the pictures of the pages in docs/img: a server of its own with made-up readings of a day, a few changes by hand,
// and a Chromium, which the environment variable CHROMIUM names. `npm run -s build && node scripts/screenshots.js`
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'

const root = fileURLToPath(new URL('..', import.meta.url))
const KEYS = { miranda: ['key-of-miranda', 'admin'], 'gateway-1': ['key-of-the-gateway', 'writer'] }
const MAC = 'F4:A5:74:89:16:57'
const READINGS = 1200
const HOUR = 3_600_000

const PICTURES = [
  {
    name: 'collections',
    path: '/?collection=sensordatas&query=data.temperature_gt%3D22%26sort%3D-timestamp&item=5952',
  },
  { name: 'sensors', path: `/sensors.html?sensor=${MAC}&range=24h` },
  { name: 'journal', path: '/journal.html', event: true, colorScheme: 'dark', height: 720 },
  { name: 'past', path: '/sensors.html', isPast: true },
  { name: 'phone', path: `/sensors.html?sensor=${MAC}&range=24h`, colorScheme: 'dark', width: 390, height: 800 },
]

const directory = mkdtempSync(join(tmpdir(), 'recollect-pictures-'))
const server = await start()
try {
  await change()
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--headless', '--no-sandbox'] })
  mkdirSync(join(root, 'docs', 'img'), { recursive: true })
  for (const picture of PICTURES) await take(browser, picture)
  await browser.close()
} finally {
  server.process.kill()
  await once(server.process, 'close')
  rmSync(directory, { recursive: true })
}

async function start() {
  const file = join(directory, 'sensors.json')
  writeFileSync(file, JSON.stringify(data()))
  const settings = join(directory, 'settings.json')
  const apiKeys = Object.entries(KEYS).map(([Name, [Key, Role]]) => ({ Name, Key, Role }))
  writeFileSync(
    settings,
    JSON.stringify({
      Authentication: { Enabled: true, AuthenticationType: 'apikey', ApiKeys: apiKeys },
      Collections: { sensordatas: { Time: 'timestamp' } },
    }),
  )
  const flags = ['--file', file, '--settings', settings, '--urls', 'http://127.0.0.1:0']
  const child = spawn(process.execPath, [join(root, 'dist', 'main.js'), ...flags], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let said = ''
  for await (const bytes of child.stdout) {
    said += bytes
    const [url] = /http:\S+/.exec(said) ?? []
    if (url) return { process: child, url }
  }
  throw new Error('the server did not start')
}

/** What three sensors measured in the last day. */
function data() {
  const macs = [MAC, 'DC:25:EF:B0:3A:11', 'C8:7B:21:0E:94:6D', 'E1:09:5C:D2:77:40', 'D6:44:AB:18:E3:9F']
  const random = randomNumbers(7)
  const latest = new Map()
  const sensordatas = []
  const began = Date.now() - 24 * HOUR
  for (let index = 0; index < READINGS; index++) {
    const part = index / READINGS
    // A sensor that was out of reach for a while.
    const isAway = part > 0.55 && part < 0.62
    for (const [at, mac] of macs.entries()) {
      if (isAway && mac === MAC) continue
      const day = 2 * Math.PI * (part + at / 9)
      const noise = () => random() - 0.5
      const [x, y, z] = [-12 + 6 * noise(), 73 + 6 * noise(), 1032 + 8 * noise()].map(Math.round)
      const reading = {
        mac,
        data: {
          humidity: round(48 + at * 3 - 7 * Math.cos(day) + noise(), 2),
          temperature: round(20 + at / 2 + 3 * Math.cos(day) + 0.3 * noise(), 2),
          pressure: round(1013 + 4 * Math.sin(day / 2) + 0.2 * noise(), 1),
          ...(at % 2 === 0 && {
            acceleration: round(Math.hypot(x, y, z), 1),
            acceleration_x: x,
            acceleration_y: y,
            acceleration_z: z,
          }),
          battery: Math.round(3000 - 30 * part + 4 * noise() - at * 20),
        },
        timestamp: new Date(began + part * 24 * HOUR + at * 7000).toISOString().slice(0, -1),
      }
      sensordatas.push({ id: sensordatas.length, ...reading })
      latest.set(mac, { id: mac, ...reading })
    }
  }
  const rooms = [
    { id: 'cellar', name: 'Cellar', floor: -1, sensors: [macs[2]], tags: ['dry', 'cool'] },
    {
      id: 'lab',
      name: 'Laboratory',
      floor: 2,
      sensors: [macs[0], macs[4]],
      alarm: { above: 26, mail: 'lab@example.org' },
    },
  ]
  return { sensors: [...latest.values()], sensordatas, rooms }
}

/** The sensors go on for a while, and somebody edits the rooms. */
async function change() {
  const sensors = await (await ask('miranda', 'GET', '/api/sensors')).json()
  for (let turn = 0; turn < 8; turn++) {
    for (const { id, mac, data } of sensors) {
      const now = {
        ...data,
        temperature: round(data.temperature + turn / 20, 2),
        humidity: round(data.humidity - turn / 10, 2),
      }
      const reading = { mac, data: now, timestamp: new Date().toISOString().slice(0, -1) }
      await ask('gateway-1', 'PUT', `/api/sensors/${id}`, { id, ...reading })
      await ask('gateway-1', 'POST', '/api/sensordatas', reading)
    }
    if (turn === 4)
      await ask('miranda', 'PATCH', '/api/rooms/lab', { alarm: { above: 24 }, floor: null, keeper: 'Miranda' })
    if (turn === 6) await ask('miranda', 'DELETE', '/api/rooms/cellar')
    await new Promise((resolve) => setTimeout(resolve, 300))
  }
}

async function ask(who, method, path, body) {
  const headers = { 'X-API-KEY': KEYS[who][0], 'Content-Type': 'application/json' }
  const answer = await fetch(server.url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
  if (!answer.ok) throw new Error(`${method} ${path} was answered with ${answer.status}`)
  return answer
}

async function take(browser, { name, path, event, isPast, colorScheme = 'light', width = 1280, height = 800 }) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, timezoneId: 'UTC' })
  const page = await context.newPage()
  const session = JSON.stringify({ scheme: 'apikey', key: KEYS.miranda[0] })
  await page.addInitScript(`sessionStorage.setItem('recollect.session /', ${JSON.stringify(session)})`)
  const position = Number((await ask('miranda', 'GET', '/api')).headers.get('Journal-Position'))
  const [edit] = await (await ask('miranda', 'GET', '/events?collection=rooms&type=ItemPatched')).json()
  const more = event ? `?event=${edit.position}` : isPast ? `?sensor=${MAC}&range=24h&at=${position - 30}` : ''
  await page.goto(server.url + path + more)
  await page.locator('#state[data-state=live]').waitFor()
  await page.waitForTimeout(4000)
  await page.screenshot({ path: join(root, 'docs', 'img', `${name}.png`) })
  await context.close()
}

/** Numbers from 0 to 1, the same ones for the same seed (mulberry32). */
function randomNumbers(seed) {
  let state = seed | 0
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

function round(value, digits) {
  return Number(value.toFixed(digits))
}
