import assert from 'node:assert/strict'
import { readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { DATA_FILE_ACTOR, firstImportEnd } from '../../src/data-file/merged-edits.ts'
import { partKey } from '../../src/events/journal.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { until } from '../support/deadline.ts'
import { DATA_FILE, diskWith, openTestEngine } from '../support/engine.ts'
import { memoryJournal } from '../support/journal.ts'
import { json, ofOneServer, runToEnd, startProgram } from '../support/server.ts'
import { startServer } from '../support/service.ts'
import type { SimulatedDisk } from '../support/simulated-files.ts'

/** A write of this number of events; of the data file if it has a key. */
interface Write {
  readonly events: number
  readonly key?: string
}

/** The end of the first import in a journal with these writes, and after another write of a client. */
async function endsIn(...writes: readonly Write[]): Promise<readonly number[]> {
  const journal = memoryJournal('00000000-0000-4000-8000-000000000000', () => new Date(0))
  const write = async ({ events, key }: Write): Promise<void> => {
    const origin = key === undefined ? { actor: 'anonymous' } : { actor: DATA_FILE_ACTOR, key }
    const made = Array.from({ length: events }, (_, at) => ({
      type: 'CollectionCreated' as const,
      collection: `${journal.head}-${at}`,
    }))
    await journal.append({ ...origin, requestId: 'r', expected: journal.head + 1, events: made })
  }
  for (const one of writes) await write(one)
  const before = await firstImportEnd(journal)
  await write({ events: 1 })
  return [before, await firstImportEnd(journal)]
}

test('the first import is the first write of the data file, and none if another write is the first', async () => {
  assert.deepEqual(await endsIn(), [0, 0])
  assert.deepEqual(await endsIn({ events: 3, key: 'a' }), [3, 3])
  assert.deepEqual(await endsIn({ events: 3, key: 'a' }, { events: 2, key: 'b' }), [3, 3])
  assert.deepEqual(await endsIn({ events: 3, key: 'a' }, { events: 2 }, { events: 2, key: 'b' }), [3, 3])
  assert.deepEqual(await endsIn({ events: 1 }, { events: 3, key: 'a' }), [0, 0])
})

test('the first import in parts ends with the write without a part key, or before a write of others', async () => {
  const parts = [partKey('a'), partKey('a')].map((key) => ({ events: 2, key }))
  assert.deepEqual(await endsIn(...parts, { events: 1, key: 'a' }, { events: 1, key: 'b' }), [5, 5])
  assert.deepEqual(await endsIn(...parts, { events: 1 }, { events: 1, key: 'b' }), [4, 4])
  assert.deepEqual(await endsIn(...parts), [4, 4])
})

test('the records of one large write belong together', async () => {
  assert.deepEqual(await endsIn({ events: 3, key: 'a' }, { events: 2, key: 'a' }, { events: 2, key: 'b' }), [5, 5])
})

/** Opens, lets the data file be written, and closes; resolves with how often the data file was opened or read. */
async function started(disk: SimulatedDisk, change: boolean): Promise<{ reads: number; events: number }> {
  let reads = 0
  const files = disk.files((operation, path) => {
    if (path === DATA_FILE && (operation === 'open' || operation === 'read')) reads++
    return undefined
  })
  const { engine } = await openTestEngine(files)
  const opening = reads
  const { head } = engine.journal
  const command = { type: 'CreateItem', collection: 'a', item: {} } as const
  if (change) await engine.handler.handle(command, { actor: 'a', requestId: 'r' })
  await until('the data file to be current', async () => engine.dataFile.status.state === 'current')
  await engine.close()
  return { reads: opening, events: head }
}

test('an imported data file, or one recognized by its content, is not read at the next start', async () => {
  const disk = diskWith('{"a":[{"id":0}]}')
  assert.ok((await started(disk, false)).reads > 0)
  assert.equal((await started(disk, false)).reads, 0)
  const killed = disk.killed()
  assert.equal((await started(killed, false)).reads, 0)
  killed.put(DATA_FILE, killed.bytes(DATA_FILE) as Buffer)
  assert.ok((await started(killed, false)).reads > 0, 'a copy is another file')
  assert.equal((await started(killed, false)).reads, 0)
})

test('only an edited data file is read at the next start', async () => {
  const disk = diskWith('{"a":[{"id":0}]}')
  await started(disk, true)
  assert.equal((await started(disk, true)).reads, 0)
  const data = JSON.parse(String(disk.bytes(DATA_FILE))) as { a: unknown[] }
  data.a.push({ id: 9 })
  disk.put(DATA_FILE, Buffer.from(JSON.stringify(data)))
  const edited = await started(disk, false)
  assert.ok(edited.reads > 0)
  assert.equal(edited.events, 5)
  disk.put(DATA_FILE, disk.bytes(DATA_FILE) as Buffer)
  assert.ok((await started(disk, false)).reads > 0, 'a copy is another file, whatever it holds')
})

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
    assert.deepEqual((await readdir(directory)).sort(), ['.recollect', 'data.json', 'db.journal'])

    await rename(join(directory, 'db.journal'), join(directory, 'data.journal'))
    const moved = await startProgram(t, { directory, isBare: true, flags: [...ANY_PORT, 'data.json'] })
    assert.deepEqual(await (await moved.fetch('/api/posts/1?asOf=2')).json(), { id: 1, n: 1 })
    assert.equal(((await (await moved.fetch('/events')).json()) as unknown[]).length, 3)
    assert.equal(await moved.stop(), 0)

    await rename(join(directory, 'data.journal'), join(directory, 'db.journal'))
    await rename(join(directory, 'data.json'), join(directory, 'db.json'))
    await rm(join(directory, '.recollect', 'data.json.state'))
    const back = await startProgram(t, { directory, isBare: true, flags: [...ANY_PORT, 'db.json'] })
    assert.equal(((await (await back.fetch('/events')).json()) as unknown[]).length, 3)
  },
)

