import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Deletion } from '../../src/commands/command.ts'
import type { DeletionOptions } from '../../src/commands/deletions.ts'
import type { FileEngine } from '../../src/engine/file-engine.ts'
import type { DomainEvent } from '../../src/events/event.ts'
import type { Origin, Recorded } from '../../src/events/journal.ts'
import type { JsonObject } from '../../src/json/value.ts'
import type { Settings } from '../../src/settings/settings.ts'
import { refusalOf } from '../support/decider.ts'
import { type Scope, temporaryDirectory } from '../support/directory.ts'
import { diskWith, openTestEngine, SETTINGS, storeLeftIn } from '../support/engine.ts'
import { Random, SEED } from '../support/random.ts'
import type { Fault, SimulatedDisk } from '../support/simulated-files.ts'

/** Items that one write deletes. */
const PART = 10
const LIMITS = { ...SETTINGS.limits, atomicItems: PART }
const ORIGIN: Origin = { actor: 'ann', requestId: 'r' }
const KEYED: Origin = { ...ORIGIN, key: 'k', request: 'digest' }
const OLD: Deletion = { type: 'DeleteItems', collection: 'things', filters: 'kind=old' }
const WHOLE: Deletion = { type: 'RemoveCollection', collection: 'things' }

/** Every fourth item is new, the others are old. */
const things = (count: number): JsonObject[] =>
  Array.from({ length: count }, (_, id) => ({ id, kind: id % 4 === 3 ? 'new' : 'old', postId: 1 }))

/** 34 of them are old. */
const THINGS = things(45)
const OLD_IDS = THINGS.filter(({ kind }) => kind === 'old').map(({ id }) => id)

async function open(
  disk: SimulatedDisk,
  settings: Partial<Settings> = {},
  fault = (_: string): Fault | undefined => undefined,
) {
  const files = disk.files((operation, path) => (operation === 'write' ? fault(path) : undefined))
  const { engine } = await openTestEngine(files, { limits: LIMITS, ...settings })
  return engine
}

const openWith = (data: object, settings?: Partial<Settings>) => open(diskWith(data), settings)

const idsIn = ({ views }: FileEngine, name = 'things') => Array.from(views.find(name)?.items() ?? [], ({ id }) => id)

/** The writes that were made since the data file was imported, as the journal has them. */
async function writesOf({ journal }: Pick<FileEngine, 'journal'>): Promise<Recorded[]> {
  const writes: Recorded[] = []
  for await (const recorded of journal.read(1)) if (recorded.actor !== 'data-file') writes.push(recorded)
  return writes
}

/** Calls back once, when so many writes of a deletion were made. */
function afterWrites({ journal }: FileEngine, count: number, work: () => void): void {
  let writes = 0
  journal.follow(({ events }) => {
    if (events.at(0)?.type === 'ItemDeleted' && ++writes === count) work()
  })
}

test('a deletion of more items than AtomicItems takes several writes, and others write in between', async () => {
  const engine = await openWith({ things: THINGS })
  let posted: Promise<unknown> | undefined
  afterWrites(engine, 2, () => {
    posted = engine.handler.handle({ type: 'CreateItem', collection: 'things', item: { kind: 'old' } }, ORIGIN)
  })
  const outcome = await engine.handler.delete(OLD, KEYED)
  await posted
  const writes = await writesOf(engine)
  assert.deepEqual(
    writes.map(({ key, events }) => [key, events.length, events.at(0)?.type]),
    [
      ['k:part', 10, 'ItemDeleted'],
      ['k:part', 10, 'ItemDeleted'],
      [undefined, 1, 'ItemCreated'],
      ['k:part', 10, 'ItemDeleted'],
      ['k', 4, 'ItemDeleted'],
    ],
  )
  assert.ok(writes.every(({ key, request }) => (request === 'digest') === (key !== undefined)))
  const { from, listed, ...rest } = outcome
  const expected = {
    position: engine.journal.head,
    deleted: 34,
    writes: 4,
    isRemoved: false,
    ids: OLD_IDS.slice(0, 10),
  }
  assert.deepEqual(rest, expected)
  assert.deepEqual([from, listed], [writes[0]?.position, 10])
  assert.deepEqual(idsIn(engine), [...THINGS.filter(({ kind }) => kind === 'new').map(({ id }) => id), 45])
  await engine.close()
})

