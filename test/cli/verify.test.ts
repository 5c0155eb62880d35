import assert from 'node:assert/strict'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { compareStore } from '../../src/cli/store.ts'
import { storedCollections } from '../../src/collections/collection-writer.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import type { JsonObject } from '../../src/json/value.ts'
import { prefixEnd, type Row, TAG, type Tag, tableKey, tombstonesKey } from '../../src/store/keys.ts'
import type { Store } from '../../src/store/store.ts'
import { StoreDirectory } from '../../src/store/store-directory.ts'
import { newRun, work } from '../faults/workload.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { openTestEngine } from '../support/engine.ts'
import { makeFormat5, makeFormat6 } from '../support/format-5.ts'
import { Random, SEED } from '../support/random.ts'

type Kind = Tag | 'tombstones' | 'counts'

/** Each kind of row, and what is told when one is another one. */
const KINDS: readonly (readonly [Kind, RegExp])[] = [
  [TAG.state, /./],
  [TAG.collection, /collection| of "|damaged/],
  [TAG.item, /^The store has an item of /],
  ['tombstones', /^The store has an item of |damaged/],
  [TAG.place, /^The store has the place of an item of /],
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
  const collections = { keyed: { indexes: [], key: [['n']] } }
  const again = await openTestEngine(nodeFiles, { file, journal, store: `${journal}/store`, collections })
  for (let n = 0; n < 5; n++) {
    const origin = { actor: 'a', requestId: 'r' }
    await again.engine.handler.handle({ type: 'CreateItem', collection: 'keyed', item: { n: n % 4 } }, origin)
  }
  for (const key of ['k1', 'k2', 'k3']) {
    const origin = { actor: 'a', requestId: 'r' }
    await again.engine.handler.handle({ type: 'ReplaceItem', collection: 'a', key, item: {} }, origin)
  }
  await again.engine.handler.handle({ type: 'DeleteItem', collection: 'a', key: 'k2' }, { actor: 'a', requestId: 'r' })
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
  const tag = kind === 'tombstones' ? TAG.place : kind === 'counts' ? TAG.time : kind
  const tables = Array.from(storedCollections(store).values(), ({ table }) => table)
  const numbers = [TAG.item, TAG.place, TAG.gaps, TAG.changed].some((one) => one === tag) ? tables : undefined
  // Without the description of the natural keys: a store that lacks it builds them anew.
  const first = tag === TAG.naturalKey ? tableKey(tag, 1) : Buffer.from([tag])
  const rows = store.rows(first, prefixEnd(Buffer.from([tag])))
  const isTombstones = (key: Buffer): boolean => key.compare(tombstonesKey(key.readUInt32BE(1), 0)) >= 0
  return rows.filter(
    ({ key }) =>
      (numbers?.includes(key.readUInt32BE(1)) ?? true) &&
      (tag !== TAG.place || isTombstones(key) === (kind === 'tombstones')) &&
      (tag !== TAG.time || key.readUInt32BE(1) > 0 === (kind === 'counts')),
  )
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
        other[other.length - 1] = (other.at(-1) as number) ^ 0x80
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
