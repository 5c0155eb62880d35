import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AcceptedState, Overlay } from '../../src/collections/overlay.ts'
import { decideEdit } from '../../src/commands/decide-edit.ts'
import type { Rules } from '../../src/commands/rules.ts'
import type { DomainEvent } from '../../src/events/event.ts'
import { Document } from '../../src/json/document.ts'
import type { JsonObject } from '../../src/json/value.ts'
import { Views } from '../../src/projections/views.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { ENDLESS } from '../../src/runtime/turns.ts'
import { project, recordOf, snapshotOf, viewsOf } from '../support/collections.ts'
import { accepted, begun, created, deleted, RULES, replaced } from '../support/decider.ts'
import { editOf } from '../support/engine.ts'
import { forAllAsync, type Random } from '../support/random.ts'

type File = Readonly<Record<string, readonly JsonObject[] | JsonObject>>

type Objects = Parameters<typeof editOf>[0]

async function merged(file: Objects, base: Objects, accepted: AcceptedState, rules: Rules) {
  const { events, conflicts } = await decideEdit(await editOf(file, base), accepted, rules, ENDLESS)
  return { events: [...events], conflicts }
}

const mapOf = (file: File) => new Map(Object.entries(file))

/** `journal(events, after: how many the file shows).edited(file).makes(events)`. */
function journal(
  events: readonly DomainEvent[],
  { shown = events.length, base }: { shown?: number; base?: File } = {},
) {
  const edited = (file: File) => {
    const shownState = base ? mapOf(base) : fileOf(viewsOf(events.slice(0, shown)))
    return merged(mapOf(file), shownState, accepted(events), RULES)
  }
  return {
    edited: (file: File) => ({
      async makes(...expected: readonly DomainEvent[]): Promise<void> {
        const { events, conflicts } = await edited(file)
        assert.deepEqual(events, expected)
        assert.deepEqual(conflicts, [])
      },
      async conflictsAt(ids: readonly (string | number)[], ...expected: readonly DomainEvent[]): Promise<void> {
        const { events, conflicts } = await edited(file)
        assert.deepEqual(events, expected)
        assert.deepEqual(
          conflicts,
          ids.map((id) => ({ collection: 'things', id })),
        )
      },
    }),
  }
}

/** As a data file shows it. */
function fileOf(views: Views): Map<string, readonly JsonObject[] | JsonObject> {
  const items = snapshotOf(views)
  const isObject = (name: string): boolean => views.find(name)?.isObject === true
  return new Map(Array.from(items, ([name, all]) => [name, isObject(name) ? (all[0] as JsonObject) : all]))
}

const ANN = { id: 0, name: 'Ann' }
const BOB = { id: 1, name: 'Bob' }
const BOTH = [begun, created(ANN), created(BOB)]
const bobBecomes = (name: string) => replaced({ id: 1, name }, { revision: 2, prior: 3 })
const ordered = (...ids: (string | number)[]): DomainEvent => ({ type: 'CollectionOrdered', collection: 'things', ids })

test('the initial file becomes events, and items without an id get the integers after the highest', async () => {
  await journal([])
    .edited({ things: [{ name: 'Eve' }, { id: 4 }, {}], empty: [] })
    .makes(begun, created({ id: 5, name: 'Eve' }), created({ id: 4 }), created({ id: 6 }), {
      type: 'CollectionCreated',
      collection: 'empty',
    })
})

test('a file with the same content makes no event, whatever the order of members', async () => {
  await journal(BOTH)
    .edited({ things: [{ name: 'Ann', id: 0 }, BOB] })
    .makes()
})

test('only changes of the editor become events', async () => {
  await journal([...BOTH, bobBecomes('Bill')], { shown: 3 })
    .edited({ things: [{ id: 0, name: 'Anna' }, BOB] })
    .makes(replaced({ id: 0, name: 'Anna' }, { revision: 2, prior: 2 }))
})

