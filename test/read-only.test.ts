import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { until } from './support/deadline.ts'
import { json, ofOneServer } from './support/server.ts'
import { startServer } from './support/service.ts'

const DATA = { posts: [{ id: 1, title: 'first' }] }
const ONE = { skip: ofOneServer('the data file of one node is edited') }

test('a read-only server serves the data file, and rejects every write', async (t) => {
  const server = await startServer(t, { data: DATA, flags: ['--read-only'] })
  assert.deepEqual(await (await server.fetch('/api/posts')).json(), DATA.posts)
  const writes: readonly [string, RequestInit][] = [
    ['/api/posts', json('POST', { title: 'second' })],
    ['/api/posts/1', json('PUT', { id: 1 })],
    ['/api/posts/1', json('PATCH', { title: 'x' })],
    ['/api/posts/1', { method: 'DELETE' }],
    ['/admin/reload', { method: 'POST' }],
    ['/admin/restore', json('POST', { to: 0 })],
  ]
  for (const [path, init] of writes) {
    const answer = await server.fetch(path, init)
    assert.equal(answer.status, 405, `${init.method} ${path}`)
    assert.match(answer.headers.get('Allow') ?? '', /^(GET, HEAD, )?OPTIONS$/)
    assert.match(((await answer.json()) as { detail: string }).detail, /read-only/)
  }
  const { paths } = (await (await server.fetch('/openapi.json')).json()) as { paths: Record<string, object> }
  assert.deepEqual(Object.keys(paths['/api/{collection}'] ?? {}).includes('post'), false)
  assert.deepEqual(await (await server.fetch('/api/posts')).json(), DATA.posts)
})

test('a read-only server ignores an edit of the data file, says so, and the next start merges it', ONE, async (t) => {
  const first = await startServer(t, { data: DATA })
  assert.equal(await first.stop(), 0)
  const edited = JSON.stringify({ posts: [{ id: 1, title: 'edited' }] })

  const running = await startServer(t, { directory: first.directory, flags: ['--read-only', '--watch'] })
  await writeFile(running.file, edited)
  await until('the log to tell of the edit', () => /read-only[^\n]*not merged/.test(running.log()))
  assert.deepEqual(await (await running.fetch('/api/posts')).json(), DATA.posts)
  const { dataFile } = (await (await running.fetch('/health')).json()) as {
    dataFile: { state: string; detail: string }
  }
  assert.deepEqual([dataFile.state, /read-only/.test(dataFile.detail)], ['edited', true])
  assert.equal(await running.stop(), 0)
  assert.equal(await readFile(running.file, 'utf8'), edited)

  const again = await startServer(t, { directory: first.directory, flags: ['--read-only'] })
  assert.match(again.log(), /read-only[^\n]*not merged/)
  assert.deepEqual(await (await again.fetch('/api/posts')).json(), DATA.posts)
  assert.equal(await again.stop(), 0)
  assert.equal(await readFile(again.file, 'utf8'), edited)

  const writable = await startServer(t, { directory: first.directory })
  assert.deepEqual(await (await writable.fetch('/api/posts/1')).json(), { id: 1, title: 'edited' })
})
