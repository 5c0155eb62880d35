import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openPage, withoutBrowser } from '../support/browser.ts'
import { until } from '../support/deadline.ts'
import { post, row, total } from '../support/journal-page.ts'
import { json, startProgram } from '../support/server.ts'

/** How many requests the long journal has; `npm run torture -- pages` makes more. */
const REQUESTS = Number(process.env.PAGES_EVENTS ?? 5000)
/** Elements of the page, wherever its list is scrolled to. */
const MOST_NODES = 1500
const options = { skip: withoutBrowser }

test('an import of many items is one row, and what happened before it follows at once', options, async (t) => {
  const server = await startProgram(t, { data: { first: [{ id: 1 }] } })
  const many = Array.from({ length: 9000 }, (_, n) => ({ n }))
  await server.fetch('/api/rows', json('POST', many))
  const { page, errors } = await openPage(t, `${server.url}/journal.html`)
  await page.getByText('first/1 created').waitFor()
  const requests: string[] = []
  page.on('request', (request) => requests.push(request.url()))
  await page.reload()
  await page.getByText('rows: 9,001 changes, items created').waitFor()
  await page.getByText('first/1 created').waitFor()
  assert.ok(requests.length <= 12, requests.join('\n'))
  await page.locator('#list .main').first().click()
  await page.locator('#list .main[aria-expanded=true]').waitFor()
  await page.locator('#list .event-row').nth(2).waitFor()
  // Rows are measured while the list scrolls, on a slow machine too.
  const devTools = await page.context().newCDPSession(page)
  await devTools.send('Emulation.setCPUThrottlingRate', { rate: 8 })
  await page.locator('#list').focus()
  await page.keyboard.press('End')
  await page.getByText(/more events of this request/).waitFor()
  await page.getByRole('link', { name: 'show them all' }).click()
  await total(page, '40 events and more')
  assert.deepEqual(errors, [])
})

test('a list that large requests do not fill keeps the newest one, and shows the next', options, async (t) => {
  const server = await startProgram(t, { data: { rows: [] } })
  const items = Array.from({ length: 99 }, (_, n) => ({ n }))
  for (let request = 0; request < 40; request++) await server.fetch('/api/rows', json('POST', items))
  const { page, errors } = await openPage(t, 'about:blank')
  await page.setViewportSize({ width: 1200, height: 2000 })
  await page.goto(`${server.url}/journal.html`)
  await page.locator('#list li').nth(29).waitFor()
  await row(page, 1 + 40 * 99).waitFor()
  await server.fetch('/api/rows', json('POST', {}))
  await row(page, 2 + 40 * 99).waitFor()
  assert.deepEqual(errors, [])
})

test(
  `the list of ${REQUESTS} requests renders only a few dozen rows, wherever it is scrolled to`,
  options,
  async (t) => {
    const server = await startProgram(t, { data: { rows: [] } })
    await post(server, REQUESTS)
    const { page, errors } = await openPage(t, `${server.url}/journal.html`)
    await row(page, REQUESTS + 1).waitFor()
    await page.evaluate(`globalThis.long = []
    new PerformanceObserver((list) => globalThis.long.push(...list.getEntries().map(({ duration }) => Math.round(duration))))
      .observe({ type: 'longtask' })`)
    const nodes = () => page.evaluate<number>("document.querySelectorAll('*').length")
    const scroll = (to: string) =>
      page.evaluate(`(() => { const list = document.getElementById('list'); list.scrollTop = ${to} })()`)
    await until('the first event', async () => {
      await scroll('list.scrollHeight')
      assert.ok((await nodes()) <= MOST_NODES)
      return (await row(page, 1).count()) > 0
    })
    await page.locator('#list li').last().locator('.main').focus()
    for (let turn = 0; turn < 30; turn++) await page.keyboard.press('ArrowUp')
    await page.locator('#list .main:focus').waitFor()
    // The newest ones were let go. A slow browser passes over scrolls on the way to them.
    const devTools = await page.context().newCDPSession(page)
    await devTools.send('Emulation.setCPUThrottlingRate', { rate: 20 })
    await until('the newest again', async () => {
      await scroll('0')
      assert.ok((await nodes()) <= MOST_NODES)
      return (await row(page, REQUESTS + 1).count()) > 0
    })
    t.diagnostic(`tasks of more than 50 ms while scrolling: ${JSON.stringify(await page.evaluate('globalThis.long'))}`)
    t.diagnostic(`${await nodes()} nodes`)
    assert.deepEqual(errors, [])
  },
)