test('when both sides changed an item the edit wins, and the conflict is reported', async () => {
  await journal([...BOTH, bobBecomes('Bill')], { shown: 3 })
    .edited({ things: [ANN, { id: 1, name: 'Bert' }] })
    .conflictsAt([1], replaced({ id: 1, name: 'Bert' }, { revision: 3, prior: 4 }))
})

test('the same change on both sides makes no event and no conflict', async () => {
  await journal([...BOTH, bobBecomes('Bill')], { shown: 3 })
    .edited({ things: [ANN, { name: 'Bill', id: 1 }] })
    .makes()
})

test('deleting an item that was changed meanwhile deletes it and reports a conflict', async () => {
  await journal([...BOTH, bobBecomes('Bill')], { shown: 3 })
    .edited({ things: [ANN] })
    .conflictsAt([1], deleted(1, { revision: 3, prior: 4 }))
})

test('changing an item that was deleted meanwhile creates it again and reports a conflict', async () => {
  await journal([...BOTH, deleted(1, { revision: 2, prior: 3 })], { shown: 3 })
    .edited({ things: [ANN, { id: 1, name: 'Bert' }] })
    .conflictsAt([1], created({ id: 1, name: 'Bert' }, { revision: 3, prior: 4 }))
})

test('an unedited item that was deleted meanwhile stays deleted', async () => {
  await journal([...BOTH, deleted(1, { revision: 2, prior: 3 })], { shown: 3 })
    .edited({ things: [ANN, BOB] })
    .makes()
})

test('an item that was created meanwhile stays, and a new item of the editor follows it with its own id', async () => {
  await journal([...BOTH, created({ id: 2 })], { shown: 3 })
    .edited({ things: [ANN, BOB, { name: 'Eve' }] })
    .makes(created({ id: 3, name: 'Eve' }))
})

test('when both sides create the same id the edit wins, and the conflict is reported', async () => {
  await journal([...BOTH, created({ id: 2, name: 'Api' })], { shown: 3 })
    .edited({ things: [ANN, BOB, { id: 2, name: 'Editor' }] })
    .conflictsAt([2], replaced({ id: 2, name: 'Editor' }, { revision: 2, prior: 4 }))
})

test('moving items makes a CollectionOrdered event', async () => {
  await journal(BOTH)
    .edited({ things: [BOB, ANN] })
    .makes(ordered(1, 0))
})

test('a new item at the end needs no CollectionOrdered event, elsewhere it does', async () => {
  await journal(BOTH)
    .edited({ things: [ANN, BOB, { id: 2 }] })
    .makes(created({ id: 2 }))
  await journal(BOTH)
    .edited({ things: [ANN, { id: 2 }, BOB] })
    .makes(created({ id: 2 }), ordered(0, 2, 1))
})

test('a deleted item does not reorder the others', async () => {
  await journal(BOTH)
    .edited({ things: [BOB] })
    .makes(deleted(0, { revision: 2, prior: 2 }))
})

test('moved items stay before those that were created meanwhile', async () => {
  await journal([...BOTH, created({ id: 2 })], { shown: 3 })
    .edited({ things: [BOB, ANN] })
    .makes(ordered(1, 0, 2))
})

test('removing a collection removes all its items, and reports those that were written meanwhile', async () => {
  await journal([...BOTH, created({ id: 2 })], { shown: 3 })
    .edited({})
    .conflictsAt(
      [2],
      deleted(0, { revision: 2, prior: 2 }),
      deleted(1, { revision: 2, prior: 3 }),
      deleted(2, { revision: 2, prior: 4 }),
      { type: 'CollectionRemoved', collection: 'things' },
    )
})

test('a new collection may be empty, and one that was created meanwhile stays', async () => {
  await journal(BOTH, { base: {} }).edited({}).makes()
  await journal([]).edited({ things: [] }).makes(begun)
})

test('an id that changes its type is a change of the item', async () => {
  await journal(BOTH)
    .edited({ things: [ANN, { id: '1', name: 'Bob' }] })
    .makes({
      type: 'ItemReplaced',
      collection: 'things',
      id: '1',
      revision: 2,
      prior: 3,
      item: Document.of({ id: '1', name: 'Bob' }),
    })
})

