import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Bench, type Group, interleaved, repeated } from '../harness/bench.ts'
import { type Series, times } from '../harness/figures.ts'
import { type Listeners, listeners } from '../harness/listeners.ts'
import { bodies } from '../harness/readings.ts'
import { type Server, settled } from '../harness/servers.ts'

const CLIENTS = 1000
const BODIES = bodies(1000)
/** Posts whose notifications are timed, in a round. */
const TIMED = 50
/** Events that become durable at once. */
const BURST = 500

interface Contestant {
  readonly server: Server
  readonly file: string
  all: Listeners
}

export const sockets: Group = {
  name: 'sockets',
  about: 'notifications to a thousand clients',
  async measure(bench) {
    const { servers, fixtures } = bench
    const lines = await fixtures.lines(1)
    const started = async (name: 'Recollect' | 'ws' | 'framed' | 'socket.io', kind: 'ws' | 'socket.io') => {
      const own = await fixtures.directory()
      const file = join(own, 'db.json')
      if (name === 'Recollect') await writeFile(file, '{"readings":[]}')
      const flags = ['--Limits.SocketsPerAddress', '5000']
      const server =
        name === 'Recollect'
          ? await servers.recollect({ file, flags })
          : await servers.peer('sockets', [name, lines, join(own, 'log')])
      return { server, file, all: await listeners(server.url, CLIENTS, kind) }
    }
    const ours = await started('Recollect', 'ws')
    const plain = await started('ws', 'ws')
    const framed = await started('framed', 'ws')
    const oursIo = await started('Recollect', 'socket.io')
    const plainIo = await started('socket.io', 'socket.io')

    const late = await interleaved(bench, 'ms', {
      Recollect: () => lateness(ours),
      'bare ws': () => lateness(plain),
    })
    const rate = await interleaved(bench, 'messages/s', {
      Recollect: await rateOf(bench, ours),
      'pre-framed ws': await rateOf(bench, framed),
      'bare ws': await rateOf(bench, plain),
    })
    const burst = await interleaved(bench, 'messages/s', {
      Recollect: () => edited(oursIo),
      'plain Socket.IO': () => told(plainIo),
    })
    for (const { all, server } of [ours, plain, framed, oursIo, plainIo]) {
      all.close()
      await server.stop()
    }
    const of = (measured: Record<string, Series>, name: string) => measured[name] as Series
    return [
      {
        work: 'notification of 1,000 clients: from the response to the socket, p99',
        ours: of(late, 'Recollect'),
        better: 'less',
        goals: [times(of(late, 'bare ws'), 1.2, 'at most')],
        others: [of(late, 'bare ws')],
        note: 'Below 0: all clients had it before the response, which is sent together with the other responses of a turn of the event loop.',
      },
      {
        work: 'notifications to 1,000 clients while 64 connections POST',
        ours: of(rate, 'Recollect'),
        better: 'more',
        goals: [times(of(rate, 'pre-framed ws'), 0.8)],
        others: [of(rate, 'pre-framed ws'), of(rate, 'bare ws')],
      },
      {
        work: `a burst of ${BURST} events to 1,000 Socket.IO clients`,
        ours: of(burst, 'Recollect'),
        better: 'more',
        goals: [times(of(burst, 'plain Socket.IO'), 5)],
        others: [of(burst, 'plain Socket.IO')],
        note: `${BURST} items come with one edit of the data file; from the request to merge it until the last client has the last message.`,
      },
    ]
  },
}

/** From the response to a POST to the message at each client: the 99th percentile of all clients and posts. */
async function lateness({ server, all }: Contestant): Promise<number> {
  const late: number[] = []
  for (let post = 0; post < TIMED; post++) {
    const before = all.count
    const arrivals: number[] = []
    all.onArrival((messages) => {
      for (let message = 0; message < messages; message++) arrivals.push(performance.now())
    })
    const headers = { 'Content-Type': 'application/json' }
    const answer = await fetch(`${server.url}/api/readings`, { method: 'POST', headers, body: BODIES[post] as string })
    const answered = performance.now()
    if (answer.status !== 201) throw new Error(`a POST is ${answer.status}`)
    await answer.arrayBuffer()
    await all.until(before + CLIENTS)
    late.push(...arrivals.map((arrived) => arrived - answered))
  }
  all.onArrival(undefined)
  const ascending = late.toSorted((a, b) => a - b)
  return ascending[Math.floor(ascending.length * 0.99)] as number
}

/** Messages that come to all clients in a second, while 64 connections write as fast as they are answered. */
async function rateOf(bench: Bench, { server, all }: Contestant): Promise<() => Promise<number>> {
  const write = await repeated(
    bench,
    server.url,
    BODIES.map((body) => ({ method: 'POST' as const, path: '/api/readings', body })),
  )
  await write()
  return async () => {
    const writing = write()
    // Awaited below; until then its rejection is expected.
    writing.catch(() => {})
    await new Promise((resolve) => setTimeout(resolve, (bench.seconds * 1000) / 4))
    const before = all.count
    const began = performance.now()
    await new Promise((resolve) => setTimeout(resolve, (bench.seconds * 1000) / 2))
    const rate = (all.count - before) / ((performance.now() - began) / 1000)
    await writing
    // Notifications on their way must not be counted with the next ones.
    for (let last = -1; last !== all.count; ) {
      last = all.count
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
    return rate
  }
}

/** An edit of the data file that adds items, and is merged at once. */
async function edited({ server, file, all }: Contestant): Promise<number> {
  await settled(server)
  const data = JSON.parse(await readFile(file, 'utf8')) as { readonly readings: object[] }
  data.readings.push(...BODIES.slice(0, BURST).map((body) => JSON.parse(body) as object))
  await writeFile(file, JSON.stringify(data))
  return burstOf(all, () => fetch(`${server.url}/admin/reload`, { method: 'POST' }))
}

function told({ server, all }: Contestant): Promise<number> {
  return burstOf(all, () => fetch(`${server.url}/burst?n=${BURST}`, { method: 'POST' }))
}

async function burstOf(all: Listeners, make: () => Promise<Response>): Promise<number> {
  const before = all.count
  const began = performance.now()
  const answer = await make()
  if (!answer.ok) throw new Error(`a burst is ${answer.status}: ${await answer.text()}`)
  await all.until(before + CLIENTS * BURST)
  return (CLIENTS * BURST) / ((performance.now() - began) / 1000)
}
