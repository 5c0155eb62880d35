import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DATA_FILE_ACTOR, firstImportEnd } from '../../src/data-file/merged-edits.ts'
import { partKey } from '../../src/events/journal.ts'
import { memoryJournal } from '../support/journal.ts'

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
