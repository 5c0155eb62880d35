import assert from 'node:assert/strict'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { openPage, withoutBrowser } from '../support/browser.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { json } from '../support/server.ts'
import { startServer } from '../support/service.ts'

const options = { skip: withoutBrowser }

const PAGE =
  '<!doctype html><meta charset="utf-8"><title>Mine</title><ul></ul><script type="module" src="/mine.js"></script>'
const SCRIPT = `
  import { connect } from '/client/index.js'
  const client = connect()
  const list = client.collection('sensors').where({ battery_lt: 3000 }).sort('battery').live()
  list.onChange(() => {
    document.querySelector('ul').replaceChildren(...list.items.map(({ id }) => {
      const entry = document.createElement('li')
      entry.textContent = id
      return entry
    }))
  })
  await list.ready
  const b = client.collection('sensors').item('B')
  const { etag } = await b.get()
  await b.patch({ battery: 3050 }, { ifMatch: etag })
  const conflict = await b.patch({ battery: 1 }, { ifMatch: etag }).catch(({ code }) => code)
  document.title = [...(await client.collections()), conflict].join()
`

test('a page of the user loads the client from the server and writes, and shows a change live', options, async (t) => {
  const directory = await temporaryDirectory(t)
  await mkdir(join(directory, 'wwwroot'))
  await writeFile(
    join(directory, 'wwwroot', 'index.html'),
    PAGE.replace('><ul>', '><link rel="icon" href="data:,"><ul>'),
  )
  await writeFile(join(directory, 'wwwroot', 'mine.js'), SCRIPT)
  const data = {
    sensors: [
      { id: 'A', battery: 2900 },
      { id: 'B', battery: 3100 },
    ],
  }
  const server = await startServer(t, { directory, data })
  const { page, errors, outside } = await openPage(t, server.url)
  await page.locator('li:text-is("A")').waitFor()
  await until('the conflict', async () => (await page.title()) === 'sensors,PreconditionFailed')
  await server.fetch('/api/sensors/B', json('PATCH', { battery: 2800 }))
  await page.locator('li:text-is("B")').waitFor()
  assert.deepEqual(await page.locator('li').allTextContents(), ['B', 'A'])
  // Chromium itself reports the conflict on the console.
  assert.deepEqual([errors.filter((text) => !text.includes('status of 412')), outside], [[], []])
})

test('a file of the user replaces the client file of the same name', async (t) => {
  const directory = await temporaryDirectory(t)
  await mkdir(join(directory, 'wwwroot', 'client'), { recursive: true })
  await writeFile(join(directory, 'wwwroot', 'client', 'index.js'), 'mine()')
  const server = await startServer(t, { directory })
  const own = await server.fetch('/client/index.js')
  assert.equal(await own.text(), 'mine()')
  assert.match(own.headers.get('Content-Type') ?? '', /^(?:text|application)\/javascript/)
  assert.equal((await server.fetch('/client/other.js')).status, 404)
})