test('an item that only lost its id is the same item', async () => {
  await journal(BOTH)
    .edited({ things: [{ name: 'Ann' }, BOB] })
    .makes()
  await journal(BOTH)
    .edited({ things: [ANN, BOB, { name: 'Ann' }] })
    .makes(created({ id: 2, name: 'Ann' }))
})

test('each of several equal items without ids matches once, and the next is new', async () => {
  const same = [begun, created({ id: 0, n: 1 }), created({ id: 1, n: 1 })]
  await journal(same)
    .edited({ things: [{ n: 1 }, { n: 1 }, { n: 1 }] })
    .makes(created({ id: 2, n: 1 }))
})

test('an edit does not reuse an id', async () => {
  await journal([...BOTH, deleted(1, { revision: 2, prior: 3 })])
    .edited({ things: [ANN, {}] })
    .makes(created({ id: 2 }))
})

test('an edit does not assign an integer that another item of the file spells', async () => {
  await journal([])
    .edited({ things: [{ id: 2 ** 52 }, {}, { id: String(2 ** 52 + 1) }] })
    .makes(begun, created({ id: 2 ** 52 }), created({ id: 2 ** 52 + 2 }), created({ id: String(2 ** 52 + 1) }))
})

const object = (
  n: number,
  revision = 1,
  prior = 0,
  type: 'ObjectCreated' | 'ItemReplaced' = 'ObjectCreated',
): DomainEvent => ({
  type,
  ...{ collection: 'things', id: '', revision, prior },
  item: Document.of({ n }),
})
const objectDeleted = (revision: number, prior: number): DomainEvent => ({
  type: 'ObjectDeleted',
  ...{ collection: 'things', id: '', revision, prior },
})
const removed: DomainEvent = { type: 'CollectionRemoved', collection: 'things' }

test('a single object is created, changed and removed, and an unchanged one makes no event', async () => {
  await journal([])
    .edited({ things: { n: 1 } })
    .makes(object(1))
  const events = [object(1)]
  await journal(events)
    .edited({ things: { n: 1 } })
    .makes()
  await journal(events)
    .edited({ things: { n: 2 } })
    .makes(object(2, 2, 1, 'ItemReplaced'))
  await journal(events).edited({}).makes(objectDeleted(2, 1))
})

test('replacing a list by an object, or the reverse, removes all items and reports those that were written meanwhile', async () => {
  await journal(BOTH)
    .edited({ things: { n: 1 } })
    .makes(deleted(0, { revision: 2, prior: 2 }), deleted(1, { revision: 2, prior: 3 }), removed, object(1))
  await journal([...BOTH, bobBecomes('Rob')], { shown: 3 })
    .edited({ things: { n: 1 } })
    .conflictsAt([1], deleted(0, { revision: 2, prior: 2 }), deleted(1, { revision: 3, prior: 4 }), removed, object(1))
  const events = [object(1)]
  await journal(events).edited({ things: [] }).makes(objectDeleted(2, 1), begun)
  await journal(events)
    .edited({ things: [{ n: 1 }] })
    .makes(objectDeleted(2, 1), begun, { ...created({ id: 0 }), item: Document.of({ id: 0, n: 1 }) } as DomainEvent)
  await journal([...events, object(2, 2, 1, 'ItemReplaced')], { shown: 1 })
    .edited({ things: [] })
    .conflictsAt([''], objectDeleted(3, 2), begun)
})

