import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { type TestContext, test } from 'node:test'
import { until } from '../support/deadline.ts'
import { LARGE } from '../support/engine.ts'
import { json, ofOneServer, type RunningServer } from '../support/server.ts'
import { startServer } from '../support/service.ts'

const skip = ofOneServer('each node tells of its own data file')

interface DataFile {
  readonly state: string
  readonly position: number
  readonly behind: { readonly events: number; readonly bytes: number }
  readonly nextWrite: { readonly at?: string; readonly afterJournalBytes?: number } | null
}

async function told(server: RunningServer): Promise<DataFile> {
  return ((await (await server.fetch('/health')).json()) as { dataFile: DataFile }).dataFile
}

/** The metrics of the data file, by name. */
async function metrics(server: RunningServer): Promise<Readonly<Record<string, number>>> {
  const text = await (await server.fetch('/metrics')).text()
  const found = [...text.matchAll(/^recollect_data_file_((?:behind|next)\w+) (\S+)$/gm)]
  return Object.fromEntries(found.map(([, name, value]) => [name, Number(value)]))
}

async function started(t: TestContext, ...flags: readonly string[]): Promise<RunningServer> {
  const server = await startServer(t, { data: LARGE, flags })
  assert.equal((await told(server)).state, 'current')
  return server
}

async function write(server: RunningServer, n: number): Promise<void> {
  assert.equal((await server.fetch('/api/a/1', json('PUT', { n, text: 'x'.repeat(5000) }))).status, 204)
}

const snapshot = (server: RunningServer) => server.fetch('/admin/snapshot', { method: 'POST' })

test('/health reports how far a large data file is behind and when it is written; a snapshot writes it', {
  skip,
}, async (t) => {
  const server = await started(t)
  const current = await told(server)
  assert.deepEqual([current.behind, current.nextWrite], [{ events: 0, bytes: 0 }, null])
  assert.deepEqual(await metrics(server), { behind_events: 0, behind_bytes: 0 })
  await write(server, 1)
  const once = await told(server)
  assert.deepEqual([once.state, once.position, once.behind.events], ['behind', current.position, 1])
  assert.ok(once.behind.bytes > 5000, `${once.behind.bytes} bytes`)
  const left = once.nextWrite?.afterJournalBytes ?? 0
  assert.ok(left > 512 * 1024, `${left} bytes`)
  await write(server, 2)
  const twice = await told(server)
  const { afterJournalBytes = 0 } = twice.nextWrite ?? {}
  assert.ok(twice.behind.bytes > once.behind.bytes && afterJournalBytes < left)
  assert.deepEqual(await metrics(server), {
    behind_events: 2,
    behind_bytes: twice.behind.bytes,
    next_write_bytes: afterJournalBytes,
  })
  const response = await snapshot(server)
  assert.equal(response.status, 200)
  assert.equal(response.headers.get('Journal-Position'), String(current.position + 2))
  assert.deepEqual(await response.json(), { position: current.position + 2 })
  const { state, position, behind, nextWrite } = await told(server)
  assert.deepEqual([state, position, behind.events, nextWrite], ['current', current.position + 2, 0, null])
  assert.equal((JSON.parse(await readFile(server.file, 'utf8')) as typeof LARGE).a[1]?.n, 2)
})

test('with DataFile.MaxDelay /health reports the time of the next write', { skip }, async (t) => {
  const server = await started(t, '--DataFile.MaxDelay', '3600')
  const before = Date.now()
  await write(server, 1)
  const { at = '' } = (await told(server)).nextWrite ?? {}
  const [time, latest] = [Date.parse(at), Date.now() + 3_600_000]
  // A minute less, for a clock that is set back meanwhile.
  assert.ok(time > before + 3_540_000 && time <= latest, at)
  assert.equal((await metrics(server)).next_write_timestamp_seconds, time / 1000)
})

test('with DataFile.Write never /health reports no next write', { skip }, async (t) => {
  const server = await started(t, '--DataFile.Write', 'never')
  await write(server, 1)
  const { state, behind, nextWrite } = await told(server)
  assert.deepEqual([state, behind.events, nextWrite], ['behind', 1, null])
  assert.equal(await server.stop(), 0)
  assert.equal((JSON.parse(await readFile(server.file, 'utf8')) as typeof LARGE).a[1]?.n, 0)
})

test('a snapshot gets 409 when the data file was edited, and needs the role admin', { skip }, async (t) => {
  const keys = JSON.stringify([{ Name: 'w', Key: 'the-key-of-a-writer', Role: 'writer' }])
  const admin = { 'X-API-KEY': 'the-key-of-the-owner' }
  const server = await startServer(t, {
    data: { a: [] },
    flags: ['--Authentication.Enabled', 'true', '--Authentication.AuthenticationType', 'apikey'].concat(
      ['--Authentication.ApiKey', admin['X-API-KEY']],
      ['--Authentication.ApiKeys', keys],
    ),
  })
  const as = (headers: Record<string, string>) => server.fetch('/admin/snapshot', { method: 'POST', headers })
  assert.equal((await as({})).status, 401)
  assert.equal((await as({ 'X-API-KEY': 'the-key-of-a-writer' })).status, 403)
  assert.equal((await as(admin)).status, 200)
  await writeFile(server.file, '{"a":[{"id":1}]}')
  const response = await as(admin)
  assert.equal(response.status, 409)
  assert.match(((await response.json()) as { detail: string }).detail, /was edited/)
  assert.equal(await readFile(server.file, 'utf8'), '{"a":[{"id":1}]}')
})

test('a stop writes a large data file without a warning', { skip }, async (t) => {
  const server = await started(t)
  await write(server, 7)
  assert.equal(await server.stop(), 0)
  assert.equal((JSON.parse(await readFile(server.file, 'utf8')) as typeof LARGE).a[1]?.n, 7)
  assert.doesNotMatch(server.log(), /left behind/)
  const again = await startServer(t, { directory: server.directory })
  await until('the file to be current', async () => (await told(again)).state === 'current')
})
