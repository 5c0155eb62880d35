import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { BatchItem, BulkCommand, Deletion } from '../../src/commands/command.ts'
import { CommandHandler } from '../../src/commands/handler.ts'
import { IdempotencyKeys } from '../../src/commands/idempotency-keys.ts'
import type { Rules } from '../../src/commands/rules.ts'
import { type Origin, recordAt } from '../../src/events/journal.ts'
import type { JsonObject } from '../../src/json/value.ts'
import { Views } from '../../src/projections/views.ts'
import { Queries } from '../../src/query/queries.ts'
import { parseParameters, parseQuery } from '../../src/query/query.ts'
import { UNLIMITED } from '../../src/runtime/memory.ts'
import { project } from '../support/collections.ts'
import { RULES, refusalOf } from '../support/decider.ts'
import { memoryJournal } from '../support/journal.ts'

const ORIGIN: Origin = { actor: 'ann', requestId: 'r' }
const NOW = new Date('2026-11-20T12:00:00.000Z')
const LIMITS = { parameters: 100, pageSize: 100 }

function handlerWith(rules: Partial<Rules> = {}) {
  const journal = memoryJournal('memory', () => NOW)
  const views = Views.temporary()
  const idempotencyKeys = new IdempotencyKeys(views.store)
  views.storeWith(idempotencyKeys)
  const queries = new Queries({ views, bytes: 2 ** 20 })
  let selected = async (): Promise<void> => {}
  const handler = new CommandHandler({
    journal,
    memory: UNLIMITED,
    elapsedMs: () => 0,
    atomicItems: 10_000,
    durable: views.any,
    rules: { ...RULES, upsertOnPut: true, ...rules },
    now: () => NOW,
    idempotencyKeys,
    select: async ({ collection, filters }) => {
      const found = views.find(collection)
      const query = parseQuery(parseParameters(filters, LIMITS.parameters), LIMITS)
      const selection = found && (await queries.select(found, query))
      await selected()
      return selection
    },
  })
  journal.follow((recorded) => {
    project(views, recorded)
    handler.apply(recorded)
  })
  return {
    journal,
    handler,
    /** Called between the search for items to delete and the decision. */
    onSelected: (called: () => Promise<void>) => {
      selected = called
    },
    bulk: (command: BulkCommand, origin = ORIGIN) => handler.bulk(command, origin),
    remove: (deletion: Deletion, isDryRun = false) => handler.delete(deletion, ORIGIN, { isDryRun }),
    items: (name = 'things') => Array.from(views.find(name)?.items() ?? [], ({ value }) => value),
    exists: (name = 'things') => views.find(name) !== undefined,
  }
}

const batch = (items: readonly JsonObject[], isLenient = false): BulkCommand => ({
  type: 'CreateItems',
  collection: 'things',
  items: items.map((item): BatchItem => ({ item })),
  isLenient,
})
const deletion = (filters: string): Deletion => ({ type: 'DeleteItems', collection: 'things', filters })
const numbers = (count: number) => Array.from({ length: count }, (_, n) => ({ n }))

test('a batch is one write, and its items get ids in order', async () => {
  for (const count of [1, 64, 65, 5000]) {
    const { bulk, items, journal } = handlerWith()
    const { position, events, notCreated } = await bulk(batch(numbers(count)))
    assert.equal(events.length, count + 1)
    assert.equal(notCreated.size, 0)
    assert.equal(position, count + 1)
    assert.equal(journal.head, count + 1)
    assert.deepEqual(
      items(),
      numbers(count).map(({ n }) => ({ id: n, n })),
    )
  }
})

test('a batch creates all items or none, and the error names the item', async () => {
  const { bulk, exists, journal } = handlerWith({ clientIdsOnPost: true })
  const refusal = await refusalOf(bulk(batch([{ id: 'a' }, { id: 'b' }, { id: 'a' }])))
  assert.equal(refusal.code, 'Conflict')
  assert.match(refusal.message, /^The item 2 of the list: An item with the id "a" exists already/)
  assert.equal(journal.head, 0)
  assert.equal(exists(), false)

  const faults = [{ pointer: '/n', message: 'must be number' }]
  const strict = handlerWith({ hasSchema: () => true, faultsOf: (_, { n }) => (typeof n === 'number' ? [] : faults) })
  const schema = await refusalOf(
    strict.bulk({
      type: 'CreateItems',
      collection: 'things',
      items: [
        { item: { n: 1 }, line: 2 },
        { item: { n: 'x' }, line: 5 },
      ],
      isLenient: false,
    }),
  )
  assert.equal(schema.code, 'Unprocessable')
  assert.match(schema.message, /^Line 5: /)
  assert.deepEqual(schema.faults, [{ pointer: '/1/n', message: 'must be number' }])
  assert.equal(strict.journal.head, 0)
})

