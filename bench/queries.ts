/**
 * `node --import tsx --expose-gc bench/queries.ts [items]`: what queries cost inside the process, without HTTP: at the first use
 * of a field, after that, and by looking at every item, as the tests' reference does.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Item } from '../src/collections/item.ts'
import { Queries } from '../src/query/queries.ts'
import { parseParameters, parseQuery } from '../src/query/query.ts'
import { scan } from '../test/query/scan.ts'
import { answerOf } from '../test/support/api.ts'
import { CollectionWriter } from '../test/support/collections.ts'
import { readings, timestampOf } from './harness/readings.ts'

const items = Number(process.argv[2] ?? 1_000_000)
const at = Math.floor(items * 0.4)
const writer = new CollectionWriter('readings')
writer.putAll(readings(items))
const { collection } = writer
const queries = new Queries({ views: writer.views, bytes: 2 ** 30 })
const mac = (collection.itemAt(7) as Item).value.mac as string
const last = Math.max(1, Math.floor(items / 20))

const SEARCHES: readonly string[] = [
  'page=1&pageSize=20',
  `page=${last}&pageSize=20`,
  'pageSize=10000',
  `timestamp=${timestampOf(at)}`,
  `timestamp_gt=${timestampOf(at)}&sort=timestamp_desc&pageSize=20`,
  `timestamp_gt=${timestampOf(at)}&sort=timestamp_desc&pageSize=20&page=${Math.floor(last * 0.5)}`,
  `timestamp_gt=${timestampOf(at)}&pageSize=20`,
  `mac=${mac}&pageSize=20`,
  `mac=${mac}&sort=timestamp_desc&pageSize=20`,
  `mac=${mac}&timestamp_gte=${timestampOf(at)}&sort=timestamp_desc&pageSize=20`,
  'sort=data.temperature_desc&pageSize=20',
  `sort=data.temperature_desc&pageSize=20&page=${last}`,
  'sort=mac,timestamp_desc&pageSize=20&page=1000',
  'data.temperature_gt=20&data.humidity_lt=40&pageSize=20',
  'data.temperature_gt=20&sort=timestamp_desc&pageSize=20&page=1000',
  'data.tx_power=4&sort=timestamp&pageSize=20&page=1000',
  'mac_startswith=F4:A5:1&pageSize=20',
  `id=${at}`,
  'mac_contains=9E:37&pageSize=20',
]

const queryOf = (search: string) => parseQuery(parseParameters(search, 100), { parameters: 100, pageSize: 10_000 })
const ms = (value: number): string => (value < 1 ? `${(value * 1000).toFixed(1)} µs` : `${value.toFixed(1)} ms`)

async function timed<Result>(work: () => Result | Promise<Result>): Promise<readonly [Result, number]> {
  const began = performance.now()
  const result = await work()
  return [result, performance.now() - began]
}

process.stdout.write(
  `${collection.size} items\n\n| query | first | longest block | again | scan |\n|---|---|---|---|---|\n`,
)
for (const search of SEARCHES) {
  const query = queryOf(search)
  const ask = () => answerOf(queries, collection, query)
  // Waits for earlier blocks to end, so that they are not counted.
  await new Promise((resolve) => setTimeout(resolve, 50))
  const delay = monitorEventLoopDelay({ resolution: 1 })
  delay.enable()
  await new Promise((resolve) => setTimeout(resolve, 5))
  delay.reset()
  const [first, firstMs] = await timed(ask)
  await new Promise((resolve) => setTimeout(resolve, 5))
  delay.disable()
  let count = 0
  let againMs = 0
  while (count < 2000 && againMs < 1000) {
    againMs += (await timed(ask))[1]
    count++
  }
  const [reference, scanMs] = await timed(() => scan(collection.items(), query))
  if (reference.text !== first.text || reference.total !== first.total) throw new Error(`${search} is answered wrongly`)
  process.stdout.write(
    `| ${search} | ${ms(firstMs)} | ${ms(delay.max / 1e6)} | ${ms(againMs / count)} | ${ms(scanMs)} |\n`,
  )
}
process.stdout.write('\n| index | entries | bytes | bytes an entry | uses |\n|---|---|---|---|---|\n')
for (const { path, entries, bytes, uses } of queries.list()) {
  process.stdout.write(`| ${path} | ${entries} | ${bytes} | ${(bytes / entries).toFixed(1)} | ${uses} |\n`)
}

const [, writeMs] = await timed(() => {
  for (let id = 0; id < 10_000; id++) {
    const item = collection.item(String((id * 7919) % items)) as Item
    const value = { ...item.value, timestamp: timestampOf(items + id), mac: `changed ${id % 50}` }
    writer.put({ ...value, id: item.id })
  }
})
process.stdout.write(`\nA write that changes two of ${queries.list().length} indexed fields: ${ms(writeMs / 10_000)}\n`)