test('when others replaced a list by an object, theirs stays unless the editor changed the list', async () => {
  const since = [deleted(0, { revision: 2, prior: 2 }), deleted(1, { revision: 2, prior: 3 }), removed, object(1)]
  await journal([...BOTH, ...since], { shown: 3 })
    .edited({ things: [ANN, BOB] })
    .makes()
  await journal([...BOTH, ...since], { shown: 3 })
    .edited({ things: [BOB, ANN] })
    .makes()
  await journal([...BOTH, ...since], { shown: 3 })
    .edited({ things: [ANN] })
    .makes()
  await journal([...BOTH, ...since], { shown: 3 })
    .edited({ things: [ANN, { ...BOB, name: 'Rob' }] })
    .conflictsAt(['', 1], objectDeleted(2, 7), begun, created({ id: 1, name: 'Rob' }, { revision: 3, prior: 5 }))
  await journal([...BOTH, ...since], { shown: 3 })
    .edited({ things: { n: 1 } })
    .makes()
})

test('a schema is checked only for changes of the editor, and errors name the place in the file', async () => {
  const rules = { ...RULES, hasSchema: () => true, faultsOf: () => [{ pointer: '/name', message: 'must be short' }] }
  const base = mapOf({ things: [ANN, BOB] })
  assert.deepEqual((await merged(base, base, accepted(BOTH), rules)).events, [])
  await assert.rejects(
    merged(mapOf({ things: [ANN, { id: 1, name: 'Bert' }] }), base, accepted(BOTH), rules),
    (error: unknown) =>
      error instanceof Refusal && error.code === 'Invalid' && error.faults[0]?.pointer === '/things/1/name',
  )
})

test('only edited items have at most Limits.ItemValues values, and errors name the place in the file', async () => {
  const rules = { ...RULES, itemValues: 10 }
  const long = { id: 0, list: Array.from({ length: 20 }, (_, index) => index) }
  const base = mapOf({ things: [long] })
  const now = accepted([begun, created(long)])
  assert.equal((await merged(mapOf({ things: [long, BOB] }), base, now, rules)).events.length, 1)
  await assert.rejects(merged(mapOf({ things: [{ ...long, n: 1 }] }), base, now, rules), {
    code: 'Invalid',
    message: /^At \/things\/0\/list: the item has .* values.*Limits\.ItemValues/,
  })
})

test('merging an edit of the current state gives exactly the edited file', async () => {
  await forAllAsync(150, async (random) => {
    const views = Views.temporary()
    const acceptedNow = new Overlay(views.any, 0)
    for (let edit = 0; edit < 6; edit++) {
      const base = fileOf(views)
      const file = new Map(
        ['a', 'b', 'c']
          .filter(() => random.chance(0.8))
          .map((name) => [name, anything(random, base.get(name) ?? [])] as const),
      )
      const { events } = await merged(file, base, acceptedNow, RULES)
      if (events.length > 0) project(views, recordOf(views.position + 1, events))
      const after = fileOf(views)
      assert.deepEqual([...after.keys()].sort(), [...file.keys()].sort())
      for (const [name, items] of file) assert.deepEqual(after.get(name), items)
      assert.deepEqual((await merged(file, after, acceptedNow, RULES)).events, [])
    }
  })
})

/** A list of items or a single object, mostly as before. */
function anything(random: Random, before: readonly JsonObject[] | JsonObject): readonly JsonObject[] | JsonObject {
  const isList = Array.isArray(before) !== random.chance(0.1)
  if (isList) return anyItems(random, Array.isArray(before) ? before : [])
  return random.chance(0.5) && !Array.isArray(before) ? before : { id: random.integer(3), n: random.integer(9) }
}

/** Some of the items as they were, some changed, some new, in any order. */
function anyItems(random: Random, before: readonly JsonObject[]): JsonObject[] {
  const items = before
    .filter(() => random.chance(0.8))
    .map((item) => (random.chance(0.3) ? { ...item, n: random.integer(9) } : item))
  for (const id of [random.integer(12), `t${random.integer(4)}`]) {
    if (!items.some((item) => String(item.id) === String(id)) && random.chance(0.6))
      items.push({ id, n: random.integer(9) })
  }
  return random.chance(0.5)
    ? items
    : items
        .map((item) => ({ item, rank: random.next() }))
        .sort((one, other) => one.rank - other.rank)
        .map(({ item }) => item)
}