test('a lenient batch omits items that cannot be created', async () => {
  const { bulk, items } = handlerWith({ clientIdsOnPost: true })
  const malformed = { code: 'Invalid', message: 'no', faults: [] } as const
  const { notCreated, position } = await bulk({
    type: 'CreateItems',
    collection: 'things',
    items: [{ item: { id: 'a' } }, { rejection: malformed }, { item: { id: 'a', again: 1 } }, { item: { id: 'b' } }],
    isLenient: true,
  })
  assert.deepEqual(
    [...notCreated].map(([index, reason]) => [index, 'rejection' in reason && reason.rejection.code]),
    [
      [1, 'Invalid'],
      [2, 'Conflict'],
    ],
  )
  assert.equal(position, 3)
  assert.deepEqual(items(), [{ id: 'a' }, { id: 'b' }])
})

test('a batch that creates nothing writes nothing', async () => {
  const { bulk, journal, exists } = handlerWith()
  const { position, events } = await bulk(batch([]))
  assert.deepEqual([position, events.length], [0, 0])
  assert.equal(exists(), false)
  assert.equal(journal.head, 0)
})

test('a retry of a batch with its Idempotency-Key gets the first result with its rejected items', async () => {
  const { bulk, handler, journal, items } = handlerWith({ clientIdsOnPost: true })
  await handler.handle({ type: 'CreateItem', collection: 'things', item: { id: 'taken' } }, ORIGIN)
  const origin = { ...ORIGIN, key: 'k', request: 'hash' }
  const sent = batch([{ id: 'taken', n: 1 }, { id: 'x', n: 1 }, ...numbers(3000), { id: 'x', n: 1 }], true)
  const first = await bulk(sent, origin)
  assert.deepEqual([...first.notCreated.keys()], [0, 3002])
  await handler.handle({ type: 'DeleteItem', collection: 'things', key: 'taken' }, ORIGIN)
  const { head } = journal
  const again = await bulk(sent, origin)
  assert.equal(journal.head, head)
  assert.equal(again.position, first.position)
  assert.deepEqual([...again.events], [...first.events])
  assert.deepEqual([...again.notCreated.keys()], [0, 3002])
  assert.equal(items().length, 3001)
  const other = await refusalOf(bulk(sent, { ...origin, request: 'other' }))
  assert.equal(other.code, 'Unprocessable')
})

test('DELETE with filters removes the selected items in one write', async () => {
  const { bulk, remove, items, journal } = handlerWith()
  await bulk(batch(numbers(3000)))
  const { deleted, writes, ids, position } = await remove(deletion('n_gte=10&n_lt=2990'))
  assert.deepEqual([deleted, writes, ids.length, ids[0]], [2980, 1, 1000, 10])
  assert.equal(position, journal.head)
  const { events } = await recordAt(journal, position - 2979)
  assert.deepEqual(events.at(0), { type: 'ItemDeleted', collection: 'things', id: 10, revision: 2, prior: 12 })
  assert.equal(items().length, 20)
})

test('a dry run writes nothing and reports what would be deleted', async () => {
  const { bulk, remove, items, journal } = handlerWith()
  await bulk(batch(numbers(5)))
  const { deleted, writes, ids, position } = await remove(deletion('n_lt=2'), true)
  assert.deepEqual([deleted, writes, ids], [2, 0, [0, 1]])
  assert.equal(position, journal.head)
  assert.equal(items().length, 5)
})

test('an item that was changed after it was selected is deleted only if it still matches', async () => {
  const { bulk, remove, handler, onSelected, items } = handlerWith()
  await bulk(batch(numbers(3)))
  const put = (key: string, n: number) =>
    handler.handle({ type: 'ReplaceItem', collection: 'things', key, item: { n } }, ORIGIN)
  onSelected(async () => {
    await put('0', 7)
    await put('1', 2)
    await handler.handle({ type: 'DeleteItem', collection: 'things', key: '2' }, ORIGIN)
  })
  assert.deepEqual((await remove(deletion('n_lt=5'))).ids, [1])
  assert.deepEqual(items(), [{ id: 0, n: 7 }])
})

test('a collection is created once and removed with its items, and its ids are not assigned again', async () => {
  const { bulk, remove, handler, exists, items, journal } = handlerWith()
  const creation: BulkCommand = { type: 'CreateCollection', collection: 'things' }
  assert.equal((await bulk(creation)).events.length, 1)
  assert.equal(exists(), true)
  assert.equal((await bulk(creation)).events.length, 0)
  await bulk(batch(numbers(3)))
  const { deleted, isRemoved, ids } = await remove({ type: 'RemoveCollection', collection: 'things' })
  assert.deepEqual([deleted, isRemoved, ids], [3, true, [0, 1, 2]])
  assert.equal((await recordAt(journal, 8)).events.at(-1)?.type, 'CollectionRemoved')
  assert.equal(journal.head, 8)
  assert.equal(exists(), false)
  await handler.handle({ type: 'CreateItem', collection: 'things', item: {} }, ORIGIN)
  assert.deepEqual(items(), [{ id: 3 }])
})

test('deleting a missing collection fails', async () => {
  const { bulk, remove } = handlerWith()
  assert.equal((await refusalOf(remove(deletion('n=1')))).code, 'NotFound')
  assert.equal((await refusalOf(remove({ type: 'RemoveCollection', collection: 'things' }))).code, 'NotFound')
  assert.equal((await refusalOf(bulk({ type: 'CreateCollection', collection: '\ud800' }))).code, 'Unprocessable')
})
