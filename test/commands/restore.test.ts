import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { FileItem } from '../../src/collections/file-items.ts'
import { decideRestore, type RestoredCollection } from '../../src/commands/restore.ts'
import type { Rules } from '../../src/commands/rules.ts'
import type { DomainEvent, ItemId } from '../../src/events/event.ts'
import type { JsonObject } from '../../src/json/value.ts'
import type { List } from '../../src/runtime/chunked-list.ts'
import { MemoryBudget } from '../../src/runtime/memory.ts'
import { ENDLESS, Turns } from '../../src/runtime/turns.ts'
import { accepted, begun, created, deleted, RULES, replaced, reset } from '../support/decider.ts'

const ITEMS = 1000
const NOW = accepted([begun, ...Array.from({ length: ITEMS }, (_, id) => created({ id }))])

function restored(items: readonly FileItem[], bytes: number): Promise<List<DomainEvent>> {
  const collections = new Map([['things', { items: () => items }]])
  const turns = new Turns({ memory: new MemoryBudget(bytes), kind: 'restores' })
  return turns.run((turn) => decideRestore({ type: 'collections', collections }, NOW, RULES, turn))
}

test('a restore that deletes more items than fit into memory is rejected', async () => {
  assert.equal((await restored([], 2 ** 20)).length, ITEMS)
  await assert.rejects(restored([], 50_000), { code: 'Unprocessable' })
})

test('a restore of longer items than fit into memory is rejected', async () => {
  const kept = Array.from({ length: ITEMS }, (_, id) => ({ id, text: `{"id":${id}}` }))
  const long = { id: ITEMS, text: `{"id":${ITEMS},"text":"${'x'.repeat(100_000)}"}` }
  assert.equal((await restored([...kept, long], 2 ** 20)).length, 1)
  await assert.rejects(restored([...kept, long], 50_000), { code: 'Unprocessable' })
})

/** The events of a reset to the items of collections, or to a data file with them. */
async function resetTo(
  type: 'reset' | 'import',
  data: Readonly<Record<string, readonly JsonObject[] | undefined>>,
  now: readonly DomainEvent[],
  rules: Partial<Rules> = {},
): Promise<readonly DomainEvent[]> {
  const collections = Object.entries(data).map(([name, items]): [string, RestoredCollection | undefined] => [
    name,
    items && { items: () => items.map((item) => ({ id: item.id as ItemId | undefined, text: JSON.stringify(item) })) },
  ])
  const restoration = { type, collections: new Map(collections) }
  return [...(await decideRestore(restoration, accepted(now), { ...RULES, ...rules }, ENDLESS))]
}

test('a reset sets the next id back to the one after the highest integer of the items', async () => {
  const now = [begun, created({ id: 1 }), created({ id: 2 }), deleted(2, { revision: 2, prior: 3 })]
  assert.deepEqual(await resetTo('reset', { things: [{ id: 1 }] }, now), [reset(2)])
  assert.deepEqual(await resetTo('reset', { things: [] }, now), [reset(0), deleted(1, { revision: 2, prior: 2 })])
})

test('a reset to the present state with its next id makes no events', async () => {
  const now = [begun, created({ id: 1 }), created({ id: 'x' })]
  for (const type of ['reset', 'import'] as const) {
    assert.deepEqual(await resetTo(type, { things: [{ id: 1 }, { id: 'x' }], others: undefined }, now), [])
  }
})

test('a reset sets the next id of a list back that it removes', async () => {
  const removed: DomainEvent = { type: 'CollectionRemoved', collection: 'things' }
  const emptied = [begun, created({ id: 0 }), deleted(0, { revision: 2, prior: 2 })]
  assert.deepEqual(await resetTo('reset', { things: undefined }, emptied), [reset(0), removed])
  assert.deepEqual(await resetTo('reset', { things: undefined }, [...emptied, removed]), [reset(0)])
  assert.deepEqual(await resetTo('reset', { things: undefined }, [...emptied, removed, reset(0)]), [])
})

test('a reset to a data file assigns the ids that its first import would, whatever has them now', async () => {
  const now = [begun, created({ id: 0, name: 'a' }), created({ id: 1, name: 'b' }), created({ id: 5, name: 'c' })]
  const stamps = [
    { revision: 2, prior: 2 },
    { revision: 2, prior: 3 },
  ] as const
  assert.deepEqual(await resetTo('import', { things: [{ name: 'b' }, { name: 'c' }] }, now), [
    reset(2),
    deleted(5, { revision: 2, prior: 4 }),
    replaced({ id: 0, name: 'b' }, stamps[0]),
    replaced({ id: 1, name: 'c' }, stamps[1]),
  ])
})

test('a reset to a data file makes its latest items', async () => {
  const time = { path: ['time'], isTimeRequired: false, defaultsToReceipt: false, maxAheadMs: 0 }
  const rules = {
    latest: new Map([['readings', { in: 'things', by: ['sensor'] }]]),
    times: new Map([['readings', time]]),
  }
  const readings = [
    { id: 1, sensor: 's', time: '2025-01-02T00:00:00Z', n: 2 },
    { id: 2, sensor: 's', time: '2025-01-01T00:00:00Z', n: 1 },
  ]
  const later = created({ id: 's', sensor: 's', time: '2025-06-01T00:00:00Z' })
  const events = await resetTo('import', { readings, things: undefined }, [begun, later], rules)
  assert.deepEqual(
    events.filter(({ collection }) => collection === 'things'),
    [replaced({ ...readings[0], id: 's' }, { revision: 2, prior: 2 })],
  )
})
