import { copyFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Bench, type Contestants, type Group, interleaved, rateOf, repeated } from '../harness/bench.ts'
import { startPostgres, startRedis } from '../harness/databases.ts'
import { type Row, type Series, times } from '../harness/figures.ts'
import type { Sent } from '../harness/load.ts'
import { bodies } from '../harness/readings.ts'
import type { Server } from '../harness/servers.ts'

const FEW = 1000
const BODIES = bodies(FEW)

export const posts = (path: string): readonly Sent[] => BODIES.map((body) => ({ method: 'POST', path, body }))
export const puts = (prefix: string): readonly Sent[] =>
  BODIES.map((body, id) => ({ method: 'PUT', path: prefix + id, body }))

const NAMES = ['Recollect', 'bare node:http', 'Koa + @koa/router', 'Fastify + better-sqlite3', 'json-server'] as const
type Name = (typeof NAMES)[number]

async function startAll({ servers, fixtures }: Bench): Promise<Readonly<Record<Name, Server>>> {
  const lines = await fixtures.lines(FEW)
  const own = async (name: string) => join(await fixtures.directory(), name)
  // It writes to its file.
  const file = await own('db.json')
  await copyFile(await fixtures.dataFile(FEW), file)
  return {
    Recollect: await servers.recollect({ file: await own('db.json'), journal: await fixtures.ownJournal(FEW) }),
    'bare node:http': await servers.peer('bare', [lines, await own('log')]),
    'Koa + @koa/router': await servers.peer('koa', [lines, await own('log')]),
    'Fastify + better-sqlite3': await servers.peer('fastify-sqlite', [lines, await own('db')]),
    'json-server': await servers.peer('json-server', [file]),
  }
}

export const writes: Group = {
  name: 'writes',
  about: 'durable POST and PUT, alone and beside readers',
  async measure(bench) {
    const all = await startAll(bench)
    const contestants: Record<string, () => Promise<number>> = {}
    for (const name of NAMES) {
      const isJsonServer = name === 'json-server'
      const path = isJsonServer ? '/readings' : '/api/readings'
      const options = isJsonServer ? { seconds: 2, connections: 8 } : {}
      const { url } = all[name]
      contestants[`POST ${name}`] = await rateOf(bench, url, posts(path), options)
      if (!isJsonServer) contestants[`PUT ${name}`] = await rateOf(bench, url, puts(`${path}/`))
    }
    const [body = ''] = BODIES
    const postgres = await startPostgres(bench, body)
    const redis = await startRedis(bench, body)
    if (postgres) contestants['POST PostgreSQL (pgbench)'] = () => postgres.rate()
    if (redis) contestants['POST Redis (always, XADD)'] = () => redis.rate()
    const measured = await interleaved(bench, 'req/s', contestants)
    await Promise.all([...Object.values(all), postgres, redis].map((server) => server?.stop()))
    return [rowOf('POST', measured), rowOf('PUT', measured), await besideReaders(bench)]
  },
}

function rowOf(method: 'POST' | 'PUT', measured: Readonly<Record<string, Series>>): Row {
  const all = Object.entries(measured).flatMap(([name, series]) =>
    name.startsWith(`${method} `) ? [{ ...series, name: name.slice(method.length + 1) }] : [],
  )
  const of = (name: Name) => all.find((series) => series.name === name) as Series
  const ours = of('Recollect')
  const isAppend = method === 'POST'
  return {
    work: `durable ${method}`,
    ours,
    better: 'more',
    goals: [times(of('bare node:http'), 0.75), times(of('Fastify + better-sqlite3'), 7)],
    others: all.filter((series) => series !== ours),
    ...(isAppend && { note: 'json-server responds before anything is on the disk, and is loaded over 8 connections.' }),
  }
}

const WRITERS = 16
const READERS = 48

/** The same writers alone, and while readers load a page of items again and again. */
async function besideReaders(bench: Bench): Promise<Row> {
  const { servers, fixtures } = bench
  const server = await servers.recollect({
    file: join(await fixtures.directory(), 'db.json'),
    journal: await fixtures.ownJournal(FEW),
  })
  const write = await repeated(bench, server.url, posts('/api/readings'), { connections: WRITERS })
  const read = await repeated(bench, server.url, [{ path: '/api/readings?page=1&pageSize=20' }], {
    connections: READERS,
    seconds: bench.seconds + 1,
  })
  await read()
  const contestants: Contestants = {
    alone: async () => (await write()).p99Ms,
    'beside readers': async () => {
      const reading = read()
      // Awaited below; until then its rejection is expected.
      reading.catch(() => {})
      const { p99Ms } = await write()
      await reading
      return p99Ms
    },
  }
  const measured = await interleaved(bench, 'ms', contestants)
  await server.stop()
  return {
    work: `durable POST, p99, while ${READERS} readers load a page of 20`,
    ours: measured['beside readers'] as Series,
    better: 'less',
    goals: [times(measured.alone as Series, 3, 'at most')],
    others: [],
    note: `${WRITERS} writers, alone and beside ${READERS} readers, each of which sends its next request with the response.`,
  }
}
