import assert from 'node:assert/strict'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { compareStore } from '../../src/cli/store.ts'
import type { Collection } from '../../src/collections/collection.ts'
import { storedCollections } from '../../src/collections/collection-writer.ts'
import type { Item } from '../../src/collections/item.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import type { JsonObject } from '../../src/json/value.ts'
import {
  blockKey,
  expiredIdsKey,
  expiryKey,
  leastTimeKey,
  POSITION_BYTES,
  prefixEnd,
  type Row,
  TAG,
  type Tag,
  tableKey,
  tombstonesKey,
} from '../../src/store/keys.ts'
import type { Store } from '../../src/store/store.ts'
import { StoreDirectory } from '../../src/store/store-directory.ts'
import { newRun, work } from '../faults/workload.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { openTestEngine } from '../support/engine.ts'
import { makeFormat5, makeFormat6, makeFormat7 } from '../support/format-5.ts'
import { Random, SEED } from '../support/random.ts'

type Kind = Tag | 'tombstones' | 'expiries' | 'blocks' | 'expired ids' | 'counts'

/** Each kind of row, and what is told when one is another one. */
const KINDS: readonly (readonly [Kind, RegExp])[] = [
  [TAG.state, /./],
  [TAG.collection, /collection| of "|damaged/],
  [TAG.item, /^The store has an item of /],
  ['tombstones', /^The store has an item of |damaged/],
  [TAG.place, /^The store has the place of an item of /],
  ['blocks', /^The store has an item of |damaged/],
  ['expiries', /^The store has an expiry of items of /],
  [
    'expired ids',
    /^The store has an item of "[^"]*" that has expired|^The store has an earlier event of an item of |damaged/,
  ],
  [TAG.gaps, /^The store has a count of empty places of /],
  [TAG.itemEvent, /^The store has an earlier event of an item of /],
  [TAG.life, /^The store has a creation or removal of /],
  [TAG.request, /^The store has an answered Idempotency-Key /],
  [TAG.requestTime, /^The store has the time of an answered Idempotency-Key /],
  [TAG.mergedEdit, /^The store has the edit of the data file /],
  [TAG.changed, /^The store has the place of an item that changed /],
  [TAG.time, /^The store has the time of an event /],
  ['counts', /^The store has a number of events /],
  [TAG.naturalKey, /^The store has a natural key of /],
  [TAG.node, /^The store has an entry of the index |damaged/],
]

/** A journal in which everything has happened that leaves a row, and its store. */
async function lived(t: TestContext, seed: number): Promise<string> {
  const directory = await temporaryDirectory(t)
  const journal = join(directory, 'db.journal')
  const file = join(directory, 'db.json')
  writeFileSync(file, JSON.stringify({ a: [{ id: 0, n: 0 }], b: [], gone: [{ id: 'x' }] }))
  const { engine, failures } = await openTestEngine(nodeFiles, { file, journal, store: `${journal}/store` })
  const random = new Random(seed)
  await work(engine, random, 80, 3, newRun())
  for (let n = 0; n < 20; n++) {
    const origin = { actor: 'a', requestId: 'r', ...(n % 5 === 0 && { key: `key ${n}`, request: `request ${n}` }) }
    await engine.handler.handle({ type: 'ReplaceItem', collection: 'a', key: 'often', item: { n } }, origin)
  }
  await engine.handler.handle({ type: 'DeleteItem', collection: 'a', key: 'often' }, { actor: 'a', requestId: 'r' })
  await engine.close()
  assert.deepEqual(failures, [])

  const edited = JSON.parse(readFileSync(file, 'utf8')) as Record<string, JsonObject[]>
  edited.a?.reverse()
  delete edited.gone
  writeFileSync(file, JSON.stringify(edited))
  const keep = { text: '1d', ms: 24 * 60 * 60 * 1000 }
  const keyed = { indexes: [], key: [['n']] }
  const collections = { keyed, indexed: { ...keyed, indexes: [[['n']]] }, expiring: { indexes: [], keep } }
  const again = await openTestEngine(nodeFiles, { file, journal, store: `${journal}/store`, collections })
  for (let n = 0; n < 5; n++) {
    const origin = { actor: 'a', requestId: 'r' }
    await again.engine.handler.handle({ type: 'CreateItem', collection: 'keyed', item: { n: n % 4 } }, origin)
    // The index does not order the second half of them: they have rows.
    const item = { n: n % 4 < 2 ? n % 4 : [n % 4, 'other'] }
    await again.engine.handler.handle({ type: 'CreateItem', collection: 'indexed', item }, origin)
  }
  const items = Array.from({ length: 70 }, (_, n) => ({ item: { n, text: 'x'.repeat(n) } }))
  const origin = { actor: 'a', requestId: 'r' }
  await again.engine.handler.bulk({ type: 'CreateItems', collection: 'packed', items, isLenient: false }, origin)
  for (const key of ['k1', 'k2', 'k3']) {
    const origin = { actor: 'a', requestId: 'r' }
    await again.engine.handler.handle({ type: 'ReplaceItem', collection: 'a', key, item: {} }, origin)
  }
  await again.engine.handler.handle({ type: 'DeleteItem', collection: 'a', key: 'k2' }, { actor: 'a', requestId: 'r' })
  for (const key of ['0', '1', 'text', '2', '3', '4']) {
    const origin = { actor: 'a', requestId: 'r' }
    await again.engine.handler.handle({ type: 'ReplaceItem', collection: 'expiring', key, item: {} }, origin)
  }
  for (const ids of [['0', '1', 'text'], ['2']]) {
    const expiring = again.engine.views.any('expiring') as Collection
    const items = ids.map((id) => ({
      place: expiring.placeOf(id) as number,
      position: (expiring.item(id) as Item).position,
    }))
    const expiration = { collection: 'expiring', rule: '1d', items }
    const { count } = await again.engine.handler.expire(expiration, { actor: 'a', requestId: 'r' })
    assert.equal(count, ids.length)
  }
  const { views } = again.engine
  for (const paths of [[['n'], ['id']], [['id']]]) {
    await views.indexes.build(views.any('a')?.facts.table as number, 'a', paths)
  }
  for (let n = 0; n < 10; n++) {
    const origin = { actor: 'a', requestId: 'r' }
    await again.engine.handler.handle({ type: 'ReplaceItem', collection: 'a', key: 'k1', item: { n } }, origin)
  }
  await again.engine.close()
  return directory
}

