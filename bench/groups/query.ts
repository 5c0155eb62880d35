import { join } from 'node:path'
import { told } from '../harness/ask.ts'
import { type Bench, type Group, interleaved, once, rateOf } from '../harness/bench.ts'
import { limit, type Row, type Series, times } from '../harness/figures.ts'
import type { Sent } from '../harness/load.ts'
import { probe } from '../harness/probe.ts'
import { randomFrom, SEED, timestampOf } from '../harness/readings.ts'
import type { Server } from '../harness/servers.ts'
import { itemsOf, startBare } from './get.ts'

/** The most items with which json-server can be measured. */
const FEWER = 100_000
const PAGE = 20
/** Different queries of a load, all of which fit in Recollect's cache. */
const ASKED = 2000
/** More than fit. */
const UNCACHED = 20_000

/** Queries of `count` readings, with numbers picked by chance. */
function picked(below: number, pathOf: (index: number) => string, asked = ASKED): readonly Sent[] {
  const next = randomFrom(SEED)
  return Array.from({ length: asked }, () => ({ path: pathOf(Math.floor(next() * below)) }))
}

/** The requests of each row, for a server with so many readings. */
export const QUERIES = {
  'page of 20, the first': () => [{ path: `/api/readings?page=1&pageSize=${PAGE}` }],
  'page of 20, any': (count: number) =>
    picked(count / PAGE, (page) => `/api/readings?page=${page + 1}&pageSize=${PAGE}`),
  'page of 20, any, not cached': (count: number) =>
    picked(count / PAGE, (page) => `/api/readings?page=${page + 1}&pageSize=${PAGE}`, UNCACHED),
  'page of 20, the last': (count: number) => [{ path: `/api/readings?page=${count / PAGE}&pageSize=${PAGE}` }],
  'equality filter, one hit': (count: number) =>
    picked(count, (number) => `/api/readings?data.measurement_sequence_number=${number}`),
  'timestamp_gt, sort=timestamp_desc, page of 20, any': (count: number) =>
    picked(
      count / 2 / PAGE,
      (page) =>
        `/api/readings?timestamp_gt=${timestampOf(count / 2)}&sort=timestamp_desc&pageSize=${PAGE}&page=${page + 1}`,
    ),
} satisfies Record<string, (count: number) => readonly Sent[]>
type Work = keyof typeof QUERIES
const GOALS: Readonly<Record<Work, number>> = {
  'page of 20, the first': 0.5,
  'page of 20, any': 0.5,
  'page of 20, any, not cached': 0.5,
  'page of 20, the last': 0.5,
  'equality filter, one hit': 0.6,
  'timestamp_gt, sort=timestamp_desc, page of 20, any': 0.5,
}
const JSON_SERVER: Readonly<Partial<Record<Work, readonly Sent[]>>> = {
  'page of 20, any': picked(FEWER / PAGE, (page) => `/readings?_page=${page + 1}&_per_page=${PAGE}`),
  'equality filter, one hit': picked(FEWER, (id) => `/readings?timestamp=${timestampOf(id)}`),
  'timestamp_gt, sort=timestamp_desc, page of 20, any': picked(
    FEWER / 2 / PAGE,
    (page) => `/readings?timestamp:gt=${timestampOf(FEWER / 2)}&_sort=-timestamp&_page=${page + 1}&_per_page=${PAGE}`,
  ),
}
const KEPT =
  'The same query repeatedly: Recollect caches its response while nothing changes. Other rows have 2,000 different queries, which it caches as well, or 20,000, which it does not.'

/** Fields without an index, one for each round. */
const FRESH = ['humidity', 'temperature', 'pressure', 'acceleration', 'battery', 'rssi', 'movement_counter']

const server = {
  ours: 'Recollect',
  sqlite: 'Fastify + better-sqlite3',
  json: `json-server, ${FEWER.toLocaleString('en-US')} items`,
} as const

