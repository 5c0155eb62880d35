import assert from 'node:assert/strict'
import { mkdir, rename, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { segmentName } from '../../src/events/segment.ts'
import { fetch } from '../support/deadline.ts'
import { type ProbedServer, startProbed } from '../support/probe.ts'

const NDJSON = 'application/x-ndjson'
const READS: readonly (readonly [string, string])[] = [
  ['/events', 'application/json'],
  ['/events', NDJSON],
  ['/events', 'text/event-stream'],
  ['/events?order=desc', 'application/json'],
  ['/events?since=2020-01-01', 'application/json'],
  ['/events?collection=a&id=1', 'application/json'],
  ['/events/150', 'application/json'],
  ['/events/150', NDJSON],
  ['/api/a?asOf=150', 'application/json'],
  ['/api/a/99?asOf=150', 'application/json'],
]

/** A server whose items were all written twice, and the segment with its events. */
async function start(t: TestContext): Promise<{ readonly server: ProbedServer; readonly segment: string }> {
  const server = await startProbed(t, { data: { a: Array.from({ length: 100 }, (_, id) => ({ id })) } })
  for (let id = 0; id < 100; id++) {
    const headers = { 'Content-Type': 'application/json' }
    const put = await fetch(`${server.url}/api/a/${id}`, { method: 'PUT', headers, body: '{"n":1}' })
    assert.equal(put.status, 204)
  }
  return { server, segment: join(server.directory, 'db.journal', segmentName(1)) }
}

/** Every read of the past is refused with the reason; the present is served on. */
async function assertRefused({ url, directory, stderr }: ProbedServer): Promise<void> {
  for (const [path, accept] of READS) {
    const answer = await fetch(url + path, { headers: { Accept: accept }, signal: AbortSignal.timeout(120_000) })
    assert.equal(answer.status, 503, path)
    assert.equal(answer.headers.get('Retry-After'), '1')
    const { type, detail } = (await answer.json()) as { type: string; detail: string }
    assert.equal(type, 'urn:recollect:problem:Unavailable')
    assert.match(detail, /^The events from position \d+ .* cannot be read: the journal is damaged/)
    assert.ok(!detail.includes(directory), 'a path of the server is nothing for strangers')
  }
  assert.match(stderr(), new RegExp(segmentName(1)), 'the log has the place')
  assert.deepEqual(await (await fetch(`${url}/api/a/7`)).json(), { id: 7, n: 1 })
}

test('reading from a missing segment of the journal gets 503 with the reason', async (t) => {
  const { server, segment } = await start(t)
  await rename(segment, `${segment}.away`)
  await assertRefused(server)
  await rename(`${segment}.away`, segment)
  for (const [path, accept] of READS) {
    const answer = await fetch(server.url + path, { headers: { Accept: accept } })
    assert.equal(answer.status, 200, path)
    await answer.body?.cancel()
  }
})

test('reading a journal whose directory was removed gets 503', async (t) => {
  const { server } = await start(t)
  const journal = join(server.directory, 'db.journal')
  await rm(journal, { recursive: true })
  await assertRefused(server)
  // A process that ends now finds its directory again.
  await mkdir(journal, { recursive: true })
})

test('reading a truncated journal gets 503 and ends', async (t) => {
  const { server, segment } = await start(t)
  for (const bytes of [2000, 100, 0]) {
    await truncate(segment, bytes)
    await assertRefused(server)
  }
})
