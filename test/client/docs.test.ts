import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import * as client from '../../src/client/index.ts'
import { openPage, withoutBrowser } from '../support/browser.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { startProcess } from '../support/process.ts'
import { json, SAMPLE } from '../support/server.ts'
import { startServer } from '../support/service.ts'
import { NAMES } from './in-browser/run.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const page = readFileSync(join(root, 'docs/client.md'), 'utf8')
const blocks = [...page.matchAll(/^```js\n([\s\S]*?)^```$/gm)].map(([, text = '']) => text)

test('the program in docs/client.md runs from top to bottom, and exits', async (t) => {
  const directory = await temporaryDirectory(t)
  const server = await startServer(t, { data: SAMPLE })
  mkdirSync(join(directory, 'node_modules'))
  symlinkSync(root, join(directory, 'node_modules', 'recollect'))
  const program = `${blocks.join('\n').replaceAll('http://localhost:57602', server.url)}\nclient.close()\n`
  writeFileSync(join(directory, 'program.mjs'), program)
  const run = startProcess(t, [process.execPath, 'program.mjs'], { cwd: directory })
  const { code } = await run.ended()
  const output = run.output()
  assert.equal(code, 0, output)
  assert.match(output, /^somebody else was faster$/m)
  assert.ok(blocks.length > 7)
})

test('the page in docs/client.md runs in a browser under the default content security policy', {
  skip: withoutBrowser,
}, async (t) => {
  const directory = await temporaryDirectory(t)
  const block = (language: string) => new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'm').exec(page)?.[1] ?? ''
  mkdirSync(join(directory, 'wwwroot'))
  // Chromium asks for an icon, and the page has none.
  const html = block('html').replace('<title>', '<link rel="icon" href="data:,"><title>')
  writeFileSync(join(directory, 'wwwroot', 'list.html'), html)
  writeFileSync(join(directory, 'wwwroot', 'list.js'), block('javascript'))
  const server = await startServer(t, { directory, data: { sensors: [{ id: 1, mac: 'B' }] } })
  const opened = await openPage(t, `${server.url}/list.html`)
  await opened.page.locator('li:text-is("B")').waitFor()
  await server.fetch('/api/sensors', json('POST', { mac: 'A' }))
  await opened.page.locator('li:text-is("A")').waitFor()
  assert.deepEqual(await opened.page.locator('li').allTextContents(), ['A', 'B'])
  assert.deepEqual([opened.errors, opened.outside], [[], []])
})

/** Methods and properties of the client, without those that its own classes use. */
const members = [
  client.Recollect,
  client.Query,
  client.Collection,
  client.Item,
  client.InnerValue,
  client.SingleObject,
  client.LiveList,
]
  .flatMap((one) => Object.getOwnPropertyNames(one.prototype))
  .filter(
    (name) =>
      !/^(?:constructor|path|subscribeMessage|answered|change|lagging|current|notified|disconnected|ended|refused|identity|liveItem)$/.test(
        name,
      ),
  )

test('docs/client.md lists every method and property, and no other', () => {
  const shown = new Set(
    [...page.matchAll(/`(?:(?:client|collection|item|object)\.)?(\w+)(?=[`(])/g)].map(([, name]) => name as string),
  )
  assert.deepEqual(
    members.filter((name) => !shown.has(name)),
    [],
  )
  for (const [, name] of page.matchAll(/`(?:client|collection|item|object)\.(\w+)/g))
    assert.ok(members.includes(name as string), name)
})

test('the tests that run in Chromium use every method and property', () => {
  const text = NAMES.map((name) => readFileSync(join(root, 'test/client', `${name}.test.ts`), 'utf8')).join('\n')
  const unused = members.filter((name) => !new RegExp(`\\.${name}\\b`).test(text))
  assert.deepEqual(unused, [])
})
