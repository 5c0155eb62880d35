import { after, type TestContext } from 'node:test'
import axe from 'axe-core'
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { within } from './deadline.ts'

/** The reason to skip a test that needs a browser; with CI=true there is none, and the test fails without one. */
export const withoutBrowser: string | false =
  process.env.CHROMIUM || process.env.CI === 'true' ? false : 'chromium is missing'

/** A page, and what went on in it so far: both lists grow while the page lives. */
export interface OpenPage {
  readonly page: Page
  /** Errors on the console, exceptions that nobody caught, requests that failed. */
  readonly errors: readonly string[]
  /** Addresses asked for, of another origin than the page's own. */
  readonly outside: readonly string[]
}

const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-proxy-server',
  // A page that asks for another host is found out by the test, without a packet leaving the machine.
  '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1, EXCLUDE [::1]',
]

/** The longest wait for an expected element. */
const WAIT_MS = 120_000

/** The sizes and colours in which every page has to look well; the quick suite tries the first two. */
export const LOOKS = [
  { name: 'on a desk, light', viewport: { width: 1280, height: 900 }, colorScheme: 'light' },
  { name: 'on a phone, dark', viewport: { width: 390, height: 800 }, colorScheme: 'dark' },
  { name: 'on a desk, dark', viewport: { width: 1280, height: 900 }, colorScheme: 'dark' },
  { name: 'on a phone, light', viewport: { width: 390, height: 800 }, colorScheme: 'light' },
].slice(0, Number(process.env.PAGES_LOOKS ?? 2)) as readonly Look[]

interface Look {
  readonly name: string
  readonly viewport: { readonly width: number; readonly height: number }
  readonly colorScheme: 'light' | 'dark'
}

/** One Chromium for all tests of a file: its start costs more than most of them. It ends after the last one. */
let browser: Promise<Browser> | undefined
after(async () => {
  const started = await browser
  if (started) await within('the end of Chromium', started.close())
})

function start(): Promise<Browser> {
  const executablePath = process.env.CHROMIUM
  if (!executablePath) throw new Error('chromium is missing: the environment variable CHROMIUM names none')
  return chromium.launch({ executablePath, args: FLAGS, timeout: WAIT_MS })
}

/** Opens the address as one who was never there before: with a cache and a storage of its own, which end with the test. */
export async function openPage(
  t: Pick<TestContext, 'after' | 'diagnostic'>,
  url: string,
  options: BrowserContextOptions = {},
): Promise<OpenPage> {
  browser ??= start()
  const opening = (await browser).newContext({ viewport: { width: 1280, height: 900 }, ...options })
  const context = await within('a context of Chromium', opening)
  const errors: string[] = []
  t.after(() => {
    for (const error of new Set(errors)) t.diagnostic(`In Chromium: ${error}`)
    return within('the end of a context of Chromium', context.close())
  })
  const page = await within('a page of Chromium', context.newPage())
  page.setDefaultTimeout(WAIT_MS)
  // The default does not apply to scripts.
  const evaluate = page.evaluate.bind(page) as (...args: readonly unknown[]) => Promise<unknown>
  page.evaluate = ((...args: readonly unknown[]) =>
    within('the result of a script in a page', evaluate(...args))) as Page['evaluate']
  const missing: string[] = []
  const outside: string[] = []
  const { host } = new URL(url)
  const note = (address: string): void => {
    const { protocol, host: asked } = new URL(address)
    if (protocol !== 'data:' && protocol !== 'blob:' && asked !== host) outside.push(address)
  }
  page.on('console', (message) => {
    if (message.type() === 'error') errors.push(message.text())
  })
  page.on('pageerror', (error) => errors.push(String(error)))
  page.on('requestfailed', (request) => {
    const text = request.failure()?.errorText
    // Whoever goes on to another page takes back what the one before was still asking for.
    if (text !== 'net::ERR_ABORTED') errors.push(`${request.url()}: ${text}`)
    if (request.resourceType() === 'script') missing.push(`${request.url()}: ${text}`)
  })
  page.on('response', (response) => {
    const isScript = response.request().resourceType() === 'script'
    if (isScript && response.status() >= 400) missing.push(`${response.url()}: ${response.status()}`)
  })
  page.on('request', (request) => note(request.url()))
  page.on('websocket', (socket) => note(socket.url()))
  await page.goto(url)
  // Without all of its scripts a page never shows what its test waits for.
  if (missing.length > 0) throw new Error(`${url} lacks scripts: ${missing.join(', ')}`)
  return { page, errors, outside }
}

/** The serious and critical accessibility violations that axe finds. */
export async function barriers(page: Page): Promise<readonly string[]> {
  return listOf((await violations(page)).filter(({ impact }) => impact === 'serious' || impact === 'critical'))
}

/** All accessibility violations that axe finds, and breaches of its best practices. */
export async function flaws(page: Page): Promise<readonly string[]> {
  return listOf(await violations(page))
}

async function violations(page: Page): Promise<axe.AxeResults['violations']> {
  await page.evaluate(axe.source)
  return ((await page.evaluate('axe.run(document, { resultTypes: ["violations"] })')) as axe.AxeResults).violations
}

function listOf(found: axe.AxeResults['violations']): readonly string[] {
  return found.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`))
}

/** How far the page reaches beyond its window, in pixels: more than 0 makes it scroll sideways. */
export async function overhang(page: Page): Promise<number> {
  return Number(await page.evaluate('document.documentElement.scrollWidth - innerWidth'))
}

/** Holds back the requests of a page to addresses that match, until the result is called. */
export async function holdBack(page: Page, addresses: string): Promise<() => Promise<void>> {
  let release = (): void => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  await page.route(addresses, async (route) => {
    await released
    await route.continue()
  })
  return async () => {
    release()
    await page.unrouteAll({ behavior: 'wait' })
  }
}
