import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import type { Recollect } from '../../src/client/index.ts'
import { authentication, passwordOf } from '../support/authentication.ts'
import { openPage, withoutBrowser } from '../support/browser.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { json, type RunningServer } from '../support/server.ts'
import { startServer } from '../support/service.ts'

declare global {
  /** The client of the page. */
  var client: Recollect
}

const PAGE = fileURLToPath(new URL('react-page.tsx', import.meta.url))
const HTML = `<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Todos</title>
<div id="root"></div><script type="module" src="page.js"></script></html>`

async function writePage(directory: string): Promise<void> {
  const wwwroot = join(directory, 'wwwroot')
  mkdirSync(wwwroot)
  writeFileSync(join(wwwroot, 'react.html'), HTML)
  await build({ entryPoints: [PAGE], outfile: join(wwwroot, 'page.js'), bundle: true, format: 'esm', jsx: 'automatic' })
}

async function subscriptionsOf(server: RunningServer): Promise<number> {
  const metrics = await (await server.fetch('/metrics')).text()
  return Number(/^recollect_subscriptions(?:\{[^}]*\})? (\d+)$/m.exec(metrics)?.[1])
}

test('the hooks show a query and an item as they change, with one subscription each', {
  skip: withoutBrowser,
}, async (t) => {
  const directory = await temporaryDirectory(t)
  await writePage(directory)
  const data = { todos: [{ id: 1, text: 'b' }], profile: { name: 'Ada' } }
  const server = await startServer(t, { directory, data })
  const { page, errors } = await openPage(t, `${server.url}/react.html`)
  const texts = () => page.locator('li').allTextContents()
  await page.getByText('1 items', { exact: true }).waitFor()
  await server.fetch('/api/todos', json('POST', { text: 'a' }))
  await page.getByText('2 items', { exact: true }).waitFor()
  assert.deepEqual(await texts(), ['a', 'b'])

  await page.locator('li button').first().click()
  await page.getByText('a of Ada', { exact: true }).waitFor()
  await server.fetch('/api/profile', json('PATCH', { name: 'Eve' }))
  await page.getByText('a of Eve', { exact: true }).waitFor()
  await page.locator('#item').click()
  const isDone = async () =>
    ((await (await server.fetch('/api/todos/2')).json()) as { isDone?: boolean }).isDone === true
  await until('the edit', isDone)

  await page.locator('#filter').click()
  await page.getByText('1 items', { exact: true }).waitFor()
  assert.deepEqual(await texts(), ['a'])
  await server.fetch('/api/todos/2', { method: 'DELETE' })
  await page.getByText('0 items', { exact: true }).waitFor()
  await page.getByText('gone', { exact: true }).waitFor()

  // Other renderings do not subscribe again.
  await page.locator('#filter').click()
  await page.getByText('1 items', { exact: true }).waitFor()
  await until('the subscriptions that are needed', async () => (await subscriptionsOf(server)) === 3)
  assert.deepEqual(errors, [])
})

test('the hooks show why a list is not loaded, and load it after a login', { skip: withoutBrowser }, async (t) => {
  const directory = await temporaryDirectory(t)
  await writePage(directory)
  const data = { todos: [{ id: 1, text: 'a' }] }
  const server = await startServer(t, { directory, data, flags: authentication(['token']) })
  const { page } = await openPage(t, `${server.url}/react.html`)
  await page.getByText('Unauthenticated', { exact: true }).waitFor()
  await page.evaluate((password) => globalThis.client.login('reader', password), passwordOf('reader'))
  await page.getByText('1 items', { exact: true }).waitFor()
})

test('the hooks report a query that is another one at each rendering, and one that cannot be followed', {
  skip: withoutBrowser,
}, async (t) => {
  const directory = await temporaryDirectory(t)
  await writePage(directory)
  const server = await startServer(t, { directory, data: { todos: [{ id: 1, text: 'a' }] } })
  const unsteady = await openPage(t, `${server.url}/react.html?unsteady`)
  await unsteady.page.getByText('another one at each rendering').waitFor()
  await until('the end of the subscriptions', async () => (await subscriptionsOf(server)) === 0)
  const past = await openPage(t, `${server.url}/react.html?past`)
  await past.page.getByText('a live list has no asOf').waitFor()
  assert.deepEqual([unsteady.errors, past.errors], [[], []])
})

test('the hooks show items whose ids no address can contain', { skip: withoutBrowser }, async (t) => {
  const directory = await temporaryDirectory(t)
  await writePage(directory)
  const dots = ['.', '..'].map((id) => ({ id, text: `item ${id}` }))
  const server = await startServer(t, { directory, data: { dots } })
  const { page, errors } = await openPage(t, `${server.url}/react.html?dots`)
  await page.getByText('item .', { exact: true }).click()
  await page.getByText('item ..', { exact: true }).waitFor()
  assert.deepEqual(errors, [])
})
