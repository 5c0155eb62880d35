import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CollectionState } from '../../src/collections/collection.ts'
import { isItem, keyOf } from '../../src/collections/item.ts'
import { naturalKeyOf } from '../../src/collections/natural-keys.ts'
import { Overlay } from '../../src/collections/overlay.ts'
import { itemWithKey } from '../../src/commands/item-rules.ts'
import type { Rules } from '../../src/commands/rules.ts'
import type { DomainEvent, ItemId, Position } from '../../src/events/event.ts'
import { Document } from '../../src/json/document.ts'
import { Views } from '../../src/projections/views.ts'
import { Store } from '../../src/store/store.ts'
import { project, recordOf } from '../support/collections.ts'
import { RULES } from '../support/decider.ts'
import { Random, SEED } from '../support/random.ts'

const ROUNDS = Number(process.env.OVERLAY_ROUNDS ?? 40)
const COLLECTIONS = ['a', 'b']
const IDS: readonly ItemId[] = [0, 1, 2, '3', 'x', 'y', 4]

function itemsOf(state: CollectionState | undefined): object {
  return Array.from(state?.items() ?? [], ({ id, value, revision, position }) => ({ id, value, revision, position }))
}

function described(state: CollectionState | undefined): object {
  return {
    exists: state?.exists ?? false,
    nextId: state?.nextId ?? 0,
    textIds: state?.textIds ?? 0,
    byKey: IDS.map((id) => {
      const entry = state?.get(keyOf(id))
      return entry && { revision: entry.revision, position: entry.position, value: isItem(entry) ? entry.value : null }
    }),
  }
}

/** Any one event that can follow. */
function anyEvent(random: Random, whole: Views): DomainEvent {
  const collection = random.pick(COLLECTIONS)
  const state = whole.any(collection)
  if (!state?.exists) return { type: 'CollectionCreated', collection }
  const ids = Array.from(state.items(), ({ id }) => id)
  if (random.chance(0.04) && ids.length === 0) return { type: 'CollectionRemoved', collection }
  if (random.chance(0.12)) {
    const shuffled = ids.map((id) => ({ id, rank: random.next() })).sort((one, other) => one.rank - other.rank)
    const some = shuffled.map(({ id }) => id).slice(0, random.chance(0.7) ? ids.length : random.integer(ids.length + 1))
    return { type: 'CollectionOrdered', collection, ids: some }
  }
  if (random.chance(0.05)) return { type: 'IdsReset', collection, nextId: random.integer(state.nextId + 1) }
  const id = random.pick(IDS)
  const before = state.get(keyOf(id))
  const stamp = { collection, id, revision: (before?.revision ?? 0) + 1, prior: before?.position ?? 0 }
  if (!isItem(before)) return { type: 'ItemCreated', ...stamp, item: Document.of({ id, n: random.integer(100) }) }
  if (random.chance(0.5)) return { type: 'ItemDeleted', ...stamp }
  return {
    type: random.pick(['ItemReplaced', 'ItemPatched'] as const),
    ...stamp,
    item: Document.of({ id, n: random.integer(100) }),
  }
}

test('an overlay on durable data equals one collection that has all events, whenever it is settled', () => {
  for (let round = 0; round < ROUNDS; round++) {
    const random = new Random(SEED + round)
    const durable = Views.temporary()
    const whole = Views.temporary()
    const overlay = new Overlay(durable.any, 0)
    const waiting: { events: DomainEvent[]; last: Position }[] = []
    let head = 0
    let settled = 0
    for (let step = 0; step < 120; step++) {
      if (random.chance(0.6)) {
        const events: DomainEvent[] = []
        for (let count = 1 + random.integer(3); count > 0; count--) {
          const event = anyEvent(random, whole)
          project(whole, recordOf(++head, [event]))
          events.push(event)
        }
        overlay.accept(events)
        waiting.push({ events, last: head })
      } else {
        const write = waiting.shift()
        if (!write) continue
        project(durable, recordOf(settled + 1, write.events))
        settled = write.last
        overlay.settle(write.last)
      }
      assert.equal(overlay.head, head)
      for (const name of COLLECTIONS) {
        const context = `SEED=${SEED + round}, step ${step}, ${name}`
        assert.deepEqual(described(overlay.collection(name)), described(whole.any(name)), context)
        // The order is not known before it is durable.
        if (!waiting.some(({ events }) => events.some(({ collection }) => collection === name))) {
          assert.deepEqual(itemsOf(overlay.collection(name)), itemsOf(whole.any(name)), context)
        } else assert.throws(() => overlay.collection(name).items(), /are being flushed/, context)
      }
    }
  }
})

const KEY = { fields: [['mac']], timePart: -1 }
const MACS = ['a', 'b', 'c', 'd']
const rules: Rules = { ...RULES, keyFields: new Map([['a', KEY]]) }

async function withKeys(): Promise<Views> {
  const views = new Views(Store.temporary(), { keyFields: rules.keyFields })
  await views.buildNaturalKeys()
  return views
}

/** Any one event that can follow, after which no two items have the same natural key. */
function anyKeyedEvent(random: Random, whole: Views): DomainEvent {
  const collection = 'a'
  const state = whole.any(collection)
  if (!state?.exists) return { type: 'CollectionCreated', collection }
  const id = random.pick(IDS)
  const before = state.get(keyOf(id))
  const taken = Array.from(state.items(), ({ value }) => value.mac)
  const free = MACS.filter((mac) => !taken.includes(mac))
  const stamp = { collection, id, revision: (before?.revision ?? 0) + 1, prior: before?.position ?? 0 }
  if (isItem(before) && random.chance(0.4)) return { type: 'ItemDeleted', ...stamp }
  const item = Document.of({ id, ...(free.length > 0 && random.chance(0.9) && { mac: random.pick(free) }) })
  return { type: isItem(before) ? 'ItemReplaced' : 'ItemCreated', ...stamp, item }
}

test('an overlay finds the item that has a natural key, and no other, whenever it is settled', async () => {
  for (let round = 0; round < ROUNDS; round++) {
    const random = new Random(SEED + round)
    const durable = await withKeys()
    const whole = await withKeys()
    const overlay = new Overlay(durable.any, 0, rules.keyFields)
    const waiting: DomainEvent[] = []
    let head = 0
    let found = 0
    for (let step = 0; step < 120; step++) {
      if (random.chance(0.6)) {
        const event = anyKeyedEvent(random, whole)
        project(whole, recordOf(++head, [event]))
        overlay.accept([event])
        waiting.push(event)
      } else {
        const event = waiting.shift()
        if (!event) continue
        const position = head - waiting.length
        project(durable, recordOf(position, [event]))
        overlay.settle(position)
      }
      const items = Array.from(whole.any('a')?.items() ?? [])
      for (const mac of MACS) {
        const wanted = items.find(({ value }) => value.mac === mac)
        const holder = itemWithKey(naturalKeyOf({ mac }, KEY), overlay.collection('a'), rules)
        assert.equal(holder?.key, wanted?.key, `SEED=${SEED + round}, step ${step}, ${mac}`)
        if (wanted) found++
      }
    }
    assert.ok(found > 0)
  }
})
