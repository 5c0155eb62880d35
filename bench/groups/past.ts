import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import { ask, timed, told } from '../harness/ask.ts'
import { type Bench, type Group, interleaved } from '../harness/bench.ts'
import { limit, type Row, type Series } from '../harness/figures.ts'
import { bodies, randomFrom, SEED } from '../harness/readings.ts'
import type { Server } from '../harness/servers.ts'

/** Readings of the data file that the first start imports, and of batches after it. */
const IMPORTED = 150_000
const BATCHES = 195
const BATCH = 1000
/** Items that change in a round. */
const CHANGED = 900
/** Requests of a round that are timed one after the other. */
const TIMED = 200
const HEADERS = { 'Content-Type': 'application/json' }

export const past: Group = {
  name: 'past',
  about: 'the past of imported readings: the first page, an item, and a time',
  async measure(bench) {
    const server = await started(bench)
    const texts = bodies(BATCHES * BATCH)
    await sent(server, texts)
    const next = randomFrom(SEED)
    const random = (below: number) => Math.floor(next() * below)
    const rows = [
      await firstPage(bench, server, 'of imported readings', texts, () => random(IMPORTED)),
      await firstPage(
        bench,
        server,
        'of readings that were sent in batches',
        texts,
        () => IMPORTED + random(BATCHES * BATCH),
      ),
      ...(await single(bench, server, random)),
    ]
    await server.stop()
    return rows
  },
}

async function started({ fixtures, servers }: Bench): Promise<Server> {
  const directory = await fixtures.directory()
  const file = join(directory, 'db.json')
  await cp(await fixtures.dataFile(IMPORTED), file)
  const flags = ['--DataFile.Write', 'never', '--Journal.Compress', 'off', '--Limits.PageSize', '20000']
  return servers.recollect({ file, journal: join(directory, 'journal'), flags }, { settle: false })
}

async function sent({ url }: Server, texts: readonly string[]): Promise<void> {
  for (let from = 0; from < texts.length; from += BATCH) {
    const body = `[${texts.slice(from, from + BATCH).join(',')}]`
    await told(`${url}/api/readings`, { method: 'POST', headers: HEADERS, body })
  }
}

/** The first page as of the moment before some items changed. */
async function firstPage(
  bench: Bench,
  server: Server,
  what: string,
  texts: readonly string[],
  idOf: () => number,
): Promise<Row> {
  const page = `${server.url}/api/readings?pageSize=20`
  const { first, now } = await interleaved(bench, 'ms', {
    first: async () => {
      const at = await positionOf(server)
      const ids = new Set<number>()
      while (ids.size < CHANGED) ids.add(idOf())
      for (const id of ids) {
        const body = texts[id % texts.length] as string
        await told(`${server.url}/api/readings/${id}`, { method: 'PUT', headers: HEADERS, body })
      }
      return timed(1, () => `${page}&asOf=${at}`)()
    },
    now: timed(1, () => page),
  })
  return {
    work: `the first page ${what}, asOf ${CHANGED} changed items ago`,
    ours: { ...(first as Series), name: 'Recollect' },
    better: 'less',
    goals: [limit('≤ 300 ms', 300)],
    others: [{ ...(now as Series), name: 'the same of now' }],
  }
}

async function single(bench: Bench, server: Server, random: (below: number) => number): Promise<readonly Row[]> {
  const { url } = server
  const head = await positionOf(server)
  const began = IMPORTED + BATCHES * BATCH + 1
  const changed = (await (await ask(`${url}/events?from=${began + 1}&limit=${CHANGED}`)).json()) as { id: number }[]
  const [first, last] = await Promise.all([timeOf(server, IMPORTED), timeOf(server, head)])
  const idOf = () => changed[random(changed.length)]?.id as number
  const measured = await interleaved(bench, 'ms', {
    now: timed(TIMED, () => `${url}/api/readings/${idOf()}`),
    earlier: timed(TIMED, () => `${url}/api/readings/${idOf()}?asOf=${began}`),
    time: timed(TIMED, () => {
      const time = new Date(first + random(last - first)).toISOString()
      return `${url}/api/readings/${random(IMPORTED)}?asOf=${time}`
    }),
  })
  const now = { ...(measured.now as Series), name: 'the same of now' }
  const row = (work: string, ours: Series | undefined, ms: number): Row => ({
    work,
    ours: { ...(ours as Series), name: 'Recollect' },
    better: 'less',
    goals: [limit(`≤ ${ms} ms`, ms)],
    others: [now],
  })
  return [
    row('GET of an earlier version of an imported item, one after the other', measured.earlier, 0.5),
    row(`GET of an item asOf any time, ${head.toLocaleString('en-US')} events, one after the other`, measured.time, 2),
  ]
}

async function positionOf({ url }: Server): Promise<number> {
  return Number((await told(`${url}/api`)).get('journal-position'))
}

async function timeOf({ url }: Server, position: number): Promise<number> {
  const { time } = (await (await ask(`${url}/events/${position}`)).json()) as { time: string }
  return Date.parse(time)
}