/** Without those that are left of tables that a collection has no more. */
function rowsOf(store: Store, kind: Kind): readonly Row[] {
  const tags = {
    tombstones: TAG.place,
    expiries: TAG.place,
    blocks: TAG.place,
    counts: TAG.time,
    'expired ids': TAG.itemEvent,
  }
  const tag = typeof kind === 'string' ? tags[kind] : kind
  const tables = Array.from(storedCollections(store).values(), ({ table }) => table)
  const numbers = [TAG.item, TAG.place, TAG.gaps, TAG.changed].some((one) => one === tag) ? tables : undefined
  // Without the description of the natural keys: a store that lacks it builds them anew.
  const first = tag === TAG.naturalKey ? tableKey(tag, 1) : Buffer.from([tag])
  const rows = store.rows(first, prefixEnd(Buffer.from([tag])))
  const kindOf = ({ key, value }: Row): Kind | undefined => {
    const table = key.readUInt32BE(1)
    if (tag === TAG.time) return table > 0 ? 'counts' : tag
    if (tag === TAG.itemEvent)
      return value.length > POSITION_BYTES || key.compare(expiredIdsKey(table, 0)) >= 0 ? 'expired ids' : tag
    // When a rule was seen first is known to this store alone, and a least time may be too early.
    if (tag === TAG.state) return table === 3 ? undefined : tag
    if (tag !== TAG.place || key.compare(tombstonesKey(table, 0)) < 0) return tag
    if (key.compare(leastTimeKey(table, 0)) < 0) return 'tombstones'
    if (key.compare(expiryKey(table, 0)) < 0) return undefined
    return key.compare(blockKey(table, 0)) < 0 ? 'expiries' : 'blocks'
  }
  return rows.filter((row) => (numbers?.includes(row.key.readUInt32BE(1)) ?? true) && kindOf(row) === kind)
}

/** Compares a copy, after a change of its store. */
async function compared(t: TestContext, lived: string, change: (store: Store) => void): Promise<readonly string[]> {
  const directory = await temporaryDirectory(t)
  cpSync(lived, directory, { recursive: true, preserveTimestamps: true })
  const journal = join(directory, 'db.journal')
  const opening = new StoreDirectory(`${journal}/store`)
  const store = opening.open()
  assert.equal(opening.whyNot, undefined)
  store.transaction(() => change(store))
  await opening.close(store)
  return compareStore(nodeFiles, journal, () => {})
}

test('verify --store finds missing, changed and extra rows of any kind', async (t) => {
  const random = new Random(SEED)
  const directory = await lived(t, SEED)
  assert.deepEqual(await compared(t, directory, () => {}), [], `SEED=${SEED}`)
  assert.deepEqual(await compared(t, directory, makeFormat5), [], `SEED=${SEED}: rows of format 5`)
  assert.deepEqual(await compared(t, directory, makeFormat6), [], `SEED=${SEED}: rows of format 6`)
  assert.deepEqual(await compared(t, directory, makeFormat7), [], `SEED=${SEED}: rows of format 7`)

  for (const [tag, expected] of KINDS) {
    const damages: Readonly<Record<string, (store: Store) => void>> = {
      missing: (store) => store.remove(random.pick(rowsOf(store, tag)).key),
      changed: (store) => {
        const { key, value } = random.pick(rowsOf(store, tag))
        const digit = value.findIndex((byte) => byte >= 0x30 && byte <= 0x39)
        const at = digit >= 0 ? digit : value.length - 1
        if (at >= 0) value[at] = (value[at] as number) ^ 1
        store.set(key, at >= 0 ? value : Buffer.from('x'))
      },
      'one too many': (store) => {
        const { key, value } = random.pick(rowsOf(store, tag))
        const other = Buffer.from(key)
        // No other row is so far away.
        other[other.length - 2] = (other.at(-2) as number) ^ 0x80
        store.set(other, value)
      },
    }
    for (const [how, damage] of Object.entries(damages)) {
      const isOfOne = tag === TAG.state || tag === TAG.mergedEdit
      if (how === 'one too many' && isOfOne) continue
      // One that no other leads to is read by nobody, and not all of its bytes say something of an item.
      if (how !== 'missing' && tag === TAG.node) continue
      const problems = await compared(t, directory, damage)
      // A store of an earlier version lacks them.
      if (how === 'missing' && tag === TAG.time) {
        assert.deepEqual(problems, [])
        continue
      }
      const context = `SEED=${SEED}: row of kind ${tag}, ${how}: ${problems.join(' ')}`
      assert.ok(problems.length > 0, context)
      assert.match(problems.join('\n'), new RegExp(expected.source, 'm'), context)
    }
  }
})
