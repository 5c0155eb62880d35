import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { pino } from 'pino'
import type { Position } from '../../src/events/event.ts'
import type { Journal, Recorded } from '../../src/events/journal.ts'
import { Past } from '../../src/projections/past.ts'
import { Queries } from '../../src/query/queries.ts'
import { LimitedLog } from '../../src/runtime/limited-log.ts'
import { Turns } from '../../src/runtime/turns.ts'
import type { Subscriber } from '../../src/sockets/subscription.ts'
import { Subscriptions } from '../../src/sockets/subscriptions.ts'
import { SimulatedClock } from '../support/clock.ts'
import { CollectionWriter, storedHistory } from '../support/collections.ts'
import { turnsUntil } from '../support/deadline.ts'

const ID = '00000000-0000-4000-8000-000000000001'
const ITEMS = 1000

const client: Subscriber = {
  change: () => {},
  lagging: () => {},
  current: () => {},
  isSlow: () => false,
  whenDrained: (work) => work(),
}

/** Subscriptions to a collection, with the number of writes that were read, and of turns of the event loop that work took. */
function place() {
  const writer = new CollectionWriter('a')
  const { views, records } = writer
  const history = storedHistory(views)
  writer.putAll(Array.from({ length: ITEMS }, (_, id) => ({ id, text: 'x'.repeat(100) })))
  const done = { read: 0, turns: 0 }
  const journal: Pick<Journal, 'id' | 'head' | 'read' | 'timeMs'> = {
    id: ID,
    head: records.length,
    timeMs: 0,
    async *read(from: Position, to: Position = records.length): AsyncGenerator<Recorded> {
      for (const recorded of records.slice(from - 1, to)) {
        await turn()
        done.read++
        yield recorded
      }
    },
  }
  // Each look at the clock ends the turn, as if every item took long.
  let ms = 0
  const turns = new Turns(
    () => (ms += 5),
    (next) => {
      done.turns++
      setImmediate(next)
    },
  )
  const subscriptions = new Subscriptions({
    views,
    past: new Past(journal, views, history),
    queries: new Queries({ views, bytes: 2 ** 20, turns }),
    journal,
    log: new LimitedLog(pino({ level: 'silent' }), () => 0),
    now: () => new Date(),
    clock: new SimulatedClock(),
    items: 10 * ITEMS,
    perClient: 1,
  })
  return { subscriptions, done, writer }
}

test('the journal is not read on for a client that went away before it was resumed', async () => {
  const { subscriptions, done } = place()
  const subscribed = subscriptions.subscribe(client, { collection: 'b', after: 0, journal: ID }, () => {})
  await turnsUntil('the reading of 10 writes', () => done.read >= 10)
  subscriptions.leave(client)
  await subscribed
  assert.ok(done.read < 20, `${done.read} writes were read`)
})

test('items are not searched on for a client that went away before its subscription began', async () => {
  for (const resuming of [{}, { after: 0, journal: ID }]) {
    const { subscriptions, done } = place()
    const subscribed = subscriptions.subscribe(client, { collection: 'a', query: 'q=y', ...resuming }, () => {})
    await turnsUntil('the third turn', () => done.turns >= 3)
    subscriptions.leave(client)
    await subscribed
    assert.ok(done.turns < 10 && done.read === 0, `${done.turns} turns, ${done.read} writes`)
  }
})

test('a client is told whether changes follow the items with which its subscription begins', async () => {
  for (const isLate of [false, true]) {
    const { subscriptions, done, writer } = place()
    const sent: unknown[] = []
    const listener: Subscriber = {
      ...client,
      change: ({ position, id }) => sent.push({ position, id }),
      current: (_, position) => sent.push({ current: position }),
    }
    const subscribed = subscriptions.subscribe(listener, { collection: 'a', query: 'q=y' }, (response) =>
      sent.push('behind' in response && response.behind),
    )
    await turnsUntil('the third turn', () => done.turns >= 3)
    if (isLate) writer.putAll([{ id: 1, text: 'y' }])
    await subscribed
    const expected = [true, { position: ITEMS + 2, id: 1 }, { current: ITEMS + 2 }]
    if (isLate) await turnsUntil('the change after the items', () => sent.length >= expected.length)
    assert.deepEqual(sent, isLate ? expected : [false])
  }
})
