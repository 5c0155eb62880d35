import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FileItem } from '../../src/collections/file-items.ts'
import { decideRestore } from '../../src/commands/restore.ts'
import type { DomainEvent } from '../../src/events/event.ts'
import type { List } from '../../src/runtime/chunked-list.ts'
import { atOnce } from '../../src/runtime/time-slices.ts'
import { accepted, begun, created, RULES } from '../support/decider.ts'

const NOW = accepted([begun, ...Array.from({ length: 5 }, (_, id) => created({ id }))])

function restored(items: readonly FileItem[], heldCharacters: number): List<DomainEvent> {
  const collections = new Map([['things', { items: () => items }]])
  return atOnce(decideRestore({ type: 'collections', collections }, NOW, { ...RULES, heldCharacters }))
}

test('a restore that deletes more items than fit into memory is rejected', () => {
  assert.equal(restored([], 500).length, 5)
  assert.throws(() => restored([], 499), { code: 'Unprocessable' })
})

test('a restore of longer items than fit into memory is rejected', () => {
  const kept = Array.from({ length: 5 }, (_, id) => ({ id, text: `{"id":${id}}` }))
  const long = { id: 5, text: `{"id":5,"text":"${'x'.repeat(1000)}"}` }
  assert.equal(restored([...kept, long], long.text.length + 100).length, 1)
  assert.throws(() => restored([...kept, long], long.text.length + 99), { code: 'Unprocessable' })
})
