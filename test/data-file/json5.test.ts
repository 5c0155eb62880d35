import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { fetch, until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { json, ofOneServer, runToEnd, spawnServer, storeBuilt } from '../support/server.ts'
import { startServer } from '../support/service.ts'

const TEXT = `// The first posts.
{
  $schema: './posts.schema.json',
  posts: [
    { id: 1, title: 'first', views: +0x10, }, // id: once
  ],
}
`

const skip = ofOneServer('the file of one server is looked at')

test('a JSON5 file is read, and merged after an edit, but not written', { skip }, async (t) => {
  const directory = await temporaryDirectory(t)
  const file = join(directory, 'db.json5')
  await writeFile(file, TEXT)
  const server = spawnServer(t, directory, {
    isBare: true,
    flags: ['db.json5', '--watch', '--urls', 'http://127.0.0.1:0'],
  })
  const url = (await server.listening()) ?? ''
  await storeBuilt(url)
  const posts = async (): Promise<unknown> => (await fetch(`${url}/api/posts`)).json()
  assert.deepEqual(await posts(), [{ id: 1, title: 'first', views: 16 }])
  assert.equal((await fetch(`${url}/api/posts`, json('POST', { title: 'second' }))).status, 201)
  assert.equal((await fetch(`${url}/admin/snapshot`, { method: 'POST' })).status, 409)
  const edited = TEXT.replace("'first'", "'edited'")
  await writeFile(file, edited)
  const wanted = [
    { id: 1, title: 'edited', views: 16 },
    { id: 2, title: 'second' },
  ]
  await until('the edit', async () => JSON.stringify(await posts()) === JSON.stringify(wanted))
  server.process.kill('SIGTERM')
  assert.equal((await server.ended()).code, 0)
  assert.equal(readFileSync(file, 'utf8'), edited)
  assert.match(server.stderr(), /JSON5: it is read, and not written/)
})

test('a JSON5 file with a mistake, a member given twice, or a number that JSON has not, or of more than a mebibyte is refused', async (t) => {
  const directory = await temporaryDirectory(t)
  for (const [text, why] of [
    ['{posts: [}', /not well-formed JSON5: invalid character '}' at 1:10/],
    ['{posts: [{n: NaN}]}', /n is NaN, which JSON cannot express/],
    ['{posts: [{id: 1}], /* once : more */ "posts": []}', /"posts" is given twice in one object/],
    ["{posts: [{id: 1, a: {b: ':'}, 'b' /* : */ : 2, '\\x62': 3}]}", /"b" is given twice in one object/],
    [
      `{posts: [] /*${'x'.repeat(1024 * 1024)}*/}`,
      /at most 1048576 bytes, and this one 1048592: make a JSON file of it/,
    ],
  ] as const) {
    await writeFile(join(directory, 'db.json5'), text)
    const { code, stderr } = await runToEnd(t, directory, ['db.json5', '--urls', 'http://127.0.0.1:0'])
    assert.equal(code, 2, stderr)
    assert.match(stderr, why)
  }
})

test('a $schema at the root of a data file is no collection', async (t) => {
  const data = { $schema: './db.schema.json', posts: [{ id: 1 }] }
  const server = await startServer(t, { data })
  assert.deepEqual(await (await server.fetch('/api')).json(), ['posts'])
  assert.equal((await server.fetch('/api', json('POST', data))).status, 200)
  assert.equal((await server.fetch('/api', json('POST', { $schema: 7 }))).status, 400)
  assert.equal((await server.fetch('/api', json('POST', { $schema: [{ id: 1 }] }))).status, 200)
  assert.deepEqual(await (await server.fetch('/api')).json(), ['$schema'])
})
