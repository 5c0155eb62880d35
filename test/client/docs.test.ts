import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import * as client from '../../src/client/index.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { startServer } from '../support/server.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const page = readFileSync(join(root, 'docs/client.md'), 'utf8')
const blocks = [...page.matchAll(/^```js\n([\s\S]*?)^```$/gm)].map(([, text = '']) => text)

test('what docs/client.md shows runs, as one program from top to bottom, and ends', async (t) => {
  const directory = await temporaryDirectory(t)
  const data = JSON.parse(readFileSync(join(root, 'data/sensors.json'), 'utf8')) as unknown
  const server = await startServer(t, { data })
  mkdirSync(join(directory, 'node_modules'))
  symlinkSync(root, join(directory, 'node_modules', 'recollect'))
  const program = `${blocks.join('\n').replaceAll('http://localhost:57602', server.url)}\nclient.close()\n`
  writeFileSync(join(directory, 'program.mjs'), program)
  const child = spawn(process.execPath, ['program.mjs'], { cwd: directory, stdio: ['ignore', 'pipe', 'pipe'] })
  t.after(async () => void child.kill('SIGKILL'))
  let output = ''
  child.stdout.on('data', (bytes) => {
    output += bytes
  })
  child.stderr.on('data', (bytes) => {
    output += bytes
  })
  const [code] = await once(child, 'close')
  assert.equal(code, 0, output)
  assert.match(output, /^somebody else was faster$/m)
  assert.ok(blocks.length > 7)
})

test('docs/client.md names every method and property, and no other', () => {
  const shown = new Set(
    [...page.matchAll(/`(?:(?:client|collection|item)\.)?(\w+)(?=[`(])/g)].map(([, name]) => name as string),
  )
  const real = [client.Recollect, client.Query, client.Collection, client.Item, client.LiveList].flatMap((one) =>
    Object.getOwnPropertyNames(one.prototype),
  )
  const internal = [
    'constructor',
    'wanted',
    'answered',
    'change',
    'lagging',
    'current',
    'told',
    'disconnected',
    'ended',
  ]
  const missing = real.filter((name) => !internal.includes(name) && !shown.has(name))
  assert.deepEqual(missing, [])
  for (const [, name] of page.matchAll(/`(?:client|collection|item)\.(\w+)/g))
    assert.ok(real.includes(name as string), name)
})