test('--accept-journal starts a new journal for a renamed data file', ONE, async (t) => {
  const directory = await renamed(t)
  const flags = [...ANY_PORT, 'data.json', '--accept-journal']
  const server = await startProgram(t, { directory, isBare: true, flags })
  assert.deepEqual(await (await server.fetch('/api/posts/1')).json(), { id: 1, n: 2 })
})

test(
  'when the journal beside a file belongs to a missing one, the log explains what to do after a rename',
  ONE,
  async (t) => {
    const directory = await renamed(t)
    await writeFile(join(directory, 'data.json'), '{"posts": []}')
    const server = await startProgram(t, { directory, isBare: true, flags: [...ANY_PORT, 'data.json'] })
    assert.match(server.stderr(), /"level":40[^\n]*db\.journal is missing[^\n]*rename the journal/)
    assert.equal(await server.stop(), 0)
    const other = await startServer(t, { directory: join(directory, 'other'), data: {} })
    assert.doesNotMatch(other.log(), /rename the journal/)
  },
)

test('an unreadable data file is rejected with the reason, and merged when it can be read again', async () => {
  const disk = diskWith('{"things":[{"id":0}]}')
  let code: string | undefined
  let failing: readonly string[] = ['open', 'read']
  const files = disk.files((operation, path) =>
    code !== undefined && path === DATA_FILE && failing.includes(operation) ? { type: 'error', code } : undefined,
  )
  const { engine } = await openTestEngine(files)
  disk.put(DATA_FILE, Buffer.from('{"things":[{"id":1}]}'))
  for (const one of ['EACCES', 'EIO', 'ESTALE', 'ELOOP']) {
    code = one
    if (one === 'ELOOP') failing = ['stat']
    await assert.rejects(engine.dataFile.reload(), (error: unknown) => {
      assert.ok(error instanceof Refusal, String(error))
      assert.equal(error.code, 'Unavailable')
      assert.ok(error.message.includes(DATA_FILE) && error.message.includes(one), error.message)
      return true
    })
  }
  code = undefined
  assert.equal((await engine.dataFile.reload()).events, 2)
  assert.equal(engine.health().status, 'ok')
  await engine.close()
})
