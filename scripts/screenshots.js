// Makes the pictures of the pages in docs/img, of the home of `recollect demo`, in the Chromium that the environment
// variable CHROMIUM names: `npm run -s build && node scripts/screenshots.js`
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'

const root = fileURLToPath(new URL('..', import.meta.url))
const HOUR = 3_600_000
const KITCHEN = 'D4:2C:1E:8A:50:01'
const PHONE = { width: 390, height: 844 }

/** ago: the moment of the past that is shown, in milliseconds before now */
const PICTURES = [
  { name: 'past', path: 'home.html', ago: 7 * HOUR },
  { name: 'home', path: 'home.html' },
  { name: 'collections', path: 'collections.html?collection=posts&item=1' },
  { name: 'sensors', path: `sensors.html?sensor=${KITCHEN}` },
  { name: 'journal', path: 'journal.html', colorScheme: 'dark' },
  { name: 'phone', path: 'home.html', colorScheme: 'dark', ...PHONE },
]

const server = spawn(process.execPath, [join(root, 'dist', 'main.js'), 'demo', '--port', '0'], {
  stdio: ['ignore', 'pipe', 'inherit'],
})
try {
  const url = await addressOf(server.stdout)
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--headless', '--no-sandbox'] })
  mkdirSync(join(root, 'docs', 'img'), { recursive: true })
  for (const picture of PICTURES) await take(browser, url, picture)
  await browser.close()
} finally {
  server.kill()
  await once(server, 'close')
}

/** @param {AsyncIterable<Buffer>} output */
async function addressOf(output) {
  let said = ''
  for await (const bytes of output) {
    said += bytes
    const [url] = /http:\/\/localhost:\d+/.exec(said) ?? []
    if (url) return url
  }
  throw new Error('The server did not start.')
}

async function take(browser, url, { name, path, ago, colorScheme = 'light', width = 1280, height = 800 }) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, timezoneId: 'UTC' })
  const page = await context.newPage()
  const at = ago === undefined ? '' : `${path.includes('?') ? '&' : '?'}at=${new Date(Date.now() - ago).toISOString()}`
  await page.goto(`${url}/${path}${at}`)
  await page.locator('#state').waitFor()
  await page.waitForTimeout(4000)
  await page.screenshot({ path: join(root, 'docs', 'img', `${name}.png`) })
  await context.close()
}
