import assert from 'node:assert/strict'
import { rename } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { headOf } from '../support/requests.ts'
import { json, ofOneServer, type RunningProgram, runToEnd, startProgram } from '../support/server.ts'

const SMALL_HEAP = { NODE_OPTIONS: '--max-old-space-size=256' }
/** Together longer than a quarter of this heap, which has the young generation besides. */
const ITEMS = 110
const CHARACTERS = 1_000_000

async function textsOf(server: RunningProgram, asOf = ''): Promise<readonly string[]> {
  const texts: string[] = []
  for (let id = 0; id < ITEMS; id++) texts.push(await (await server.fetch(`/api/long/${id}${asOf}`)).text())
  return texts
}

test('a restore or an edit of more items than fit into memory is rejected, and is done in several', {
  skip: ofOneServer('a node sends a restore to the leader, as a message of bounded size'),
}, async (t) => {
  const flags = ['--DataFile.Write', 'never']
  const server = await startProgram(t, { data: { long: [] }, env: SMALL_HEAP, flags })
  for (let id = 0; id < ITEMS; id++) {
    await server.fetch('/api/long', json('POST', { text: String(id).padEnd(CHARACTERS) }))
  }
  const to = await headOf(server.url)
  for (let id = 0; id < ITEMS; id++) await server.fetch(`/api/long/${id}`, json('PUT', { id }))
  const changed = await headOf(server.url)
  for (const dryRun of [true, false]) {
    const answer = await server.fetch('/admin/restore', json('POST', { to, dryRun }))
    assert.equal(answer.status, 422)
    assert.match(((await answer.json()) as { detail: string }).detail, /fit into memory.*recollect replay --to/)
  }
  assert.equal(await headOf(server.url), changed)
  const single = await server.fetch('/admin/restore', json('POST', { to, collection: 'long', id: 1 }))
  assert.equal(((await single.json()) as { events: number }).events, 1)

  const { directory } = server
  const [journal, past] = ['db.journal', 'past.json'].map((name) => join(directory, name)) as [string, string]
  await runToEnd(t, directory, ['replay', '--journal', journal, '--to', String(to), '--out', past])
  await rename(past, join(directory, 'db.json'))
  const position = await headOf(server.url)
  const reloaded = await server.fetch('/admin/reload', { method: 'POST' })
  assert.equal(reloaded.status, 422)
  assert.match(
    ((await reloaded.json()) as { detail: string }).detail,
    /fit into memory.*Nothing .* is merged.*several edits/,
  )
  assert.equal(await headOf(server.url), position)
  for (let id = 0; id < ITEMS; id++) {
    assert.ok((await server.fetch('/admin/restore', json('POST', { to, collection: 'long', id }))).ok)
  }
  assert.deepEqual(await textsOf(server), await textsOf(server, `?asOf=${to}`))
})
