import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { test } from 'node:test'
import { pino } from 'pino'
import type { DomainEvent } from '../../src/events/event.ts'
import { FileJournal } from '../../src/events/file-journal.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { Document } from '../../src/json/document.ts'
import { LimitedLog } from '../../src/runtime/limited-log.ts'
import { fetch, until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { startHere } from '../support/service.ts'

const WRITES = 60
const EVENTS = 1000

/** A journal that no store was built from. */
async function writeJournal(directory: string): Promise<void> {
  const journal = await FileJournal.open({
    files: nodeFiles,
    directory,
    now: () => new Date(),
    log: new LimitedLog(pino({ level: 'silent' }), () => 0),
    newId: randomUUID,
    segmentBytes: 2 ** 20,
    replay: () => {},
    failed: (error) => assert.fail(error as Error),
  })
  const author = { actor: 'a', requestId: 'r' }
  await journal.append({ expected: 1, ...author, events: [{ type: 'CollectionCreated', collection: 'c' }] })
  for (let write = 0; write < WRITES; write++) {
    const events = Array.from({ length: EVENTS }, (_, index): DomainEvent => {
      const id = write * EVENTS + index
      return { type: 'ItemCreated', collection: 'c', id, revision: 1, prior: 0, item: Document.of({ id }) }
    })
    await journal.append({ expected: 2 + write * EVENTS, ...author, events })
  }
  await journal.close()
}

test('while the store is built only the journal can be read, and afterwards everything', async (t) => {
  const ends: (() => Promise<unknown>)[] = []
  const directory = await temporaryDirectory({ after: (end) => void ends.push(end) })
  await writeJournal(join(directory, 'db.journal'))
  // A start does not wait for it.
  const { url, failures } = await startHere(t, {
    directory,
    waitsForStore: false,
    delay: (delayMs) => (delayMs === 5000 ? 0 : delayMs),
  })
  for (const end of ends) t.after(end)
  const json = { 'Content-Type': 'application/json' }
  // All at once: the store is complete after some tens of turns of the event loop.
  const [health, events, ...refused] = await Promise.all([
    fetch(`${url}/health`),
    fetch(`${url}/events?collection=c&id=7`),
    fetch(`${url}/api/c?id=5`),
    fetch(`${url}/api/c/5`),
    fetch(`${url}/api/c`, { method: 'POST', headers: json, body: '{}' }),
    fetch(`${url}/admin/reload`, { method: 'POST' }),
    fetch(`${url}/admin/restore`, { method: 'POST', headers: json, body: '{"to":1}' }),
    fetch(`${url}/socket.io/?EIO=4&transport=polling`),
  ])
  assert.deepEqual(
    refused.map(({ status }) => status),
    [503, 503, 503, 503, 503, 403],
  )
  assert.equal(refused[0]?.headers.get('Retry-After'), '1')
  assert.match(
    await (refused[0] as Response).text(),
    /The store is being built from the journal; it has \d+ of 60001 events/,
  )
  const { status, store } = (await health.json()) as { status: string; store: { state: string } }
  assert.deepEqual([status, store.state], ['unavailable', 'building'])
  assert.equal(events.status, 200)
  assert.match(await events.text(), /"id":7/)

  await until('the store to be built', async () => (await fetch(`${url}/api/c/5`)).status === 200)
  const page = await fetch(`${url}/api/c?skip=59999`)
  assert.equal(page.headers.get('X-Total-Count'), '60000')
  assert.deepEqual(await page.json(), [{ id: 59_999 }])
  assert.equal((await fetch(`${url}/api/c`, { method: 'POST', headers: json, body: '{}' })).status, 201)
  assert.deepEqual(failures, [])
})
