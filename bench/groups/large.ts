import { readFile, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { told } from '../harness/ask.ts'
import type { Bench, Group } from '../harness/bench.ts'
import { boundedRow, type Row, times } from '../harness/figures.ts'
import { bodies, COLLECTION, timestampOf } from '../harness/readings.ts'
import { type Server, settled } from '../harness/servers.ts'
import { itemsOf } from './get.ts'
import { parsedBytes } from './starts.ts'

const MIB = 2 ** 20
const BLOCK_MS = 30
const HEADERS = { 'Content-Type': 'application/json' }
const [BODY = ''] = bodies(1)

/** One server with a million readings, measured from inside its process. */
export const large: Group = {
  name: 'large',
  about: 'memory of a million readings, and the longest block of the event loop',
  async measure(bench) {
    const { fixtures, servers, items } = bench
    const file = join(await fixtures.directory(), 'db.json')
    const server = await servers.recollect(
      { file, journal: await fixtures.ownJournal(items) },
      { isWatched: true, settle: false },
    )
    await server.blockedMs()
    await settled(server)
    const first = await server.blockedMs()
    const memory = await memoryOf(bench, server)
    const blocks = [...(await blocksOf(bench, server)), ...(await blocksOfEdits(bench, server, file))]
    await server.stop()
    return [memory, blockRow('data file and store are written after the start', [first]), ...blocks]
  },
}

/** After requests of every kind: items, indexes, items with a history. */
async function memoryOf(bench: Bench, server: Server): Promise<Row> {
  const { items } = bench
  const after = timestampOf(items >> 1)
  await read(
    server,
    itemsOf(items)
      .slice(0, 2000)
      .map(({ path }) => path),
  )
  const paths = [
    '/api/readings?data.measurement_sequence_number=7',
    `/api/readings?timestamp_gt=${after}&sort=timestamp_desc&pageSize=20&page=9`,
    '/api/readings?page=50&pageSize=20',
  ]
  for (let again = 0; again < 3; again++) await read(server, paths)
  for (let id = 0; id < Math.min(1000, items); id++) await put(server, id)
  await settled(server)
  const { heapBytes, externalBytes, residentBytes } = await server.memory()
  const name = 'the parsed objects in a Map'
  const parsed = { name, unit: 'MiB', values: [(await parsedBytes(bench)) / MIB] }
  const shown = (bytes: number) => `${Math.round(bytes / MIB)} MiB`
  bench.say(`memory: heap ${shown(heapBytes)}, beside it ${shown(externalBytes)}, resident ${shown(residentBytes)}`)
  return {
    work: `memory of ${items.toLocaleString('en-US')} readings`,
    ours: { name: 'Recollect', unit: 'MiB', values: [(heapBytes + externalBytes) / MIB] },
    better: 'less',
    goals: [times(parsed, 2, 'at most')],
    others: [parsed],
    note: `Heap ${shown(heapBytes)} and buffers ${shown(externalBytes)} after a collection, with two indexes in use and a thousand items written again; its resident memory is ${shown(residentBytes)}.`,
  }
}

/** Works that take long, one after the other. */
async function blocksOf(bench: Bench, server: Server): Promise<readonly Row[]> {
  const fields = ['humidity', 'temperature', 'pressure', 'acceleration', 'battery', 'rssi', 'movement_counter']
  let round = 0
  const position = async () => Number((await told(`${server.url}/api`)).get('journal-position'))
  const works: Readonly<Record<string, () => Promise<void>>> = {
    'nothing to do': () => sleep(1000),
    'the data file is written': async () => {
      await put(server, 1)
      await settled(server)
    },
    'an index is built': async () => {
      const field = fields[round++ % fields.length]
      await read(server, [`/api/readings?data.${field}=50&pageSize=20`])
      await sleep(1000)
    },
    'a past state of a collection is read': async () => {
      const at = (await position()) - 1 - round
      await read(server, [`/api/readings?asOf=${at}&page=2&pageSize=20`])
    },
    'a page of 10,000 is read': () => read(server, ['/api/readings?page=3&pageSize=10000']),
    'all items are searched for a text': () => read(server, ['/api/readings?q=no-such-text&pageSize=20']),
  }
  const blocked: Record<string, number[]> = {}
  for (let again = 1; again <= bench.rounds; again++) {
    for (const [work, act] of Object.entries(works)) {
      await sleep(100)
      await server.blockedMs()
      await act()
      const ms = await server.blockedMs()
      bench.say(`round ${again} of ${bench.rounds}: ${work}: blocked ${ms.toFixed(1)} ms`)
      blocked[work] = [...(blocked[work] ?? []), ms]
    }
  }
  return Object.entries(blocked).map(([work, values]) => blockRow(work, values))
}

/** The large changes: measured once, as the data file is written for long after each. */
async function blocksOfEdits(bench: Bench, server: Server, file: string): Promise<readonly Row[]> {
  const { url } = server
  const before = Number((await told(`${url}/api`)).get('journal-position'))
  const restore = (dryRun: boolean): Promise<unknown> => {
    const body = JSON.stringify({ to: before, collection: COLLECTION, dryRun })
    return told(`${url}/admin/restore`, { method: 'POST', headers: HEADERS, body })
  }
  const reload = (): Promise<unknown> => told(`${url}/admin/reload`, { method: 'POST' })
  await settled(server)
  const works: Readonly<Record<string, readonly [first: () => Promise<void>, act: () => Promise<unknown>]>> = {
    'an edit of one item in the data file is merged': [() => edit(file, 1), reload],
    'an edit of every item in the data file is merged': [() => edit(file, bench.items), reload],
    'a dry run of restoring every item of a collection runs': [async () => {}, () => restore(true)],
    'every item of a collection is restored': [async () => {}, () => restore(false)],
  }
  const rows: Row[] = []
  for (const [work, [first, act]] of Object.entries(works)) {
    await first()
    await server.blockedMs()
    const began = performance.now()
    await act()
    const seconds = ((performance.now() - began) / 1000).toFixed(1)
    await sleep(1000)
    const ms = await server.blockedMs()
    bench.say(`${work}: in ${seconds} s, blocked ${ms.toFixed(1)} ms`)
    rows.push(blockRow(work, [ms]))
  }
  return rows
}

/** Changes the first items of a data file as an editor does, which puts another file in its place. */
async function edit(file: string, count: number): Promise<void> {
  const bytes = await readFile(file)
  let left = count
  for (let at = bytes.indexOf(MAC); at >= 0 && left > 0; at = bytes.indexOf(MAC, at + 1)) {
    bytes[at + MAC.length] = (bytes[at + MAC.length] as number) ^ 1
    left--
  }
  if (left > 0) throw new Error(`The data file lacks ${left} of the ${count} items that were to be edited.`)
  await writeFile(`${file}.edited`, bytes)
  await rename(`${file}.edited`, file)
}

const MAC = '"mac":"'

function blockRow(work: string, values: readonly number[]): Row {
  return boundedRow(`longest block of the event loop while ${work}`, { unit: 'ms', values }, BLOCK_MS)
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

async function read({ url }: Server, paths: readonly string[]): Promise<void> {
  for (const path of paths) await told(url + path)
}

async function put({ url }: Server, id: number): Promise<void> {
  await told(`${url}/api/readings/${id}`, { method: 'PUT', headers: HEADERS, body: BODY })
}
