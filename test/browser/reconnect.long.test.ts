import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Page } from 'playwright-core'
import { openPage, withoutBrowser } from '../support/browser.ts'
import { freePort } from '../support/process.ts'
import { json, type RunningProgram, startProgram } from '../support/server.ts'

const options = { skip: withoutBrowser }
const TIME = ['--Collections', '{"sensordatas": {"Time": "timestamp"}}']
const MAC = 'F4:A5:74:89:16:57'

const live = (page: Page) => page.locator('#state[data-state=live]').waitFor()
const reading = (temperature: number) => ({ mac: MAC, timestamp: new Date().toISOString(), data: { temperature } })

/** Kills the server under the pages, lets another write meanwhile, and starts it again. */
async function away(
  t: Parameters<typeof startProgram>[0],
  first: RunningProgram,
  flags: readonly string[],
  pages: readonly Page[],
  write: (server: RunningProgram) => Promise<unknown>,
): Promise<void> {
  await first.stop('SIGKILL')
  for (const page of pages) await page.locator('#state[data-state=gone]').waitFor()
  const elsewhere = await startProgram(t, { directory: first.directory, flags: TIME })
  await write(elsewhere)
  await elsewhere.stop()
  await startProgram(t, { directory: first.directory, isBare: true, flags })
  for (const page of pages) await live(page)
}

test(
  'after a lost connection an open item, its history and a single object are the current ones',
  options,
  async (t) => {
    const flags = ['--file', 'db.json', '--urls', `http://127.0.0.1:${await freePort()}`]
    const data = { things: [{ id: 1, name: 'before' }], profile: { name: 'before' } }
    const server = await startProgram(t, { data, isBare: true, flags })
    const pages: Page[] = []
    for (const query of ['collection=things&item=1', 'collection=profile', 'collection=things&item=1']) {
      const { page } = await openPage(t, `${server.url}/collections.html?${query}`)
      await page.locator('#item').getByText('"before"').waitFor()
      await live(page)
      pages.push(page)
    }
    await pages[2]?.getByRole('button', { name: 'History' }).click()
    await pages[2]?.locator('.timeline > li').waitFor()
    await away(t, server, flags, pages, async (elsewhere) => {
      await elsewhere.fetch('/api/things/1', json('PATCH', { name: 'after' }))
      await elsewhere.fetch('/api/profile', json('PATCH', { name: 'after' }))
    })
    for (const page of pages) await page.locator('#item').getByText('after').first().waitFor()
  },
)

test(
  'the sensors that are only in the readings, and their charts, catch up after a lost connection',
  options,
  async (t) => {
    const flags = ['--file', 'db.json', '--urls', `http://127.0.0.1:${await freePort()}`, ...TIME]
    const sensordatas = [21, 22].map((temperature, id) => ({ id, ...reading(temperature) }))
    const server = await startProgram(t, { data: { sensordatas }, isBare: true, flags })
    const { page } = await openPage(t, `${server.url}/sensors.html`)
    const state = page.locator('#state-of-series')
    await state.getByText('2 readings', { exact: true }).waitFor()
    await live(page)
    await away(t, server, flags, [page], async (elsewhere) => {
      for (const temperature of [23, 24]) await elsewhere.fetch('/api/sensordatas', json('POST', reading(temperature)))
    })
    await page.locator('#tiles .main strong:text-is("24")').waitFor()
    await state.getByText('4 readings', { exact: true }).waitFor()
  },
)

test('a filtered journal that could not be read is read when the server is there again', options, async (t) => {
  const server = await startProgram(t, { data: { things: Array.from({ length: 150 }, (_, id) => ({ id })) } })
  const { page } = await openPage(t, `${server.url}/journal.html`)
  await live(page)
  await page.route('**/events?*', (route) => route.abort())
  await page.getByRole('link', { name: 'data-file' }).click()
  await page.getByText('Searching…').waitFor()
  await page.unroute('**/events?*')
  await server.fetch('/api/things', json('POST', {}))
  await page.getByText('more than 40 changes').waitFor()
  assert.equal(await page.locator('#problem').count(), 0)
})

test('a request while the server is gone causes no message beside the state', options, async (t) => {
  const sensors = [1, 2].map((id) => ({ id, mac: `A${id}`, data: { temperature: 20 }, timestamp: new Date() }))
  const server = await startProgram(t, { data: { sensors } })
  const [sensorsPage, journalPage] = [
    (await openPage(t, `${server.url}/sensors.html`)).page,
    (await openPage(t, `${server.url}/journal.html`)).page,
  ]
  await sensorsPage.locator('#tiles a').nth(1).waitFor()
  await journalPage.locator('#list a[href]').nth(1).waitFor()
  await server.stop('SIGKILL')
  for (const page of [sensorsPage, journalPage]) await page.locator('#state[data-state=gone]').waitFor()
  for (const [page, links] of [
    [sensorsPage, '#tiles a'],
    [journalPage, '#list a[href]'],
  ] as const) {
    const failed = page.waitForEvent('requestfailed', (request) => !request.url().includes('socket.io'))
    await page.locator(links).nth(1).click()
    await failed
    await page.waitForFunction(() => true)
    assert.equal(await page.locator('#problem').count(), 0)
  }
})
