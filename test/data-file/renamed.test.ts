import assert from 'node:assert/strict'
import { readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { json, ofOneServer, runToEnd, startServer } from '../support/server.ts'

const ONE = { skip: ofOneServer('a node of a cluster has its journal in the cluster') }
const ANY_PORT = ['--urls', 'http://127.0.0.1:0']

/** A directory in which `db.json` was served, written to, and renamed to `data.json`. */
async function renamed(t: TestContext): Promise<string> {
  const server = await startServer(t, { data: { posts: [{ id: 1, n: 1 }] } })
  assert.equal((await server.fetch('/api/posts/1', json('PATCH', { n: 2 }))).status, 204)
  assert.equal(await server.stop(), 0)
  await rename(server.file, join(server.directory, 'data.json'))
  return server.directory
}

test(
  'a data file that was renamed without its journal is rejected, and both suggested solutions work',
  ONE,
  async (t) => {
    const directory = await renamed(t)
    const { code, stderr } = await runToEnd(t, directory, [...ANY_PORT, 'data.json'])
    assert.equal(code, 1)
    assert.match(stderr, /has the content that \S+\/db\.json had, and no journal/)
    assert.match(stderr, /rename the journal to \S+\/data\.journal, or \S+\/data\.json back to \S+\/db\.json;/)
    assert.deepEqual((await readdir(directory)).sort(), ['.db.json.recollect', 'data.json', 'db.journal'])

    await rename(join(directory, 'db.journal'), join(directory, 'data.journal'))
    const moved = await startServer(t, { directory, isBare: true, flags: [...ANY_PORT, 'data.json'] })
    assert.deepEqual(await (await moved.fetch('/api/posts/1?asOf=2')).json(), { id: 1, n: 1 })
    assert.equal(((await (await moved.fetch('/events')).json()) as unknown[]).length, 3)
    assert.equal(await moved.stop(), 0)

    await rename(join(directory, 'data.journal'), join(directory, 'db.journal'))
    await rename(join(directory, 'data.json'), join(directory, 'db.json'))
    await rm(join(directory, '.data.json.recollect'))
    const back = await startServer(t, { directory, isBare: true, flags: [...ANY_PORT, 'db.json'] })
    assert.equal(((await (await back.fetch('/events')).json()) as unknown[]).length, 3)
  },
)

test('--accept-journal starts a new journal for a renamed data file', ONE, async (t) => {
  const directory = await renamed(t)
  const flags = [...ANY_PORT, 'data.json', '--accept-journal']
  const server = await startServer(t, { directory, isBare: true, flags })
  assert.deepEqual(await (await server.fetch('/api/posts/1')).json(), { id: 1, n: 2 })
})

test(
  'when the journal beside a file belongs to a missing one, the log explains what to do after a rename',
  ONE,
  async (t) => {
    const directory = await renamed(t)
    await writeFile(join(directory, 'data.json'), '{"posts": []}')
    const server = await startServer(t, { directory, isBare: true, flags: [...ANY_PORT, 'data.json'] })
    assert.match(server.stderr(), /"level":40[^\n]*db\.journal is missing[^\n]*rename the journal/)
    assert.equal(await server.stop(), 0)
    const other = await startServer(t, { directory: join(directory, 'other'), data: {} })
    assert.doesNotMatch(other.stderr(), /rename the journal/)
  },
)
