import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { pino } from 'pino'
import type { DomainEvent } from '../../src/events/event.ts'
import { Document } from '../../src/json/document.ts'
import { Views } from '../../src/projections/views.ts'
import { ClusterDataFile } from '../../src/server/cluster-data-file.ts'
import { Projections } from '../../src/server/projections.ts'
import { DATA_FILE, JOURNAL, SETTINGS } from '../support/engine.ts'
import { memoryJournal } from '../support/memory-journal.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'
import { until } from '../support/until.ts'

const DOOR = 'the file of this node'

test('an edit that was merged before a crash is not merged again by a node with a new store', async (t) => {
  const disk = new SimulatedDisk()
  const edited = JSON.stringify({ a: [{ id: 1, n: 2 }] })
  disk.put(DATA_FILE, Buffer.from(edited))
  disk.put(`${JOURNAL}/data-file.id`, Buffer.from(DOOR))
  const confirmed = { position: 1, hash: 'of what the file was before the edit' }
  disk.put('/data/.db.json.recollect', Buffer.from(JSON.stringify({ journal: 'journal', confirmed, shown: [] })))

  const now = (): Date => new Date('2026-11-20T12:00:00.000Z')
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

  const projections = new Projections(Views.temporary(), DOOR)
  const dataFile = await ClusterDataFile.prepare({
    settings: { ...SETTINGS, store: '' },
    dependencies: {
      files: disk.files(),
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
