import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Position } from '../../src/events/event.ts'
import { ENDLESS } from '../../src/runtime/turns.ts'
import { POSITION_BYTES, prefixEnd, putPosition, TAG, tableKey } from '../../src/store/keys.ts'
import { MergedTree } from '../../src/store/merged-tree.ts'
import { type Pin, Store } from '../../src/store/store.ts'
import { NodeCache, StoredTree } from '../../src/store/stored-tree.ts'
import type { KeyCursor, OrderedKeys, Tree } from '../../src/store/tree.ts'
import { Random, SEED } from '../support/random.ts'

const RUNS = Number(process.env.TREE_RUNS ?? 2)
const WRITES = Number(process.env.TREE_WRITES ?? 60)

function keyOf(text: string, place: number): Buffer {
  const key = Buffer.alloc(text.length + POSITION_BYTES, text, 'latin1')
  putPosition(key, text.length, place)
  return key
}

/** Below all keys. */
const FIRST = Buffer.alloc(0)
const bytesOf = (name: string): Buffer => Buffer.from(name, 'latin1')
const nameOf = (key: Buffer): string => key.toString('latin1')

function all(cursor: KeyCursor, step: 'next' | 'previous'): string[] {
  const found: string[] = []
  for (let { key } = cursor; key; { key } = cursor) {
    found.push(nameOf(key))
    cursor[step]()
  }
  return found
}

/** A tree and the keys that it must have, by position. */
class World {
  readonly store = Store.temporary()
  readonly random: Random
  tree: StoredTree
  keys = new Set<string>()
  position: Position = 1
  readonly longest: number

  constructor(seed: number) {
    this.random = new Random(seed)
    this.longest = this.random.pick([3, 30, 300, 990])
    this.tree = new StoredTree(this.store, 1, new NodeCache())
    this.#commit(() => this.tree.clear())
  }

  /** Puts and removes many keys in one transaction. */
  write(): void {
    const { random } = this
    const isGrowing = random.chance(0.6)
    this.#commit(() => {
      for (let left = random.integer(400); left > 0; ) {
        const count = 1 + random.integer(random.pick([1, 10, 100]))
        if (random.chance(isGrowing ? 0.2 : 0.8)) this.#remove(count)
        else this.#insert(count)
        left -= count
      }
    })
    // As after a start.
    if (random.chance(0.2)) this.tree = new StoredTree(this.store, 1, new NodeCache())
  }

  /** A transaction that fails leaves all as it was. */
  fail(): void {
    const before = new Set(this.keys)
    assert.throws(() =>
      this.#commit(() => {
        for (let left = 10; left > 0; left--) this.#insert(5)
        throw new Error('no')
      }),
    )
    this.tree.rollBack()
    this.keys = before
  }

  key(): Buffer {
    const { random } = this
    // Long keys are next to short ones, so that a leaf can be too large even after its split.
    const text = random.integer(500) + 'ab'.repeat(random.integer(random.pick([3, this.longest]) / 2))
    return keyOf(text, random.chance(0.8) ? this.position * 100 + random.integer(100) : random.integer(1000))
  }

  /** Some of the keys may be there. */
  #insert(count: number): void {
    const { random } = this
    const names = new Set(Array.from({ length: count }, () => nameOf(this.key())))
    const [known] = this.keys
    if (known !== undefined && random.chance(0.2)) names.add(known)
    this.tree.insert([...names].sort().map(bytesOf))
    for (const name of names) this.keys.add(name)
  }

  /** Neighbours, which are in few leaves, or keys of any leaf. */
  #remove(count: number): void {
    const { random } = this
    const sorted = [...this.keys].sort()
    const from = random.integer(sorted.length + 1)
    const names = random.chance(0.5)
      ? sorted.slice(from, from + count)
      : sorted.filter(() => random.chance(count / sorted.length))
    this.tree.remove(names.map(bytesOf))
    for (const name of names) this.keys.delete(name)
  }

  #commit(work: () => void): void {
    this.store.transaction(() => {
      work()
      this.tree.save(++this.position, true)
    })
    this.tree.commit()
  }
}

