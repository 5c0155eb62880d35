// What each structure costs an item: `node --expose-gc --max-old-space-size=6000 --import tsx bench/memory.ts [items]`.
import { Collection, evolve } from '../src/collections/collection.ts'
import { Item } from '../src/collections/item.ts'
import { Keys } from '../src/collections/keys.ts'
import { Places } from '../src/collections/places.ts'
import { Document } from '../src/json/document.ts'
import { History } from '../src/projections/history.ts'
import { Views } from '../src/projections/views.ts'
import { readings } from './harness/readings.ts'

const items = Number(process.argv[2] ?? 1_000_000)
const SENSORS = 1000

/** What was made must not be collected before it was weighed. */
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
const itemAt = (id: number): Item => new Item(id, new Document(texts[id] as string), 1, id + 1)
weigh('the same, parsed, in a map by its key', () => new Map(texts.map((text, id) => [String(id), JSON.parse(text)])))
kept.pop()
weigh('item beside its text, at its place', () => {
  const places = new Places<Item>()
  each((id) => places.add(itemAt(id)))
  return places
})
weigh('key that is an integer', () => {
  const keys = new Keys()
  each((id) => keys.set(id, id))
  return keys
})
weigh('key that is text', () => {
  const keys = new Keys()
  each((id) => keys.set(`DC:25:${id}`, id))
  return keys
})
weigh('what is left of a deleted item', () => {
  const collection = new Collection('readings')
  each((id) => evolve(collection, { type: 'ItemDeleted', collection: 'readings', id, revision: 2, prior: 1 }, id))
  return collection
})
weigh(`event in the history of ${SENSORS} items`, () => {
  const history = new History(new Views())
  each((index) => {
    const revision = Math.floor(index / SENSORS) + 1
    const event = { type: 'ItemDeleted', collection: 'sensors', id: index % SENSORS, revision, prior: 0 } as const
    history.apply({ position: index + 1, time: '', actor: '', requestId: '', events: [event] })
  })
  return history
})
