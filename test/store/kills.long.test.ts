import assert from 'node:assert/strict'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { storedCollections } from '../../src/collections/collection-writer.ts'
import { blockKey, prefixEnd, TAG, tableKey } from '../../src/store/keys.ts'
import type { Store } from '../../src/store/store.ts'
import { StoreDirectory } from '../../src/store/store-directory.ts'
import { fetch, until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { makeFormat7 } from '../support/format-5.ts'
import { Random, SEED } from '../support/random.ts'
import { json, type RunningProgram, runToEnd, spawnServer, startProgram } from '../support/server.ts'
import { checkServed, type Items } from './service.ts'

const KILLS = Number(process.env.STORE_KILLS ?? 3)
const ITEMS = Number(process.env.STORE_KILL_ITEMS ?? 5000)
const FLAGS = ['--Api.UpsertOnPut', 'true', '--Journal.SegmentBytes', '2000000']

interface Edited {
  readonly [collection: string]: { readonly id: string | number; n?: number }[]
}

function first(): Edited {
  return { a: Array.from({ length: ITEMS }, (_, id) => ({ id, n: 0, text: 'x'.repeat(id % 200) })), small: [] }
}

/** The steps of a person who edits a data file. */
function edit(items: Edited, random: Random): void {
  const a = items.a ?? []
  const n = random.integer(1e9)
  switch (random.integer(4)) {
    case 0:
      a.reverse()
      break
    case 1:
      for (const item of a) item.n = n
      break
    case 2:
      a.splice(random.integer(100), random.integer(a.length / 2))
      for (let id = 0; id < ITEMS / 4; id++) a.push({ id: `new ${n} ${id}`, n })
      break
    default:
      a.sort((one, other) => String(one.id).localeCompare(String(other.id)))
      for (const [index, item] of a.entries()) if (index % 3 === 0) item.n = n
  }
}

/** Writes one after the other until nobody answers, and notes what was acknowledged. */
async function write(url: string, acknowledged: Map<string, number>, random: Random): Promise<void> {
  for (;;) {
    const key = `k${random.integer(20)}`
    const n = random.integer(1e9)
    const answer = await fetch(`${url}/api/small/${key}`, json('PUT', { n })).catch(() => undefined)
    if (!answer) return
    await answer.arrayBuffer().catch(() => {})
    if (answer.ok) acknowledged.set(key, n)
  }
}

/** The store is what the journal amounts to, row by row, as the killed process left it, unless it is to be built again. */
async function verify(t: TestContext, directory: string, context: string): Promise<void> {
  const flags = ['verify', '--file', join(directory, 'db.json'), '--store']
  const { code, stdout, stderr } = await runToEnd(t, directory, flags)
  if (!/2 processes ended soon after/.test(stderr)) assert.equal(code, 0, `${context}: ${stdout}${stderr}`)
}

test('killed while a large edit is stored, it serves all of the edit or nothing, and no acknowledged write is lost', async (t) => {
  const random = new Random(SEED)
  const directory = await temporaryDirectory(t)
  const states = new Set<string>()
  let server = await startProgram(t, { directory, flags: FLAGS, data: first() })
  await built(server)
  let whole = 0
  for (let kill = 0; kill < KILLS; kill++) {
    const context = `SEED=${SEED}, kill ${kill}`
    const before = await checkServed(server.url, context)
    const acknowledged = new Map<string, number>()
    const edited = await editedFile(server, random)
    const writing = write(server.url, acknowledged, random)
    const reload = server.fetch('/admin/reload', { method: 'POST' }).catch(() => undefined)
    if (random.chance(0.7)) await untilStoreMoves(server, random.integer(ITEMS))
    else await sleep(random.integer(ITEMS / 10))
    await server.stop('SIGKILL')
    await Promise.all([writing, reload])
    if (random.chance(0.7)) await verify(t, directory, context)

    server = await startProgram(t, { directory, flags: FLAGS })
    await built(server)
    const after = await checkServed(server.url, context)
    const wanted = itemsOf(edited.a ?? [])
    const isWhole = JSON.stringify([...(after.get('a') ?? [])]) === JSON.stringify([...wanted])
    const isNothing = JSON.stringify([...(after.get('a') ?? [])]) === JSON.stringify([...(before.get('a') ?? [])])
    assert.ok(isWhole || isNothing, `${context}: a part of the edit`)
    if (isWhole) whole++
    for (const [key, n] of acknowledged) {
      // The last write may have been stored without an answer.
      const item = JSON.parse(after.get('small')?.get(key) ?? '{}') as { n?: number }
      if (key !== [...acknowledged.keys()].at(-1)) assert.ok(item.n !== undefined, `${context}: ${key} = ${n} is lost`)
    }
    states.add(/built again: [^"]*/.exec(server.stderr())?.[0] ?? 'used')
  }
  assert.equal(await server.stop(), 0, server.stderr())
  await verify(t, directory, `SEED=${SEED}`)
  t.diagnostic(`${KILLS} kills, ${whole} edits taken in; the store: ${[...states].join(', ')}`)
})

test('killed while the store is built, it continues the build from there, with the right result', async (t) => {
  const random = new Random(SEED)
  const directory = await temporaryDirectory(t)
  let server = await startProgram(t, { directory, flags: FLAGS, data: first() })
  await built(server)
  for (let time = 0; time < 3; time++) {
    await editedFile(server, random)
    assert.equal((await server.fetch('/admin/reload', { method: 'POST' })).status, 200)
  }
  const expected = await checkServed(server.url, 'before')
  assert.equal(await server.stop(), 0, server.stderr())
  for (let kill = 0; kill < KILLS; kill++) {
    const context = `SEED=${SEED}, kill ${kill}`
    await rm(join(directory, 'db.json.journal/store'), { recursive: true, force: true })
    await rm(join(directory, 'db.journal/store'), { recursive: true, force: true })
    for (let times = 1 + random.integer(3); times > 0; times--) {
      const begun = spawnServer(t, directory, { flags: FLAGS })
      await Promise.race([sleep(200 + random.integer(ITEMS / 5)), begun.ended()])
      begun.process.kill('SIGKILL')
      assert.equal((await begun.ended()).signal, 'SIGKILL', begun.stderr())
    }
    server = await startProgram(t, { directory, flags: FLAGS })
    await built(server)
    const after = await checkServed(server.url, context)
    assert.equal(jsonOf(after), jsonOf(expected), context)
    assert.equal(await server.stop(), 0, server.stderr())
    await verify(t, directory, context)
  }
})

test('killed while items are packed into blocks, it serves the same items, from a right store', async (t) => {
  const random = new Random(SEED)
  const directory = await temporaryDirectory(t)
  let server = await startProgram(t, { directory, flags: FLAGS, data: first() })
  await built(server)
  const expected = await checkServed(server.url, 'before')
  assert.equal(await server.stop(), 0, server.stderr())
  const counts: number[] = []
  for (let kill = 0; kill < 3 * KILLS; kill++) {
    const context = `SEED=${SEED}, kill ${kill}`
    await changeStore(directory, (store) => store.transaction(() => makeFormat7(store)))
    server = await startProgram(t, { directory, flags: FLAGS })
    await sleep(random.integer(ITEMS / 25))
    await server.stop('SIGKILL')
    await verify(t, directory, context)
    await changeStore(directory, (store) => void counts.push(blocksIn(store)))
    server = await startProgram(t, { directory, flags: FLAGS })
    await built(server)
    assert.equal(jsonOf(await checkServed(server.url, context)), jsonOf(expected), context)
    assert.equal(await server.stop(), 0, server.stderr())
  }
  t.diagnostic(`blocks after the kills: ${counts.join(', ')}`)
})

/** Changes the store that a server has left. */
async function changeStore(directory: string, change: (store: Store) => void): Promise<void> {
  const opening = new StoreDirectory(join(directory, 'db.journal/store'))
  const store = opening.open()
  assert.equal(opening.whyNot, undefined)
  change(store)
  await opening.close(store)
}

function blocksIn(store: Store): number {
  let count = 0
  for (const { table } of storedCollections(store).values())
    count += store.rows(blockKey(table, 0), prefixEnd(tableKey(TAG.place, table))).length
  return count
}

async function built(server: RunningProgram): Promise<void> {
  await until('the store to be built', async () => (await server.fetch('/api/a?skip=0&take=1')).status === 200)
}

/** Resolves when some of a large write, at least so many events or all, is in the store. */
async function untilStoreMoves(server: RunningProgram, events: number): Promise<void> {
  const position = async (): Promise<number> =>
    ((await (await server.fetch('/health')).json()) as { store: { position: number } }).store.position
  const before = await position()
  const deadline = Date.now() + 2000
  while ((await position()) < before + events && Date.now() < deadline);
}

/** Edits the data file after it was written; resolves with what it holds then. */
async function editedFile(server: RunningProgram, random: Random): Promise<Edited> {
  await until('the data file to be written', async () => {
    return (await server.fetch('/admin/snapshot', { method: 'POST' })).ok
  })
  const items = JSON.parse(await readFile(server.file, 'utf8')) as Edited
  edit(items, random)
  await writeFile(server.file, JSON.stringify(items))
  return items
}

function itemsOf(items: readonly { readonly id: string | number }[]): Items {
  return new Map(items.map((item) => [String(item.id), JSON.stringify(item)]))
}

function jsonOf(collections: ReadonlyMap<string, Items>): string {
  return JSON.stringify(Array.from(collections, ([name, items]) => [name, [...items]]))
}