async function check(tree: OrderedKeys, keys: readonly string[], random: Random): Promise<void> {
  assert.deepEqual(all(await tree.seek(FIRST, ENDLESS), 'next'), keys)
  const last = await tree.seek(FIRST, ENDLESS, keys.length)
  assert.equal(last.key, undefined)
  last.previous()
  assert.deepEqual(all(last, 'previous'), [...keys].reverse())
  // Some keys are in the tree, and some are not.
  const anyKey = (): string => (keys[random.integer(keys.length)] ?? '') + (random.chance(0.5) ? '' : '\0')
  for (let left = 20; left > 0; left--) {
    const [from, to] = [anyKey(), anyKey()]
    const start = keys.filter((key) => key < from).length
    const end = keys.filter((key) => key < to).length
    assert.equal(await tree.count(bytesOf(from), bytesOf(to), ENDLESS), Math.max(0, end - start))
    const skipped = random.integer(keys.length + 2)
    const cursor = await tree.seek(bytesOf(from), ENDLESS, skipped)
    assert.equal(cursor.key?.toString('latin1'), keys[start + skipped])
    cursor.previous()
    assert.equal(cursor.key?.toString('latin1'), keys[Math.min(start + skipped, keys.length) - 1])
  }
}

/** As if some keys had been others before. */
async function checkMerged(world: World, tree: Tree, keys: readonly string[]): Promise<void> {
  const { random } = world
  const changed = random.pick([0.01, 0.1, 0.9])
  const without = keys.filter(() => random.chance(changed))
  const others = Array.from({ length: random.integer(random.pick([10, 500])) }, () => nameOf(world.key()))
  // An item that changed may have the same key as before.
  const same = without.filter(() => random.chance(0.5))
  const added = [...new Set([...others.filter((key) => !world.keys.has(key)), ...same])].sort()
  const merged = [...keys.filter((key) => !without.includes(key)), ...added].sort()
  await check(MergedTree.of(tree, without.map(bytesOf), added.map(bytesOf)), merged, random)
}

function placeOf(key: string): number {
  return Buffer.from(key, 'latin1').readUIntBE(key.length - POSITION_BYTES, POSITION_BYTES)
}

describe('a tree in the store', () => {
  test('finds each key by its number and each number by its key, at any position, after random writes and failures', async () => {
    for (let run = 0; run < RUNS; run++) {
      const world = new World(SEED + run)
      const { store, random } = world
      const pins: { readonly pin: Pin; readonly keys: readonly string[] }[] = []
      for (let step = 0; step < WRITES; step++) {
        world.write()
        if (random.chance(0.1)) world.fail()
        const keys = [...world.keys].sort()
        await check(world.tree.at(world.position), keys, random)
        const below = random.integer(world.position * 100)
        const earlier = keys.filter((key) => placeOf(key) < below)
        await check(world.tree.at(world.position, below), earlier, random)
        await checkMerged(world, world.tree.at(world.position, below), earlier)
        await checkMerged(world, world.tree.at(world.position), keys)
        if (random.chance(0.2)) pins.push({ pin: store.pin(world.position), keys })
        for (const { pin, keys } of pins) await check(world.tree.at(pin.position), keys, random)
        if (pins.length > 3) pins.shift()?.pin.release()
      }
    }
  })

  test('takes keys into a leaf that a long key made too large even after its split', async () => {
    const store = Store.temporary()
    const tree = new StoredTree(store, 1, new NodeCache())
    const keys = Array.from({ length: 36 }, (_, at) => keyOf(`${10 + at}`.padEnd(100, '.'), at))
    const long = keyOf('44'.padEnd(900, 'x'), 100)
    const last = keyOf('40', 101)
    store.transaction(() => {
      tree.clear()
      for (const key of [...keys, long, last]) tree.insert([key])
      tree.save(1, true)
    })
    const names = [...keys, long, last].map(nameOf).sort()
    assert.deepEqual(all(await tree.at(1).seek(FIRST, ENDLESS), 'next'), names)
  })

  test('reuses the space of removed keys', async () => {
    const store = Store.temporary()
    const tree = new StoredTree(store, 1, new NodeCache())
    const nodes = (): number => store.rows(tableKey(TAG.node, 1), prefixEnd(tableKey(TAG.node, 1))).length
    const write = (work: () => void): void => {
      store.transaction(() => {
        work()
        tree.save(1, true)
      })
      tree.commit()
    }
    const keysOf = (round: number): readonly Buffer[] =>
      Array.from({ length: 2000 }, (_, at) => keyOf(`reading${1e6 + round * 2000 + at}`, round * 2000 + at))
    write(() => tree.clear())
    const counts: number[] = []
    // As of readings of which only the newest are kept.
    for (let round = 0; round < 10; round++) {
      write(() => {
        tree.insert(keysOf(round))
      })
      if (round > 0) {
        write(() => tree.remove(keysOf(round - 1)))
      }
      counts.push(nodes())
    }
    assert.ok((counts.at(-1) as number) <= (counts[1] as number) + 2, `nodes by round: ${counts}`)
    write(() => tree.remove(keysOf(9)))
    assert.equal((await tree.at(1).seek(FIRST, ENDLESS)).key, undefined)
  })
})