export const query: Group = {
  name: 'query',
  about: 'pages, filters and sorts of a million items; the first use of a field',
  async measure(bench) {
    const { servers, fixtures, items } = bench
    const own = async (name: string) => join(await fixtures.directory(), name)
    const bare = await startBare(bench)
    const ours = await servers.recollect({ file: await own('db.json'), journal: await fixtures.ownJournal(items) })
    const fastify = await servers.peer('fastify-sqlite', [await fixtures.lines(items), fixtures.database(items)])
    const jsonServer = await servers.peer('json-server', [await fixtures.dataFile(FEWER)])
    const contestants: Record<string, () => Promise<number>> = {
      'bare node:http': await rateOf(bench, bare.url, itemsOf(1000)),
    }
    // These servers answer one request after the other: with more connections, none would end within a load.
    const slow = { connections: 4, seconds: bench.seconds }
    for (const [work, queries] of Object.entries(QUERIES)) {
      contestants[`${server.ours}: ${work}`] = await warm(bench, ours, queries(items))
      contestants[`${server.sqlite}: ${work}`] = await rateOf(bench, fastify.url, queries(items), slow)
      const asked = JSON_SERVER[work as Work]
      if (!asked) continue
      contestants[`${server.json}: ${work}`] = once(await rateOf(bench, jsonServer.url, asked, slow))
    }
    const measured = await interleaved(bench, 'req/s', contestants)
    const rows = Object.entries(GOALS).map(([work, bound]): Row => {
      const of = (name: string) => measured[`${name}: ${work}`] as Series
      const base = measured['bare node:http'] as Series
      const named = (name: string) => (of(name) ? [{ ...of(name), name }] : [])
      return {
        work: `${work}, ${items.toLocaleString('en-US')} items`,
        ours: of(server.ours),
        better: 'more',
        goals: [times(base, bound)],
        others: [...named(server.sqlite), ...named(server.json)],
        ...(QUERIES[work as Work](items).length === 1 && { note: KEPT }),
      }
    })
    const first = await firstUses(bench, { ours, fastify })
    await Promise.all([bare, ours, fastify, jsonServer].map((one) => one.stop()))
    return [...rows, ...first]
  },
}

/** Sends the first request a few times, so that its index is built. */
async function warm(bench: Bench, { url }: Server, asked: readonly Sent[]): Promise<() => Promise<number>> {
  for (let again = 0; again < 3; again++) {
    await told(url + asked[0]?.path)
  }
  return rateOf(bench, url, asked)
}

/** Filters by a field for the first time, while others ask for items. */
async function firstUses(bench: Bench, all: Readonly<Record<'ours' | 'fastify', Server>>): Promise<readonly Row[]> {
  const rounds = { ...bench, rounds: Math.min(bench.rounds, FRESH.length) }
  const longest: Record<string, number[]> = {}
  const use = (name: string, { url }: Server) => {
    let round = 0
    return async () => {
      const asking = probe(url, itemsOf(bench.items))
      await new Promise((resolve) => setTimeout(resolve, 200))
      const began = performance.now()
      await told(`${url}/api/readings?data.${FRESH[round++]}=50&pageSize=${PAGE}`)
      const seconds = (performance.now() - began) / 1000
      // An index that is still being built may block others after the response.
      await new Promise((resolve) => setTimeout(resolve, 1000))
      const { p99Ms, longestMs } = await asking.stop()
      bench.say(`meanwhile: p99 ${p99Ms.toFixed(1)} ms, longest ${longestMs.toFixed(1)} ms`)
      longest[name] = [...(longest[name] ?? []), longestMs]
      return seconds
    }
  }
  const sqlite = server.sqlite
  const measured = await interleaved(rounds, 's', {
    Recollect: use('Recollect', all.ours),
    [sqlite]: use(sqlite, all.fastify),
  })
  const held = (name: string): Series => ({ name, unit: 'ms', values: longest[name] ?? [] })
  return [
    {
      work: `first use of a field without an index, ${bench.items.toLocaleString('en-US')} items`,
      ours: measured.Recollect as Series,
      better: 'less',
      goals: [limit('< 3 s', 3)],
      others: [],
      note: `Fastify + better-sqlite3 has no index for it and reads every row each time: ${(measured[sqlite] as Series).values.map((s) => s.toFixed(2)).join(', ')} s, during which no other request is answered.`,
    },
    {
      work: 'longest wait for an item meanwhile',
      ours: held('Recollect'),
      better: 'less',
      goals: [limit('≤ 50 ms', 50)],
      others: [held(sqlite)],
    },
  ]
}
