import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { pino } from 'pino'
import { ClusterDataFile } from '../../src/cluster/cluster-data-file.ts'
import { Projections } from '../../src/engine/projections.ts'
import type { DomainEvent } from '../../src/events/event.ts'
import type { Files } from '../../src/files/files.ts'
import { Document } from '../../src/json/document.ts'
import { Views } from '../../src/projections/views.ts'
import { until } from '../support/deadline.ts'
import { DATA_FILE, JOURNAL, SETTINGS } from '../support/engine.ts'
import { memoryJournal } from '../support/journal.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const DOOR = 'the file of this node'

const now = (): Date => new Date('2026-11-20T12:00:00.000Z')

function prepared(files: Files) {
  const projections = new Projections(Views.temporary(), DOOR)
  const dataFile = new ClusterDataFile({
    settings: { ...SETTINGS, store: '' },
    dependencies: {
      files,
      now,
      newId: () => 'id',
      schedule: (work) => {
        const timer = setImmediate(work)
        return { cancel: () => clearImmediate(timer) }
      },
      elapsedMs: () => performance.now(),
      log: pino({ level: 'silent' }),
      sampleFile: '/nowhere',
      failed: (error) => assert.fail(String(error)),
    },
    projections,
  })
  return { projections, dataFile }
}

test('an edit that was merged before a crash is not merged again by a node with a new store', async (t) => {
  const disk = new SimulatedDisk()
  const edited = JSON.stringify({ a: [{ id: 1, n: 2 }] })
  disk.put(DATA_FILE, Buffer.from(edited))
  disk.put(`${JOURNAL}/data-file.id`, Buffer.from(DOOR))
  const confirmed = { position: 1, hash: 'of what the file was before the edit' }
  disk.put('/data/.db.json.recollect', Buffer.from(JSON.stringify({ journal: 'journal', confirmed, shown: [] })))

  const journal = memoryJournal('journal', now)
  const item = (n: number) => Document.of({ id: 1, n })
  const writes: readonly (readonly [actor: string, event: DomainEvent])[] = [
    ['client', { type: 'CollectionCreated', collection: 'a' }],
    ['data-file', { type: 'ItemCreated', collection: 'a', id: 1, revision: 1, prior: 0, item: item(2) }],
    ['client', { type: 'ItemReplaced', collection: 'a', id: 1, revision: 2, prior: 2, item: item(3) }],
  ]
  for (const [index, [actor, event]] of writes.entries()) {
    const key = createHash('sha256').update(edited).digest('hex')
    const origin = actor === 'data-file' ? { actor, requestId: DOOR, key } : { actor, requestId: 'r' }
    await journal.append({ expected: index + 1, ...origin, events: [event] })
  }

  const { projections, dataFile } = prepared(disk.files())
  await projections.views.build(journal.read(1), 'fail')
  await dataFile.open({
    journal,
    past: { names: () => assert.fail('nothing is asked of the past'), collection: () => assert.fail() },
    check: () => assert.fail('it was read again'),
    merge: () => assert.fail('it was merged again'),
  })
  t.after(() => dataFile.close())
  await until('the data file to show the later write', () => String(disk.bytes(DATA_FILE)).includes('"n": 3'))
  assert.equal(dataFile.status?.state, 'current')
})

test('the import of a node that leads no longer is aborted, and continued when the node leads again', async (t) => {
  const disk = new SimulatedDisk()
  disk.put(DATA_FILE, Buffer.from(JSON.stringify({ a: [{ id: 1 }] })))
  let isResigning = true
  const files = disk.files((operation, path) => {
    if (isResigning && operation === 'read' && path === DATA_FILE) dataFile.end()
    return undefined
  })
  const { dataFile } = prepared(files)
  let merges = 0
  const connection = {
    journal: memoryJournal('journal', now),
    past: { names: () => [], collection: () => assert.fail('there is no past') },
    check: () => {},
    merge: async () => {
      merges++
      return { basis: 0, edited: 0, events: 0, conflicts: [] }
    },
  }
  await dataFile.open(connection)
  assert.deepEqual([merges, dataFile.status], [0, undefined])
  await dataFile.close()
  isResigning = false
  await dataFile.open(connection)
  t.after(() => dataFile.close())
  assert.equal(merges, 1)
})
