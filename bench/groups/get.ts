import { join } from 'node:path'
import { told } from '../harness/ask.ts'
import { type Bench, type Group, interleaved, rateOf } from '../harness/bench.ts'
import { type Row, type Series, times } from '../harness/figures.ts'
import type { Sent } from '../harness/load.ts'
import { randomFrom, SEED } from '../harness/readings.ts'
import type { Server } from '../harness/servers.ts'

const FEW = 1000
/** Different items that a load asks for. */
const ASKED = 5000

/** Items of a server's, picked by chance, the same for each server. */
export function itemsOf(count: number, prefix = '/api/readings/'): readonly Sent[] {
  const next = randomFrom(SEED)
  return Array.from({ length: ASKED }, () => ({ path: `${prefix}${Math.floor(next() * count)}` }))
}

async function conditional({ url }: Server, count: number): Promise<readonly Sent[]> {
  const asked = itemsOf(count).slice(0, 1000)
  return Promise.all(
    asked.map(async ({ path }) => {
      const headers = await told(url + path)
      return { path, ifNoneMatch: headers.get('etag') ?? '' }
    }),
  )
}

/** The peers that hold a thousand items, and bare node:http, which every read is compared with. */
export async function startBare({ servers, fixtures }: Bench): Promise<Server> {
  return servers.peer('bare', [await fixtures.lines(FEW), join(await fixtures.directory(), 'log')])
}

export const get: Group = {
  name: 'get',
  about: 'an item, of a thousand and of a million; 304',
  async measure(bench) {
    const { servers, fixtures, items } = bench
    const lines = await fixtures.lines(FEW)
    const own = async (name: string) => join(await fixtures.directory(), name)
    const bare = await startBare(bench)
    const bareMany = await servers.peer('bare', [await fixtures.lines(items), await own('log')])
    const koa = await servers.peer('koa', [lines, await own('log')])
    const fastify = await servers.peer('fastify-sqlite', [lines, fixtures.database(FEW)])
    const fastifyMany = await servers.peer('fastify-sqlite', [await fixtures.lines(items), fixtures.database(items)])
    const jsonServer = await servers.peer('json-server', [await fixtures.dataFile(FEW)])
    const few = await servers.recollect({ file: await own('db.json'), journal: await fixtures.ownJournal(FEW) })
    const many = await servers.recollect({ file: await own('db.json'), journal: await fixtures.ownJournal(items) })
    const measured = await interleaved(bench, 'req/s', {
      'bare node:http': await rateOf(bench, bare.url, itemsOf(FEW)),
      'bare node:http, many': await rateOf(bench, bareMany.url, itemsOf(items)),
      'Recollect, 1,000': await rateOf(bench, few.url, itemsOf(FEW)),
      'Recollect, many': await rateOf(bench, many.url, itemsOf(items)),
      'Recollect, 304': await rateOf(bench, few.url, await conditional(few, FEW)),
      'Koa + @koa/router': await rateOf(bench, koa.url, itemsOf(FEW)),
      'Fastify + better-sqlite3': await rateOf(bench, fastify.url, itemsOf(FEW)),
      'Fastify + better-sqlite3, many': await rateOf(bench, fastifyMany.url, itemsOf(items)),
      'json-server': await rateOf(bench, jsonServer.url, itemsOf(FEW, '/readings/')),
    })
    await Promise.all([bare, bareMany, koa, fastify, fastifyMany, jsonServer, few, many].map((server) => server.stop()))
    return rowsOf((name) => measured[name] as Series, items)
  },
}

function rowsOf(series: (name: string) => Series, items: number): readonly Row[] {
  const bare = series('bare node:http')
  const few = series('Recollect, 1,000')
  const many = series('Recollect, many')
  const sqlite = series('Fastify + better-sqlite3')
  return [
    {
      work: 'GET item, 1,000 items',
      ours: few,
      better: 'more',
      goals: [times(bare, 0.75)],
      others: [bare, series('Koa + @koa/router'), sqlite, series('json-server')],
    },
    {
      work: `GET item, ${items.toLocaleString('en-US')} items`,
      ours: many,
      better: 'more',
      goals: [times({ ...few, name: 'the same at 1,000' }, 0.95)],
      others: [
        { ...series('bare node:http, many'), name: 'bare node:http that holds as many' },
        { ...series('Fastify + better-sqlite3, many'), name: 'Fastify + better-sqlite3' },
      ],
    },
    {
      work: 'conditional GET, 304',
      ours: series('Recollect, 304'),
      better: 'more',
      goals: [times({ ...few, name: "the GET's rate" }, 1)],
      others: [bare],
    },
  ]
}
