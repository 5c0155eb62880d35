import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { io, type Socket } from 'socket.io-client'
import type { Recorded } from '../../src/events/journal.ts'
import { Document } from '../../src/json/document.ts'
import { History } from '../../src/projections/history.ts'
import { Past } from '../../src/projections/past.ts'
import { Views } from '../../src/projections/views.ts'
import { Queries } from '../../src/query/queries.ts'
import { LimitedLog } from '../../src/runtime/limited-log.ts'
import { MemoryBudget, UNLIMITED } from '../../src/runtime/memory.ts'
import type { Subscribed } from '../../src/sockets/protocol.ts'
import { parseSubscribe } from '../../src/sockets/subscribe-request.ts'
import type { Subscriber } from '../../src/sockets/subscription.ts'
import { Subscriptions } from '../../src/sockets/subscriptions.ts'
import { memoryJournal } from '../../test/support/journal.ts'
import { type Bench, type Group, interleaved, rateOf } from '../harness/bench.ts'
import { type Series, times } from '../harness/figures.ts'

const MANY = 1000
/** The same for one subscription and for many, as each socket is told of every event besides. */
const SOCKETS = 10
/** Events of a figure, and figures that are thrown away first. */
const EVENTS = 100_000
const WARM_UPS = 2

const COLLECTION = 'sensors'
const sensorOf = (index: number) => {
  const bytes = [index >> 8, index & 255].map((byte) => byte.toString(16).padStart(2, '0').toUpperCase())
  const mac = `F4:A5:74:89:${bytes.join(':')}`
  return { id: mac, mac, data: { temperature: index / 10, humidity: 40 } }
}
const SENSORS = Array.from({ length: MANY }, (_, index) => sensorOf(index))
const FIRST = sensorOf(0)

export const subscriptions: Group = {
  name: 'subscriptions',
  about: 'an event that concerns one subscription, when there is one and when there are a thousand',
  async measure(bench) {
    const oneAlone = await inProcess(1)
    const ofMany = await inProcess(MANY)
    const cost = await interleaved(bench, 'µs', { one: oneAlone, many: ofMany })
    const servers = { one: await served(bench, 1), many: await served(bench, MANY) }
    const rate = await interleaved(bench, 'req/s', { one: servers.one.rate, many: servers.many.rate })
    for (const { close } of Object.values(servers)) await close()
    const named = (series: Series | undefined, name: string): Series => ({ ...(series as Series), name })
    const [costOfOne, rateOfOne] = [named(cost.one, 'that with one'), named(rate.one, 'that with one')]
    return [
      {
        work: `an event among ${MANY.toLocaleString('en-US')} subscriptions on different mac=, by itself`,
        ours: named(cost.many, 'Recollect'),
        better: 'less',
        goals: [times(costOfOne, 2, 'at most')],
        others: [costOfOne],
      },
      {
        work: `PUT of an item among ${MANY.toLocaleString('en-US')} subscriptions on different mac=, ${SOCKETS} sockets`,
        ours: named(rate.many, 'Recollect'),
        better: 'more',
        goals: [times(rateOfOne, 0.5)],
        others: [rateOfOne],
      },
    ]
  },
}

/** The cost of an event from the bus to the socket, in microseconds; always the same sensor's, to which one client subscribes. */
async function inProcess(count: number): Promise<() => Promise<number>> {
  const now = () => new Date()
  const journal = memoryJournal('00000000-0000-4000-8000-000000000000', now)
  const views = Views.temporary()
  const past = new Past(journal, views, new History(views), UNLIMITED)
  const queries = new Queries({ views, bytes: 2 ** 20 })
  const clock = { elapsedMs: () => 0, schedule: () => ({ cancel: () => {} }) }
  const log = new LimitedLog(pino({ level: 'silent' }), clock.elapsedMs)
  const limits = { items: 10_000, perClient: count, memory: new MemoryBudget() }
  const all = new Subscriptions({ views, past, queries, journal, log, now, clock, ...limits })
  let sent = 0
  const client: Subscriber = {
    change: () => void sent++,
    lagging: () => {},
    current: () => {},
    isSlow: () => false,
    whenDrained: () => {},
    whenSent: (work) => work(),
    drop: () => {},
  }
  const item = Document.of(FIRST)
  const put = (position: number): Recorded => {
    const stamp = { collection: COLLECTION, id: FIRST.id, revision: position, prior: position - 1 }
    const events = [{ type: 'ItemReplaced' as const, ...stamp, item }]
    return { position, time: '2026-11-21T00:00:00.000Z', actor: 'bench', requestId: 'bench', events }
  }
  for (const { mac } of SENSORS.slice(0, count)) {
    await all.subscribe(client, parseSubscribe({ collection: COLLECTION, query: `mac=${mac}` }), () => {})
  }
  let position = 0
  const measure = async (): Promise<number> => {
    const began = performance.now()
    for (let events = 0; events < EVENTS; events++) await all.apply(put(++position))
    return ((performance.now() - began) * 1000) / EVENTS
  }
  for (let times = 0; times < WARM_UPS; times++) await measure()
  if (sent !== WARM_UPS * EVENTS) throw new Error(`${sent} changes of ${WARM_UPS * EVENTS} events`)
  return measure
}

/** The whole way: a server with real sockets, and as many PUTs of that sensor as it answers. */
async function served(bench: Bench, count: number) {
  const file = join(await bench.fixtures.directory(), 'db.json')
  await writeFile(file, JSON.stringify({ [COLLECTION]: SENSORS }))
  const server = await bench.servers.recollect({ file, flags: ['--Limits.SubscriptionsPerSocket', String(MANY)] })
  const sockets = Array.from({ length: SOCKETS }, () => {
    return io(server.url, { transports: ['websocket'], forceNew: true, reconnection: false })
  })
  for (const [index, { mac }] of SENSORS.slice(0, count).entries()) {
    const socket = sockets[index % SOCKETS] as Socket
    const answered: Subscribed = await socket.emitWithAck('subscribe', {
      collection: COLLECTION,
      query: `mac=${mac}`,
    })
    if ('error' in answered) throw new Error(answered.message)
  }
  const path = `/api/${COLLECTION}/${FIRST.id}`
  const rate = await rateOf(bench, server.url, [{ method: 'PUT', path, body: JSON.stringify(FIRST) }])
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.close()
    await server.stop()
  }
  return { rate, close }
}
