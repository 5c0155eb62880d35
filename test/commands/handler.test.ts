import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Command } from '../../src/commands/command.ts'
import { CommandHandler, DecisionQueue } from '../../src/commands/handler.ts'
import { IdempotencyKeys } from '../../src/commands/idempotency-keys.ts'
import type { Rules } from '../../src/commands/rules.ts'
import {
  type Draft,
  type Journal,
  lastPosition,
  nextTime,
  type Origin,
  type Recorded,
} from '../../src/events/journal.ts'
import { Views } from '../../src/projections/views.ts'
import { Refusal, type RefusalCode } from '../../src/runtime/errors.ts'
import { UNLIMITED } from '../../src/runtime/memory.ts'
import { project } from '../support/collections.ts'
import { turnsUntil, until } from '../support/deadline.ts'
import { RULES } from '../support/decider.ts'
import { editOf } from '../support/engine.ts'
import { eachAt, memoryJournal } from '../support/journal.ts'

const ORIGIN: Origin = { actor: 'ann', requestId: 'r' }
const NOW = new Date('2026-11-20T12:00:00.000Z')

/** A journal whose flushes happen when the test says so, and fail when it says so. */
class HeldJournal implements Journal {
  readonly id = 'held'
  readonly writable = true
  readonly records: Recorded[] = []
  head = 0
  readonly timeMs = NOW.getTime()
  #accepted = 0
  #waiting: { draft: Draft; resolve: (recorded: Recorded) => void; reject: (error: unknown) => void }[] = []
  readonly #followers: ((recorded: Recorded) => void)[] = []

  /** Whether the next append fails alone, at once. */
  isRejecting = false

