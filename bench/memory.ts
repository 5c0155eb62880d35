// Measures the memory per item of each structure: `node --expose-gc --max-old-space-size=6000 --import tsx bench/memory.ts [items]`.
import { IdIndex } from '../src/commands/merged-order.ts'
import { CollectionWriter } from '../test/support/collections.ts'
import { readings } from './harness/readings.ts'

const items = Number(process.argv[2] ?? 1_000_000)

/** Values that must not be collected before they are measured. */
const kept: unknown[] = []

function heapBytes(): number {
  if (!globalThis.gc) throw new Error('needs node --expose-gc')
  globalThis.gc()
  globalThis.gc()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

function weigh<Made>(what: string, make: () => Made): Made {
  const before = heapBytes()
  const made = make()
  kept.push(made)
  const each = (heapBytes() - before) / items
  process.stdout.write(`${what.padEnd(58)} ${each.toFixed(1).padStart(7)} bytes\n`)
  return made
}

function each(work: (index: number) => void): void {
  for (let index = 0; index < items; index++) work(index)
}

process.stdout.write(`${items} readings of about 330 bytes; of each:\n`)
/** As they are read from a record: what JSON.stringify returns may be in parts, which cost more. */
const texts = weigh('text', () =>
  Array.from(readings(items), (reading) => Buffer.from(JSON.stringify(reading)).toString()),
)
weigh('the same, parsed, in a map by its key', () => new Map(texts.map((text, id) => [String(id), JSON.parse(text)])))
kept.pop()
weigh('key that is an integer', () => {
  const keys = new IdIndex()
  each((id) => keys.set(id, id))
  return keys
})
weigh('key that is text', () => {
  const keys = new IdIndex()
  each((id) => keys.set(`DC:25:${id}`, id))
  return keys
})
weigh('item in the store, beside the mapped file', () => {
  const writer = new CollectionWriter('readings')
  writer.putAll(readings(items))
  return writer.collection
})
