import { join } from 'node:path'
import { ask, told } from '../harness/ask.ts'
import { type Bench, type Group, interleaved } from '../harness/bench.ts'
import { limit, type Row, type Series } from '../harness/figures.ts'
import { anonymousBytes } from '../harness/process-figures.ts'
import { bodies, LAST_DAY, macOf, SENSORS } from '../harness/readings.ts'
import { built, type Server } from '../harness/servers.ts'

const MIB = 2 ** 20
/** Ten times as many readings as in the other groups. */
const TIMES = 10
/** Requests of each query in a round. */
const ASKED = 10
const BATCH = 1000
/** Clients that send batches, each one after the other. */
const SENDERS = 4
/** Different batches of a run. */
const BATCHES = 600
const KEY = ['mac', 'timestamp']
const INDEX = 'mac,timestamp,data.temperature'
const HOURLY = 'aggregate=avg(data.temperature)&window=1h'
/** Each request has another page size, which makes no difference but that no response comes from the cache. */
const PAGE = 15_000

export const readings: Group = {
  name: 'readings',
  about: 'aggregates over many sensors, CSV, and batches',
  async measure(bench) {
    return [...(await questions(bench)), ...(await exported(bench)), await batches(bench)]
  },
}

async function questions(bench: Bench): Promise<readonly Row[]> {
  const { fixtures, servers, items } = bench
  const count = TIMES * items
  const collections = JSON.stringify({ readings: { Time: 'timestamp', Indexes: [INDEX] } })
  const server = await servers.recollect(
    {
      file: join(await fixtures.directory(), 'db.json'),
      journal: await fixtures.sensorJournal(count),
      flags: [
        '--read-only',
        '--Journal.Compress',
        'off',
        '--Collections',
        collections,
        '--Limits.PageSize',
        String(PAGE),
      ],
    },
    { isWatched: true, settle: false },
  )
  await built(server, [INDEX])
  const asked = {
    one: `${HOURLY}&mac=${macOf(0)}`,
    all: `${HOURLY}&groupBy=mac&timestamp_gte=${LAST_DAY}`,
    newest: 'newestBy=mac',
  }
  let page = PAGE
  const millisecondsOf = (search: string) => async (): Promise<number> => {
    const began = performance.now()
    for (let again = 0; again < ASKED; again++) {
      page = page > PAGE / 2 ? page - 1 : PAGE
      await told(`${server.url}/api/readings?${search}&pageSize=${page}`)
    }
    return (performance.now() - began) / ASKED
  }
  for (const search of Object.values(asked)) await millisecondsOf(search)()
  const measured = await interleaved(bench, 'ms', {
    one: millisecondsOf(asked.one),
    all: millisecondsOf(asked.all),
    newest: millisecondsOf(asked.newest),
  })
  const blocks = await interleaved(bench, 'ms', {
    blocked: async () => {
      await server.blockedMs()
      await millisecondsOf(asked.all)()
      return server.blockedMs()
    },
  })
  await server.stop()
  const row = (work: string, series: Series | undefined, most: string, ms: number): Row => ({
    work,
    ours: { ...(series as Series), name: 'Recollect' },
    better: 'less',
    goals: [limit(`≤ ${most}`, ms)],
    others: [],
  })
  const among = `among ${count.toLocaleString('en-US')} readings`
  return [
    row(`hourly average of a sensor over 30 days, ${among}`, measured.one, '60 ms', 60),
    row(`hourly average of each of ${SENSORS} sensors over a day, ${among}`, measured.all, '1 s', 1000),
    row('longest block of the event loop meanwhile', blocks.blocked, '30 ms', 30),
    row(`newest reading of each of ${SENSORS} sensors, ${among}`, measured.newest, '10 ms', 10),
  ]
}

async function exported(bench: Bench): Promise<readonly Row[]> {
  const { fixtures, servers, items } = bench
  const server = await servers.recollect({
    file: join(await fixtures.directory(), 'db.json'),
    journal: await fixtures.ownJournal(items),
  })
  const headers = { Accept: 'text/csv' }
  const idle = anonymousBytes(server)
  let most = 0
  const watch = setInterval(() => {
    most = Math.max(most, anonymousBytes(server))
  }, 20)
  const { rows } = await interleaved(bench, 'rows/s', {
    rows: async () => {
      const began = performance.now()
      const answer = await ask(`${server.url}/api/readings?all=true`, { headers })
      for await (const part of answer.body as AsyncIterable<Uint8Array>) if (part.length === 0) continue
      return items / ((performance.now() - began) / 1000)
    },
  })
  clearInterval(watch)
  await server.stop()
  const work = `CSV of ${items.toLocaleString('en-US')} readings`
  return [
    {
      work,
      ours: { ...(rows as Series), name: 'Recollect' },
      better: 'more',
      goals: [limit('≥ 100,000 rows/s', 100_000, 'at least')],
      others: [],
    },
    {
      work: `${work}: anonymous memory above that of the idle server`,
      ours: { name: 'Recollect', unit: 'MiB', values: [(most - idle) / MIB] },
      better: 'less',
      goals: [limit('≤ 50 MiB', 50)],
      others: [],
    },
  ]
}

/** The same batches to both, each with one compound index and a unique key. */
async function batches(bench: Bench): Promise<Row> {
  const { fixtures, servers } = bench
  const own = async (name: string) => join(await fixtures.directory(), name)
  const collections = JSON.stringify({ readings: { Time: 'timestamp', Indexes: [INDEX], Key: KEY } })
  const lines = await fixtures.lines(1)
  const recollect = await servers.recollect({
    file: await own('db.json'),
    journal: await fixtures.ownJournal(1),
    flags: ['--Collections', collections],
  })
  const fastify = await servers.peer('fastify-sqlite', [lines, await own('db')])
  const texts = bodies(BATCHES * BATCH)
  const all = Array.from({ length: BATCHES }, (_, at) => `[${texts.slice(at * BATCH, (at + 1) * BATCH).join(',')}]`)
  const rateOf = ({ url }: Server) => {
    // Each batch is sent once: a second time its readings would be duplicates.
    let next = 0
    return async (): Promise<number> => {
      const began = performance.now()
      const end = began + bench.seconds * 1000
      const first = next
      const sender = async (): Promise<void> => {
        while (performance.now() < end) {
          const body = all[next++]
          if (!body) throw new Error(`There are no more than ${BATCHES} batches: measure fewer rounds or seconds.`)
          await told(`${url}/api/readings`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body })
        }
      }
      await Promise.all(Array.from({ length: SENDERS }, sender))
      return ((next - first) * BATCH) / ((performance.now() - began) / 1000)
    }
  }
  const measured = await interleaved(bench, 'readings/s', {
    Recollect: rateOf(recollect),
    'Fastify + better-sqlite3': rateOf(fastify),
  })
  await Promise.all([recollect.stop(), fastify.stop()])
  return {
    work: `durable readings in batches of ${BATCH.toLocaleString('en-US')}, with an index of ${INDEX} and the key ${KEY}`,
    ours: measured.Recollect as Series,
    better: 'more',
    goals: [limit('≥ 20,000 readings/s', 20_000, 'at least')],
    others: [measured['Fastify + better-sqlite3'] as Series],
    note: `${SENDERS} clients, each of which sends a batch when the one before it is answered.`,
  }
}
