import assert from 'node:assert/strict'
import { test } from 'node:test'
import { itemsIn } from '../../src/collections/stored-items.ts'
import type { FileEngine } from '../../src/engine/file-engine.ts'
import { MANY_EVENTS } from '../../src/events/journal.ts'
import { Queries } from '../../src/query/queries.ts'
import { parseParameters, parseQuery } from '../../src/query/query.ts'
import { snapshotOf } from '../support/collections.ts'
import { DATA_FILE, openTestEngine } from '../support/engine.ts'
import { Random, SEED } from '../support/random.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

/** Enough that a write of all of them is time-sliced. */
const ITEMS = MANY_EVENTS + 100
const STOPS = Number(process.env.LARGE_WRITE_STOPS ?? 5)
const ORIGIN = { actor: 'ann', requestId: 'r' }
/** Collection and items. */
const FIRST = 1 + ITEMS

/** Each item is of a generation; half of them have text for an id. */
function itemsOf(generation: number) {
  return Array.from({ length: ITEMS }, (_, n) => ({ id: n % 2 === 0 ? n : `k${n}`, generation }))
}

function fileOf(generation: number, isReversed = false): Buffer {
  const things = itemsOf(generation)
  return Buffer.from(JSON.stringify({ things: isReversed ? things.reverse() : things }))
}

async function restore({ handler, past }: FileEngine, to: number): Promise<number> {
  const then = await past.collection('things', to)
  const collections = new Map([['things', { items: () => itemsIn(then.items) }]])
  const { position } = await handler.restore({ type: 'collections', collections }, ORIGIN, false)
  then.release()
  return position
}

/** The generation of all items; that they have one is the point. */
function generationOf(engine: FileEngine, context: string): number {
  const generations = new Set<unknown>()
  let count = 0
  for (const { value } of engine.views.find('things')?.items() ?? []) {
    generations.add(value.generation)
    count++
  }
  assert.deepEqual([count, generations.size], [ITEMS, 1], context)
  return [...generations][0] as number
}

test('a write of very many events becomes visible at once, for every kind of reader', async (t) => {
  const disk = new SimulatedDisk()
  disk.put(DATA_FILE, fileOf(0))
  const { engine, failures } = await openTestEngine(disk.files(), { segmentBytes: 64 * 2 ** 20 })
  const { views, past, history, journal, handler } = engine
  const queries = new Queries({ views, bytes: 2 ** 24 })
  const things = views.find('things')
  assert.ok(things)
  const totalOf = async (generation: number): Promise<readonly [number, number]> => {
    const query = parseQuery(parseParameters(`generation=${generation}`, 1), { parameters: 1, pageSize: 1 })
    const { total, at } = await queries.find(things, query)
    return [total, at]
  }
  disk.put(DATA_FILE, fileOf(1))
  let isDone = false
  t.after(() => {
    isDone = true
  })
  const seen = new Set<number>()
  const looking = (async () => {
    while (!isDone) {
      const { position } = views
      assert.ok(position % ITEMS === 1, `position ${position} lies within a write`)
      seen.add(position)
      assert.equal(journal.head, position)
      const generation = (position - FIRST) / ITEMS
      assert.equal(things.item('0')?.value.generation, generation % 2)
      assert.equal(things.item(`k${ITEMS - 1}`)?.value.generation, generation % 2)
      const last = await history.lastEventOf(journal, 'things', '0', position)
      assert.ok(last && last.position <= position)
      assert.equal((await past.item('things', '0', FIRST))?.value.generation, 0)
      const [total, at] = await totalOf(1)
      assert.equal(total, ((at - FIRST) / ITEMS) % 2 === 1 ? ITEMS : 0)
      for (let turn = 0; turn < 10; turn++) await new Promise((resolve) => setImmediate(resolve))
    }
  })()
  await engine.reload()
  let position = FIRST + ITEMS
  assert.equal(views.position, position)
  // Back and forth, so that each item has many events.
  for (let again = 0; again < 8; again++) {
    const to = again % 2 === 0 ? FIRST : FIRST + ITEMS
    position += ITEMS
    assert.equal(await restore(engine, to), position)
    assert.equal(generationOf(engine, `restored ${again}`), again % 2)
  }
  isDone = true
  await looking
  assert.ok(seen.size > 3, `${seen.size} positions seen`)
  disk.put(DATA_FILE, fileOf(1, true))
  assert.equal((await engine.reload()).events, 1)
  position++
  assert.equal(views.position, position)
  assert.deepEqual(
    Array.from(things.items(), ({ id }) => id),
    itemsOf(1)
      .map(({ id }) => id)
      .reverse(),
  )
  const written = handler.restore({ type: 'collections', collections: new Map([['things', undefined]]) }, ORIGIN, false)
  const created = await handler.handle({ type: 'CreateItem', collection: 'things', item: {} }, ORIGIN)
  assert.equal((await written).position, position + ITEMS + 1)
  assert.deepEqual([created.position, created.item?.id], [position + ITEMS + 3, ITEMS - 1])
  assert.equal(things.size, 1)
  const positions: number[] = []
  for await (const found of history.eventsOf(journal, 'things', '0', 1, journal.head)) positions.push(found.position)
  assert.equal(positions.length, 11)
  assert.deepEqual(failures, [])
  const served = snapshotOf(views)
  await engine.close()
  const again = await openTestEngine(disk.files())
  assert.deepEqual(snapshotOf(again.engine.views), served)
  await again.engine.close()
})

test('stopped at any moment of a large write, all of it is stored or nothing, and an edit is merged once', async () => {
  const random = new Random(SEED)
  const run = async (disk: SimulatedDisk, stop: number): Promise<number> => {
    const files = disk.files((_operation, _path, call) => (call === stop ? { type: 'stop' } : undefined))
    const finished = (async () => {
      const { engine } = await openTestEngine(files)
      disk.put(DATA_FILE, fileOf(1))
      await engine.reload()
      await restore(engine, FIRST)
      await engine.close()
    })()
    await Promise.race([finished, files.stopped])
    return files.calls()
  }
  const begun = (): SimulatedDisk => {
    const disk = new SimulatedDisk()
    disk.put(DATA_FILE, fileOf(0))
    return disk
  }
  const calls = await run(begun(), 0)
  for (let round = 0; round < STOPS; round++) {
    const stop = 1 + random.integer(calls)
    const disk = begun()
    await run(disk, stop)
    const left = random.chance(0.5) ? disk.killed() : disk.powerLost(random)
    const { engine } = await openTestEngine(left.files())
    const context = `SEED=${SEED}, round ${round}, stopped at call ${stop} of ${calls}`
    const generation = generationOf(engine, context)
    const writes = (engine.journal.head - 1) / ITEMS
    assert.equal(generation, [0, 1, 0][writes - 1], `${context}: ${engine.journal.head}`)
    await engine.close()
    assert.equal(engine.dataFile.status.state, 'current', context)
  }
})