test('a deletion of at most AtomicItems items, or one that is to be atomic, is one write with the key itself', async () => {
  for (const [deletion, options, count] of [
    [{ ...OLD, filters: 'id_lt=10' }, {}, 10],
    [{ ...OLD, filters: 'id_lt=11' }, { isAtomic: true }, 11],
    [WHOLE, { isAtomic: true }, 45],
  ] as const satisfies readonly (readonly [Deletion, DeletionOptions, number])[]) {
    const engine = await openWith({ things: THINGS })
    const { deleted, writes } = await engine.handler.delete(deletion, KEYED, options)
    assert.deepEqual([deleted, writes], [count, 1])
    const recorded = await writesOf(engine)
    assert.deepEqual(
      recorded.map(({ key, events }) => [key, [...events].filter(isDeletion).length]),
      [['k', count]],
    )
    await engine.close()
  }
})

const isDeletion = ({ type }: DomainEvent): boolean => type === 'ItemDeleted'

test('a retry of a deletion in several writes gets the first response, also after a restart, and another request is refused', async (t) => {
  const store = await temporaryDirectory(t)
  const disk = diskWith({ things: THINGS })
  const engine = await open(disk, { store })
  const { handler } = engine
  const deleting = handler.delete(OLD, KEYED)
  const joined = handler.delete(OLD, { ...KEYED, requestId: 'again' })
  const other = { ...KEYED, request: 'other' }
  assert.equal((await refusalOf(handler.delete(OLD, other))).code, 'Unprocessable')
  const outcome = await deleting
  assert.deepEqual(await joined, outcome)
  const item = { kind: 'old' }
  await handler.handle({ type: 'CreateItem', collection: 'things', item }, ORIGIN)
  const { head } = engine.journal
  assert.deepEqual(await handler.delete(OLD, KEYED), outcome)
  assert.equal(
    (await refusalOf(handler.handle({ type: 'CreateItem', collection: 'things', item }, other))).code,
    'Unprocessable',
  )
  await engine.close()
  for (const settings of [{ store }, {}]) {
    const again = await open(disk, settings)
    assert.deepEqual(await again.handler.delete(OLD, KEYED), outcome)
    assert.equal((await refusalOf(again.handler.delete(OLD, other))).code, 'Unprocessable')
    assert.equal(again.journal.head, head)
    await again.close()
  }
})

test('an item that changes between two writes of a deletion is deleted only if it still matches', async () => {
  const engine = await openWith({ things: THINGS })
  const { handler } = engine
  const put = (key: string, kind: string) =>
    handler.handle({ type: 'ReplaceItem', collection: 'things', key, item: { kind } }, ORIGIN)
  const others: Promise<unknown>[] = []
  afterWrites(engine, 1, () => {
    others.push(put('40', 'new'), put('41', 'old'), put('3', 'old'))
    others.push(handler.handle({ type: 'DeleteItem', collection: 'things', key: '42' }, ORIGIN))
  })
  const { deleted } = await handler.delete(OLD, ORIGIN)
  await Promise.all(others)
  assert.equal(deleted, 34 - 2)
  // An item that matches only since the selection stays.
  assert.deepEqual(idsIn(engine), [3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 40, 43])
  await engine.close()
})

test('a whole collection is removed after its items, unless others have added some meanwhile', async () => {
  const engine = await openWith({ things: THINGS })
  const removed = await engine.handler.delete(WHOLE, KEYED)
  assert.deepEqual([removed.deleted, removed.writes, removed.isRemoved], [45, 5, true])
  const last = (await writesOf(engine)).at(-1)
  assert.deepEqual(last?.events.at(-1), { type: 'CollectionRemoved', collection: 'things' })
  assert.equal(engine.views.find('things'), undefined)
  assert.deepEqual(await engine.handler.delete(WHOLE, KEYED), removed)
  await engine.close()

  const other = await openWith({ things: THINGS })
  const create = () =>
    other.handler.handle({ type: 'CreateItem', collection: 'things', item: { kind: 'late' } }, ORIGIN)
  let created: Promise<unknown> | undefined
  afterWrites(other, 2, () => {
    created = create()
  })
  const kept = await other.handler.delete(WHOLE, KEYED)
  await created
  assert.deepEqual([kept.deleted, kept.writes, kept.isRemoved], [45, 5, false])
  assert.deepEqual(idsIn(other), [45])
  assert.deepEqual(await other.handler.delete(WHOLE, KEYED), kept)
  await other.close()
})

