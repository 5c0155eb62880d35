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
import { json, startServer } from '../support/server.ts'

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
  const subscriptions = async () =>
    Number(/^recollect_subscriptions(?:\{[^}]*\})? (\d+)$/m.exec(await (await server.fetch('/metrics')).text())?.[1])
  await until('the subscriptions that are needed', async () => (await subscriptions()) === 3)
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
