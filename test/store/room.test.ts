import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { FileEngine } from '../../src/engine/file-engine.ts'
import { prefixEnd, TAG } from '../../src/store/keys.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { DATA_FILE, openTestEngine } from '../support/engine.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const ITEMS = 300
const ROUNDS = Number(process.env.STORE_ROUNDS ?? 12)
const ORIGIN = { actor: 'a', requestId: 'r' }

function versionsIn({ views: { store } }: FileEngine): number {
  const from = Buffer.from([TAG.version])
  return store.rows(from, prefixEnd(from)).length
}

async function checkNothingKept(engine: FileEngine, when: string): Promise<void> {
  await until(`no version to be left ${when}`, () => {
    const pinned = [...engine.views.store.versions.pinned]
    return pinned.length === 0 && versionsIn(engine) === 0
  })
}

async function opened(t: { after(end: () => Promise<unknown>): void }) {
  const ends: (() => Promise<unknown>)[] = []
  const store = await temporaryDirectory({ after: (end) => void ends.push(end) })
  const disk = new SimulatedDisk()
  const text = 'x'.repeat(300)
  const a = Array.from({ length: ITEMS }, (_, id) => ({ id, n: 0, text }))
  disk.put(DATA_FILE, Buffer.from(JSON.stringify({ a, b: [] })))
  const { engine, failures } = await openTestEngine(disk.files(), { store })
  t.after(async () => {
    await engine.close()
    for (const end of ends) await end()
    assert.deepEqual(failures, [])
  })
  const bytes = (): number => statSync(join(store, 'store.mdb')).size
  const changeAll = async (n: number): Promise<void> => {
    const item = { n, text }
    await Promise.all(
      a.map(({ id }) => engine.handler.handle({ type: 'ReplaceItem', collection: 'a', key: `${id}`, item }, ORIGIN)),
    )
  }
  return { engine, disk, bytes, changeAll }
}

test('a reader at an earlier position releases it part by part, and leaves no version behind', async (t) => {
  const { engine, disk, changeAll } = await opened(t)
  await changeAll(1)
  await until('the data file to be written', () => engine.dataFile.status.state === 'current')
  await checkNothingKept(engine, 'by the data file')

  const file = JSON.parse(String(disk.bytes(DATA_FILE))) as { a: { n: number }[] }
  for (const item of file.a) item.n = -1
  disk.put(DATA_FILE, Buffer.from(JSON.stringify(file)))
  assert.ok((await engine.reload()).events > 0)
  await checkNothingKept(engine, 'by an edit')

  file.a.reverse()
  disk.put(DATA_FILE, Buffer.from(JSON.stringify(file)))
  assert.ok((await engine.reload()).events > 0)
  await until('the data file to be written', () => engine.dataFile.status.state === 'current')
  await checkNothingKept(engine, 'by an edit that moves all')

  disk.put(DATA_FILE, Buffer.from('{"a": [{"id": 1'))
  await assert.rejects(engine.reload())
  await checkNothingKept(engine, 'by an edit that is no JSON')
  disk.put(DATA_FILE, Buffer.from(JSON.stringify(file)))
  await engine.reload()
  await checkNothingKept(engine, 'by an edit that changes nothing')
})

test('for one reader at an earlier position the store keeps one version of each item, however often it changes', async (t) => {
  const { engine, bytes, changeAll } = await opened(t)
  await changeAll(1)
  const reader = engine.views.snapshot()
  const seen = Array.from(reader.get('a')?.items() ?? [], ({ text }) => text)
  const sizes: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    await changeAll(2 + round)
    sizes.push(bytes())
  }
  assert.deepEqual(
    Array.from(reader.get('a')?.items() ?? [], ({ text }) => text),
    seen,
  )
  // The data file that is being written is a reader, too, for a while.
  await until('one version of each to be left', () => versionsIn(engine) === ITEMS)
  const [half, end] = [sizes[ROUNDS / 2 - 1] as number, sizes.at(-1) as number]
  // The position of each event is kept, which takes a small part of what a version of its item would take.
  const grown = (end - half) / ((ROUNDS / 2) * ITEMS)
  assert.ok(grown < 200, `${grown} bytes for each change`)
  reader.close()
  await checkNothingKept(engine, 'by the reader')
})