test('an item with many dependents is deleted in the last write, if its condition still holds', async () => {
  const data = {
    posts: [{ id: 1 }, { id: 2 }],
    things: THINGS,
    likes: [
      { id: 5, postId: 1 },
      { id: 6, postId: 2 },
    ],
  }
  const dependents = ['things', 'likes'].map((collection) => ({ collection, field: 'postId' }))
  const deletion = { type: 'DeleteItemWithDependents', collection: 'posts', key: '1', dependents } as const
  const engine = await openWith(data)
  const { deleted, writes } = await engine.handler.delete(deletion, KEYED)
  assert.deepEqual([deleted, writes], [47, 5])
  const last = (await writesOf(engine)).at(-1)
  assert.deepEqual(last?.events.at(-1), { type: 'ItemDeleted', collection: 'posts', id: 1, revision: 2, prior: 2 })
  assert.deepEqual([idsIn(engine, 'posts'), idsIn(engine), idsIn(engine, 'likes')], [[2], [], [6]])
  await engine.close()

  const other = await openWith(data)
  const tag = other.views.find('posts')?.item('1')?.tag as string
  let changed: Promise<unknown> | undefined
  afterWrites(other, 2, () => {
    const change = { type: 'ReplaceItem', collection: 'posts', key: '1', item: { n: 1 } } as const
    changed = other.handler.handle(change, ORIGIN)
  })
  const refusal = await refusalOf(other.handler.delete({ ...deletion, ifMatch: [tag] }, KEYED))
  await changed
  assert.deepEqual([refusal.code, refusal.progress], ['PreconditionFailed', { deleted: 20, writes: 2 }])
  assert.match(refusal.message, /^20 items were deleted, in 2 writes; the next one failed: If-Match does not match/)
  assert.deepEqual(idsIn(other, 'posts'), [1, 2])
  assert.deepEqual(
    (await refusalOf(other.handler.delete({ ...deletion, ifMatch: ['"x"'] }, ORIGIN))).progress,
    undefined,
  )
  await other.close()
})

test('a deletion that finds no space tells how far it came, and a retry continues and counts everything', async () => {
  let writes = 0
  const engine = await open(diskWith({ things: THINGS }), {}, (path) =>
    path.endsWith('.ndjson') && ++writes === 3 ? { type: 'error', code: 'ENOSPC' } : undefined,
  )
  writes = 0
  const refusal = await refusalOf(engine.handler.delete(OLD, KEYED))
  assert.deepEqual([refusal.code, refusal.progress], ['DiskFull', { deleted: 20, writes: 2 }])
  assert.match(refusal.message, /^20 items were deleted, in 2 writes; the next one failed: The disk is full/)
  assert.equal(idsIn(engine).length, 25)
  const other = engine.handler.delete(OLD, { ...KEYED, request: 'other' })
  assert.equal((await refusalOf(other)).code, 'Unprocessable')
  const outcome = await engine.handler.delete(OLD, KEYED)
  assert.deepEqual([outcome.deleted, outcome.writes, outcome.ids], [34, 4, OLD_IDS.slice(0, 10)])
  assert.deepEqual(await engine.handler.delete(OLD, KEYED), outcome)
  await engine.close()
})

test('a deletion ends after its current write when the server ends', async () => {
  const disk = diskWith({ things: THINGS })
  const engine = await open(disk)
  afterWrites(engine, 2, () => engine.handler.end())
  const refusal = await refusalOf(engine.handler.delete(OLD, KEYED))
  assert.deepEqual([refusal.code, refusal.progress], ['Unavailable', { deleted: 20, writes: 2 }])
  await engine.close()
  const again = await open(disk)
  const { deleted, writes } = await again.handler.delete(OLD, KEYED)
  assert.deepEqual([deleted, writes], [34, 4])
  await again.close()
})