  append(draft: Draft): Promise<Recorded> {
    if (this.isRejecting) {
      this.isRejecting = false
      return Promise.reject(new Refusal('TooLarge', 'too large'))
    }
    if (draft.expected !== this.#accepted + 1) return Promise.reject(new Refusal('Unavailable', 'not the next one'))
    this.#accepted += draft.events.length
    return new Promise((resolve, reject) => this.#waiting.push({ draft, resolve, reject }))
  }

  readonly at = eachAt((from, to) => this.read(from, to))

  /** Writes that are not durable yet. */
  get waiting(): number {
    return this.#waiting.length
  }

  /** Makes the oldest writes durable. */
  flush(count = this.#waiting.length): void {
    for (const { draft, resolve } of this.#waiting.splice(0, count)) {
      const { expected, ...rest } = draft
      const recorded = { position: expected, time: nextTime('', NOW), ...rest }
      this.records.push(recorded)
      this.head = lastPosition(recorded)
      for (const follower of this.#followers) follower(recorded)
      resolve(recorded)
    }
  }

  /** Fails the oldest write, and with it all that wait. */
  fail(): void {
    const refused = this.#waiting
    this.#waiting = []
    this.#accepted = this.head
    for (const { reject } of refused) reject(new Refusal('DiskFull', 'no space'))
  }

  async *read(from: number, to = this.head): AsyncGenerator<Recorded> {
    for (const recorded of this.records) if (lastPosition(recorded) >= from && recorded.position <= to) yield recorded
  }

  follow(follower: (recorded: Recorded) => void): void {
    this.#followers.push(follower)
  }

  async close(): Promise<void> {}
}

const noItems = async (): Promise<undefined> => undefined

function handlerOn<J extends Journal>(journal: J, rules: Partial<Rules> = {}, now = () => NOW) {
  const views = Views.temporary()
  const idempotencyKeys = new IdempotencyKeys(views.store)
  views.storeWith(idempotencyKeys)
  const handler = new CommandHandler({
    journal,
    memory: UNLIMITED,
    elapsedMs: () => 0,
    atomicItems: 10_000,
    durable: views.any,
    rules: { ...RULES, upsertOnPut: true, ...rules },
    now,
    idempotencyKeys,
    select: noItems,
  })
  journal.follow((recorded) => {
    project(views, recorded)
    handler.apply(recorded)
  })
  return { journal, views, handler, handle: (command: Command, origin = ORIGIN) => handler.handle(command, origin) }
}

const create = (n: number): Command => ({ type: 'CreateItem', collection: 'things', item: { n } })
const put = (key: string, n: number, conditions: object = {}): Command => ({
  type: 'ReplaceItem',
  collection: 'things',
  key,
  item: { n },
  ...conditions,
})
const remove = (key: string): Command => ({ type: 'DeleteItem', collection: 'things', key })

/** Whether a promise is settled once everything that can happen without the outside has happened. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  let settled = false
  const done = () => {
    settled = true
  }
  promise.then(done, done)
  await new Promise((resolve) => setImmediate(resolve))
  return settled
}

async function flushUntilSettled(answer: Promise<unknown>, journal: HeldJournal): Promise<void> {
  await turnsUntil('the answer', async () => {
    if (await isSettled(answer)) return true
    journal.flush()
    return false
  })
}

const refused = (promise: Promise<unknown>, code: RefusalCode) =>
  assert.rejects(promise, (error: unknown) => error instanceof Refusal && error.code === code)

test('writes are decided in order, and answered when they are durable and readable', async () => {
  const { handle, views, journal } = handlerOn(memoryJournal('memory', () => NOW))
  const outcomes = await Promise.all(Array.from({ length: 50 }, (_, n) => handle(create(n))))
  assert.deepEqual(
    outcomes.map(({ event, position }) => [event?.id, position]),
    Array.from({ length: 50 }, (_, n) => [n, n + 2]),
  )
  assert.equal(journal.head, 51)
  assert.equal(views.find('things')?.size, 50)
})

test('a write is decided on one that is still being flushed, and answered after both', async () => {
  const { handle, journal, views } = handlerOn(new HeldJournal())
  const first = handle(put('1', 1))
  const second = handle(put('1', 2))
  assert.equal(await isSettled(second), false)
  assert.equal(views.find('things'), undefined, 'readers see nothing yet')
  journal.flush(1)
  assert.equal((await first).event?.revision, 1)
  assert.equal(await isSettled(second), false)
  journal.flush()
  const { event, item } = await second
  assert.equal(event?.revision, 2)
  assert.deepEqual(item?.value, { id: 1, n: 2 })
})

test('a refusal that depends on an unflushed event is answered after the flush', async () => {
  const { handle, journal } = handlerOn(new HeldJournal())
  const kept = handle(put('1', 1))
  journal.flush()
  await kept
  const deletion = handle(remove('1'))
  for (const command of [remove('1'), put('1', 2, { ifMatch: '*' })]) {
    const refusal = handle(command)
    assert.equal(await isSettled(refusal), false)
  }
  const missing = handle(remove('1'))
  journal.flush()
  await deletion
  await refused(missing, 'NotFound')
})

test('a refusal waits for all writes in flight', async () => {
  const { handle, journal } = handlerOn(new HeldJournal())
  const held = handle(put('1', 1))
  const refusal = handle(remove('2'))
  assert.equal(await isSettled(refusal), false)
  journal.flush()
  await held
  await refused(refusal, 'NotFound')
  const next = handle(remove('2'))
  assert.equal(await isSettled(next), true)
  await refused(next, 'NotFound')
})

test('a batch that is refused waits for the writes in flight', async () => {
  const { handler, handle, journal } = handlerOn(new HeldJournal(), { clientIdsOnPost: true })
  const held = handle(put('1', 1))
  const items = [{ item: { id: 'x' } }, { item: { id: 'x' } }]
  const batch = handler.bulk({ type: 'CreateItems', collection: 'others', items, isLenient: false }, ORIGIN)
  const refusal = refused(batch, 'Conflict')
  assert.equal(await isSettled(refusal), false)
  journal.flush()
  await Promise.all([held, refusal])
})

test('a refusal that depends on an event whose flush fails is answered with that failure', async () => {
  const { handle, journal } = handlerOn(new HeldJournal(), { clientIdsOnPost: true })
  const first = handle({ type: 'CreateItem', collection: 'things', item: { id: 'a' } })
  const conflict = handle({ type: 'CreateItem', collection: 'things', item: { id: 'a' } })
  const stale = handle(put('a', 1, { ifMatch: ['"other"'] }))
  const answers = Promise.all([refused(first, 'DiskFull'), refused(conflict, 'DiskFull'), refused(stale, 'DiskFull')])
  journal.fail()
  await answers
})

test('all writes decided on a failed write fail with it, and the next write succeeds', async () => {
  const { handle, journal, views } = handlerOn(new HeldJournal())
  const before = handle(put('1', 1))
  journal.flush()
  await before
  const failing = [handle(remove('1')), handle(put('1', 2)), handle(create(3))]
  const answers = Promise.all(failing.map((promise) => refused(promise, 'DiskFull')))
  journal.fail()
  await answers

  const after = handle(put('1', 5))
  journal.flush()
  const { event, position } = await after
  assert.equal(position, 3)
  assert.equal(event?.type, 'ItemReplaced')
  assert.equal(event?.revision, 2)
  assert.equal(views.find('things')?.size, 1)
})

test('a write that the journal rejects at once does not fail writes decided after it, and earlier ones stay accepted', async () => {
  const { handle, journal, views } = handlerOn(new HeldJournal())
  const first = handle(put('1', 1))
  journal.isRejecting = true
  await refused(handle(put('2', 1)), 'TooLarge')
  const second = handle(put('1', 2))
  const conflict = handle(put('1', 3, { ifNoneMatch: '*' }))
  assert.equal(await isSettled(conflict), false, 'it depends on the first write')
  journal.flush(1)
  const third = handle(put('2', 3))
  journal.flush()
  await first
  await refused(conflict, 'PreconditionFailed')
  assert.equal((await second).event?.revision, 2)
  assert.equal((await third).event?.revision, 1)
  assert.deepEqual(views.find('things')?.item('1')?.value, { id: 1, n: 2 })
})

test('writes that stayed accepted when a later one was rejected fail together when their flush fails', async () => {
  const { handle, journal } = handlerOn(new HeldJournal())
  const writes = [handle(put('1', 1)), handle(put('1', 2))]
  journal.isRejecting = true
  await refused(handle(put('2', 1)), 'TooLarge')
  writes.push(handle(put('1', 3)))
  const failures = Promise.all(writes.map((write) => refused(write, 'DiskFull')))
  journal.fail()
  await failures
  const next = handle(put('1', 4))
  journal.flush()
  assert.equal((await next).event?.revision, 1)
})

test('exactly one of many writers with the same entity tag succeeds', async () => {
  const { handle } = handlerOn(memoryJournal('memory', () => NOW))
  const { item } = await handle(put('1', 0))
  const attempts = Array.from({ length: 20 }, (_, n) => handle(put('1', n + 1, { ifMatch: [item?.tag] })))
  const results = await Promise.allSettled(attempts)
  assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1)
  for (const result of results) {
    if (result.status === 'rejected') assert.equal((result.reason as Refusal).code, 'PreconditionFailed')
  }
})

test('a repeated request with its idempotency key gets the first response and appends nothing', async () => {
  const { handle, journal } = handlerOn(memoryJournal('memory', () => NOW))
  const origin = { ...ORIGIN, key: 'k', request: 'hash' }
  const [first, meanwhile] = await Promise.all([handle(create(1), origin), handle(create(1), origin)])
  const again = await handle(create(1), { ...origin, requestId: 'later' })
  assert.deepEqual(meanwhile, first)
  assert.deepEqual([again.position, again.event, again.item?.text], [first.position, first.event, first.item?.text])
  assert.equal(journal.head, 2)
})

test('an idempotency key with another request is rejected, and keys of different users are independent', async () => {
  const { handle, journal } = handlerOn(memoryJournal('memory', () => NOW))
  const origin = { ...ORIGIN, key: 'k', request: 'hash' }
  const first = handle(create(1), origin)
  await refused(handle(create(2), { ...origin, request: 'other' }), 'Unprocessable')
  await first
  await refused(handle(create(2), { ...origin, request: 'other' }), 'Unprocessable')
  await handle(create(2), { ...origin, actor: 'bob', request: 'other' })
  assert.equal(journal.head, 3)
})

test('an idempotency key expires after a day, and a rejected request is not remembered', async () => {
  let now = NOW
  const { handle, journal } = handlerOn(
    memoryJournal('memory', () => now),
    { upsertOnPut: false },
    () => now,
  )
  const origin = { ...ORIGIN, key: 'k', request: 'hash' }
  await refused(handle(put('0', 1), origin), 'NotFound')
  await handle(create(1))
  await handle(put('0', 1), origin)
  now = new Date(NOW.getTime() + 24 * 60 * 60 * 1000 - 1)
  await handle(put('0', 1), origin)
  assert.equal(journal.head, 3)
  now = new Date(NOW.getTime() + 24 * 60 * 60 * 1000)
  await handle(put('0', 1), origin)
  assert.equal(journal.head, 4)
})

test('a handler knows idempotency keys that were answered before it started', async () => {
  const { handle, journal, views } = handlerOn(memoryJournal('memory', () => NOW))
  const origin = { ...ORIGIN, key: 'k', request: 'hash' }
  const first = await handle(create(1), origin)
  const again = Views.temporary()
  const idempotencyKeys = new IdempotencyKeys(again.store)
  again.storeWith(idempotencyKeys)
  for await (const recorded of journal.read(1)) project(again, recorded)
  const restarted = new CommandHandler({
    journal,
    memory: UNLIMITED,
    elapsedMs: () => 0,
    atomicItems: 10_000,
    durable: views.any,
    rules: RULES,
    now: () => NOW,
    idempotencyKeys,
    select: noItems,
  })
  const second = await restarted.handle(create(1), origin)
  assert.deepEqual([second.position, second.event], [first.position, first.event])
})

test('an edit of the data file is one write, decided when pending flushes are durable', async () => {
  const { handler, handle, journal } = handlerOn(new HeldJournal())
  const before = handle(put('1', 1))
  const edit = await editOf([
    ['things', [{ id: 1, n: 1 }, { id: 2 }]],
    ['more', [{}]],
  ])
  const taken = handler.merge(edit, { ...ORIGIN, actor: 'data-file' })
  journal.flush()
  await before
  await until('the edit to be decided', () => journal.waiting > 0)
  assert.equal(await isSettled(taken), false)
  journal.flush()
  const { basis, events, conflicts } = await taken
  assert.deepEqual({ basis, events, conflicts }, { basis: 2, events: 3, conflicts: [] })
  assert.deepEqual(
    journal.records.map(({ actor, position, events }) => [actor, position, events.length]),
    [
      ['ann', 1, 2],
      ['data-file', 3, 3],
    ],
  )
})

test('an edit without changes is confirmed only when the writes it depends on are durable', async () => {
  const { handler, handle, journal } = handlerOn(new HeldJournal())
  const edit = await editOf([['things', [{ id: 1, n: 1 }]]])
  const write = handle(put('1', 1))
  const taken = handler.merge(edit, ORIGIN)
  assert.equal(await isSettled(taken), false)
  const answer = refused(write, 'DiskFull')
  journal.fail()
  await answer
  await until('the edit to be decided', () => journal.waiting > 0)
  assert.equal(await isSettled(taken), false)
  journal.flush()
  assert.equal((await taken).events, 2)
})

for (const count of [1000, 3000]) {
  test(`writes that come while a batch of ${count} items is decided wait for it, and are decided in their order`, async () => {
    const { handler, handle, journal } = handlerOn(new HeldJournal())
    const first = handle(create(1))
    const items = Array.from({ length: count }, (_, n) => ({ item: { n } }))
    const batch = handler.bulk({ type: 'CreateItems', collection: 'things', items, isLenient: false }, ORIGIN)
    const later = [handle(create(2)), handle(put('1', 7)), handle(remove(String(count))), handle(remove(String(count)))]
    const missing = refused(later.pop() as Promise<unknown>, 'NotFound')
    await turnsUntil('the answer to the last write', async () => {
      if (await isSettled(missing)) return true
      journal.flush()
      return false
    })
    const { events } = await batch
    const ids = Array.from(events, (event) => ('id' in event ? event.id : undefined))
    const begin = Number((await first).item?.id) + 1
    assert.deepEqual(
      ids,
      Array.from({ length: count }, (_, n) => begin + n),
    )
    const [created, replaced, deleted] = await Promise.all(later)
    assert.equal(created?.item?.id, begin + count)
    assert.deepEqual([replaced?.event?.revision, deleted?.event?.revision], [2, 2])
  })
}

test('a batch is decided again when a write before it fails meanwhile', async () => {
  const { handler, handle, journal } = handlerOn(new HeldJournal())
  const failing = refused(handle(create(1)), 'DiskFull')
  const items = Array.from({ length: 1000 }, (_, n) => ({ item: { n } }))
  const batch = handler.bulk({ type: 'CreateItems', collection: 'things', items, isLenient: false }, ORIGIN)
  journal.fail()
  await failing
  await flushUntilSettled(batch, journal)
  const { events } = await batch
  assert.equal(events.length, 1001)
  assert.equal(events.at(0)?.type, 'CollectionCreated')
})

test('a batch that is refused because of a write that fails meanwhile is decided again', async () => {
  const { handler, handle, journal } = handlerOn(new HeldJournal(), { clientIdsOnPost: true })
  const failing = refused(handle({ type: 'CreateItem', collection: 'things', item: { id: 'x' } }), 'DiskFull')
  const items = Array.from({ length: 1000 }, (_, n) => ({ item: n === 999 ? { id: 'x' } : { id: n } }))
  const batch = handler.bulk({ type: 'CreateItems', collection: 'things', items, isLenient: false }, ORIGIN)
  journal.fail()
  await failing
  await flushUntilSettled(batch, journal)
  assert.equal((await batch).events.length, 1001)
})

/** Work that begins when it has the lock, and ends when the test says so. */
class Work {
  begun = false
  end = (): void => {}
  readonly #ended = new Promise<void>((resolve) => {
    this.end = resolve
  })

  readonly run = (): Promise<void> => {
    this.begun = true
    return this.#ended
  }
}

const iteration = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('decisions that take several turns are made one after the other, and others in their order in between', async () => {
  const queue = new DecisionQueue(() => 0)
  const decided: string[] = []
  const decide = (name: string): Promise<unknown> => queue.run(async () => decided.push(name))
  const [one, other] = [new Work(), new Work()]
  void decide('first')
  const first = queue.hold(one.run)
  void decide('second')
  const second = queue.hold(other.run)
  const last = decide('third')
  await iteration()
  assert.deepEqual([one.begun, other.begun, decided], [true, false, ['first']])
  one.end()
  await first
  await iteration()
  assert.deepEqual([other.begun, decided], [true, ['first', 'second']])
  other.end()
  await second
  await last
  assert.deepEqual(decided, ['first', 'second', 'third'])
})

test('a decision that lets others decide early keeps nobody waiting at its end', async () => {
  const queue = new DecisionQueue(() => 0)
  const [one, other] = [new Work(), new Work()]
  const first = queue.hold(async (release) => {
    release()
    await one.run()
  })
  const second = queue.hold(other.run)
  assert.equal(other.begun, true)
  one.end()
  await first
  let isDecided = false
  const third = queue.run(async () => {
    isDecided = true
  })
  await iteration()
  assert.equal(isDecided, false, 'the second is not over')
  other.end()
  await second
  await third
})

test('work that fails keeps nobody waiting', async () => {
  const queue = new DecisionQueue(() => 0)
  const failing = queue.hold(async () => {
    throw new Error('broken')
  })
  await assert.rejects(failing, /broken/)
  assert.equal(await queue.run(async () => 'decided'), 'decided')
})

test('long decisions are made in several iterations of the event loop, in their order, also beside one that takes several', async () => {
  let ms = 0
  const queue = new DecisionQueue(() => ms)
  const decided: string[] = []
  const decide = (name: string): Promise<unknown> =>
    queue.run(async () => {
      ms += 6
      decided.push(name)
    })
  void decide('1')
  void decide('2')
  void queue.hold(async () => decided.push('3'))
  const last = decide('4')
  assert.deepEqual(decided, ['1'])
  await last
  assert.deepEqual(decided, ['1', '2', '3', '4'])
})

test('a dry run does not wait for writes that came after it', async () => {
  const { handle, handler, journal } = handlerOn(new HeldJournal())
  const first = handle(create(1))
  journal.flush()
  await first
  const dryRun = handler.restore({ type: 'collections', collections: new Map([['things', undefined]]) }, ORIGIN, true)
  const later = handle(create(2))
  assert.equal((await dryRun).events.length, 2)
  await iteration()
  journal.flush()
  await later
})
