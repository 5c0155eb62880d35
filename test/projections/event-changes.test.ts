import assert from 'node:assert/strict'
import { test } from 'node:test'
import { JournalDamage } from '../../src/events/damage.ts'
import type { DomainEvent, Position } from '../../src/events/event.ts'
import type { Journal } from '../../src/events/journal.ts'
import { Document } from '../../src/json/document.ts'
import { withChanges } from '../../src/projections/event-changes.ts'
import { search } from '../../src/projections/event-search.ts'
import { Memory, MemoryBudget } from '../../src/runtime/memory.ts'
import { Semaphore } from '../../src/runtime/turns.ts'
import { memoryJournal } from '../support/journal.ts'

const ITEMS = 100

/** A journal of items that each were created and then replaced, with a text of so many characters. */
async function replaced(length: (id: number) => number): Promise<Journal> {
  const journal = memoryJournal('00000000-0000-4000-8000-000000000000', () => new Date(0))
  const append = (event: DomainEvent) =>
    journal.append({ expected: journal.head + 1, actor: 'ada', requestId: 'r', events: [event] })
  const fields = (id: number, revision: number) => ({
    collection: 'things',
    id,
    revision,
    prior: revision > 1 ? id : 0,
  })
  for (let id = 1; id <= ITEMS; id++) {
    await append({ ...fields(id, 1), type: 'ItemCreated', item: Document.of({ id, text: 'a'.repeat(length(id)) }) })
  }
  for (let id = 1; id <= ITEMS; id++)
    await append({ ...fields(id, 2), type: 'ItemReplaced', item: Document.of({ id, text: 'b' }) })
  return journal
}

/** The changes of the second half of the journal, by position, while damaged events cannot be read by `at`. */
async function changesOf(journal: Journal, memory?: Memory, damaged?: Position) {
  let bytes = 0
  const at: Journal['at'] = async function* (positions) {
    for (const position of positions) {
      if (position === damaged) {
        throw new JournalDamage({ path: 'x', offset: 0, position, next: position + 1, why: 'damaged' })
      }
      for await (const recorded of journal.at([position])) {
        const event = recorded.events.at(0)
        if (event && 'item' in event) bytes += event.item.text.length
        yield recorded
      }
    }
  }
  const source = { journal: { head: journal.head, read: journal.read, at }, history: () => undefined }
  const searched = { ...source, searches: new Semaphore(1) }
  const asker = { isGone: () => false, memory }
  const found = new Map<Position, string | undefined>()
  const events = search(searched, { from: ITEMS + 1 }, journal.head, asker)
  for await (const { position, changes } of withChanges(searched, events, asker)) found.set(position, changes)
  return { found, bytes }
}

test('changes of small and large items are found with little memory, and few events read twice', async () => {
  const length = (id: number) => (id % 3 === 0 ? 300_000 : 10)
  const journal = await replaced(length)
  const budget = new MemoryBudget(2 ** 21)
  const { found, bytes } = await changesOf(journal, new Memory(budget, 'responses'))
  assert.equal(found.size, ITEMS)
  for (let id = 1; id <= ITEMS; id++) {
    assert.deepEqual(JSON.parse(found.get(ITEMS + id) as string), [
      { path: '/text', before: 'a'.repeat(length(id)), after: 'b' },
    ])
  }
  const least = Array.from({ length: ITEMS }, (_, index) => length(index + 1)).reduce((sum, one) => sum + one, 0)
  assert.ok(bytes < 6 * least, `${bytes} characters were read, of ${least}`)
  assert.equal(budget.held('responses'), 0)
})

test('changes are null where the journal is damaged, and only there', async () => {
  const journal = await replaced(() => 10)
  const { found } = await changesOf(journal, undefined, 30)
  const unknown = Array.from(found).filter(([, changes]) => changes === 'null')
  assert.deepEqual(unknown, [[ITEMS + 30, 'null']])
  assert.equal(found.size, ITEMS)
})