test('several large deletions at once have one write in flight, and each deletes its items once', async () => {
  const engine = await openWith({ things: THINGS })
  const { journal } = engine
  const append = journal.append.bind(journal)
  let inFlight = 0
  let most = 0
  journal.append = async (draft) => {
    most = Math.max(most, ++inFlight)
    return append(draft).finally(() => inFlight--)
  }
  const filters = ['id_lt=15', 'id_gte=15&id_lt=30', 'id_gte=20']
  const all = await Promise.all(filters.map((one) => engine.handler.delete({ ...OLD, filters: one }, ORIGIN)))
  assert.equal(
    all.reduce((sum, { deleted }) => sum + deleted, 0),
    45,
  )
  assert.deepEqual(idsIn(engine), [])
  assert.equal(most, 1)
  await engine.close()
})

test('a dry run of a large deletion writes nothing, and tells all that would be deleted', async () => {
  const engine = await openWith({ things: THINGS })
  const { head } = engine.journal
  const run = await engine.handler.delete(OLD, KEYED, { isDryRun: true })
  assert.deepEqual([run.deleted, run.writes, run.ids], [34, 0, OLD_IDS.slice(0, 10)])
  const whole = await engine.handler.delete(WHOLE, KEYED, { isDryRun: true })
  assert.deepEqual([whole.deleted, whole.writes, whole.isRemoved], [45, 0, true])
  assert.equal(engine.journal.head, head)
  assert.equal((await engine.handler.delete(OLD, KEYED)).deleted, 34)
  await engine.close()
})

/** Deletes the old items, again after each crash, until there is a response. */
async function deleteThroughCrashes(random: Random, t: Scope) {
  let disk = diskWith({ things: THINGS })
  let store = await temporaryDirectory(t)
  const posted = new Set<unknown>()
  for (let crashes = 0; ; crashes++) {
    const stop = crashes < 6 ? 1 + random.integer(30) : 0
    let calls = 0
    let isDeleting = false
    const files = disk.files(() => (isDeleting && ++calls === stop ? { type: 'stop' } : undefined))
    const { engine } = await openTestEngine(files, { limits: LIMITS, store })
    postBetween(engine, posted, random)
    isDeleting = true
    const outcome = await Promise.race([engine.handler.delete(OLD, KEYED), files.stopped])
    isDeleting = false
    if (outcome) return { engine, outcome, posted, crashes }
    const isKilled = random.chance(0.5)
    disk = isKilled ? disk.killed() : disk.powerLost(random)
    store = isKilled ? storeLeftIn(store).path : await temporaryDirectory(t)
  }
}

/** Posts an item after some of the writes, which matches as well. */
function postBetween({ journal, handler }: FileEngine, posted: Set<unknown>, random: Random): void {
  journal.follow(({ events }) => {
    if (events.at(0)?.type !== 'ItemDeleted' || random.chance(0.5)) return
    const command = { type: 'CreateItem', collection: 'posted', item: { kind: 'old' } } as const
    handler.handle(command, ORIGIN).then(
      ({ item }) => posted.add(item?.id),
      () => {},
    )
  })
}

test('a deletion that is sent again after crashes at any moment deletes each matching item once, and counts all', async (t) => {
  const random = new Random(SEED)
  let crashed = 0
  for (let round = 0; round < 8; round++) {
    const context = `SEED=${SEED}, round ${round}`
    const { engine, outcome, posted, crashes } = await deleteThroughCrashes(random, t)
    crashed += crashes
    const deletions = (await writesOf(engine)).filter(({ key }) => key?.startsWith('k'))
    const ids = deletions.flatMap(({ events }) =>
      Array.from(events).flatMap((event) => ('id' in event ? [event.id] : [])),
    )
    assert.deepEqual(ids, OLD_IDS, context)
    assert.deepEqual([outcome.deleted, outcome.writes], [34, deletions.length], context)
    assert.deepEqual(outcome.ids, ids.slice(0, deletions[0]?.events.length), context)
    assert.deepEqual(
      deletions.map(({ key }) => key),
      deletions.map((_, index) => (index === deletions.length - 1 ? 'k' : 'k:part')),
      context,
    )
    assert.deepEqual(
      idsIn(engine),
      THINGS.filter(({ kind }) => kind === 'new').map(({ id }) => id),
      context,
    )
    for (const id of posted) assert.ok(idsIn(engine, 'posted').includes(id as number), context)
    assert.deepEqual(await engine.handler.delete(OLD, KEYED), outcome, context)
    await engine.close()
  }
  assert.ok(crashed > 8, `${crashed} crashes`)
})
