import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pino } from 'pino'
import { FileEngine } from '../../src/engine/file-engine.ts'
import { Document } from '../../src/json/document.ts'
import { directoryUntilExit } from '../support/directory.ts'
import { DATA_FILE, JOURNAL, SETTINGS } from '../support/engine.ts'
import { openJournal } from '../support/journal.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

test('a start without a store logs how much of the journal it has read', async (t) => {
  const disk = new SimulatedDisk()
  const files = disk.files()
  const { journal } = await openJournal(files, JOURNAL, { segmentBytes: 1000 })
  await journal.append({
    expected: 1,
    actor: 'a',
    requestId: 'r',
    events: [{ type: 'CollectionCreated', collection: 'a' }],
  })
  for (let id = 1; id <= 20; id++) {
    const event = { collection: 'a', id, revision: 1, prior: 0, item: Document.of({ id }) }
    await journal.append({ expected: id + 1, actor: 'a', requestId: 'r', events: [{ type: 'ItemCreated', ...event }] })
  }
  await journal.close()

  const lines: Record<string, unknown>[] = []
  let seconds = 0
  const store = directoryUntilExit()
  const engine = await FileEngine.open(
    { ...SETTINGS, file: DATA_FILE, acceptJournal: true, store: store.path },
    {
      files,
      now: () => new Date('2026-11-20T12:00:00.000Z'),
      newId: () => 'id',
      schedule: () => ({ cancel: () => {} }),
      elapsedMs: () => 1000 * seconds++,
      log: pino({ level: 'info' }, { write: (line) => void lines.push(JSON.parse(line)) }),
      sampleFile: '/nowhere',
      failed: (error) => assert.fail(String(error)),
    },
  )
  t.after(async () => {
    await engine.close()
    await store.remove()
  })
  const told = lines.filter(({ msg }) => msg === 'the journal is being read and checked')
  const segments = told.map((line) => line.segments as number)
  assert.ok(segments.length > 1, JSON.stringify(lines))
  assert.deepEqual(
    segments,
    [...new Set(segments)].sort((a, b) => a - b),
  )
  for (const { of } of told) assert.ok(Number(of) > 5)
})
