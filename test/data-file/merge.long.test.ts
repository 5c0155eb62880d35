import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { FileEngine } from '../../src/engine/file-engine.ts'
import { isItemEvent } from '../../src/events/event.ts'
import type { JsonObject } from '../../src/json/value.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { snapshotOf } from '../support/collections.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { DATA_FILE, openTestEngine } from '../support/engine.ts'
import { Random, SEED } from '../support/random.ts'
import { json, startProgram } from '../support/server.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

type Item = JsonObject & { readonly id?: string | number; readonly v: number }

/** The editor changes only these, clients change only the others: so nothing that either writes may ever be lost. */
const EDITED: readonly unknown[] = ['e0', 'e1', 'e2', 'e3']
const SENT = ['a0', 'a1', 'a2']

const FIRST = {
  things: [...EDITED.slice(0, 2), ...SENT].map((id) => ({ id, v: 0 })),
}

function itemsIn(bytes: Buffer | undefined): Item[] {
  return bytes ? ((JSON.parse(bytes.toString()) as { things?: Item[] }).things ?? []) : []
}

/** One editor and one client at work on one data file, through crashes. */
class Work {
  readonly random: Random
  readonly eager: boolean
  disk = new SimulatedDisk()
  /** The content that the editor saved last. */
  readonly saved = new Map<unknown, number>()
  /** The values of items that the editor added without an id. */
  readonly added = new Set<number>()
  /** The last acknowledged state and the writes since: after a crash any of them may be there. */
  readonly possible = new Map<string, Set<number>>()
  #value = 0

  constructor(seed: number) {
    this.random = new Random(seed)
    this.eager = this.random.chance(0.3)
    this.disk.put(DATA_FILE, Buffer.from(JSON.stringify(FIRST)))
    for (const id of EDITED.slice(0, 2)) this.saved.set(id, 0)
    for (const id of SENT) this.possible.set(id, new Set([0]))
  }

  /** The editor reads the file, changes an item of its own, and saves. */
  edit(): void {
    const bytes = this.disk.bytes(DATA_FILE)
    if (!bytes) return
    this.checkSaved(itemsIn(bytes))
    const id = this.random.pick(EDITED) as string
    const items = itemsIn(bytes).filter((item) => item.id !== id || this.random.chance(0.7))
    const at = items.findIndex((item) => item.id === id)
    const item = { id, v: ++this.#value }
    if (at >= 0) items[at] = item
    else if (this.random.chance(0.5)) items.push(item)
    if (this.random.chance(0.3)) {
      items.splice(this.random.integer(items.length + 1), 0, { v: ++this.#value })
      this.added.add(this.#value)
    }
    if (items.some((other) => other.id === id)) this.saved.set(id, item.v)
    else this.saved.delete(id)
    this.disk.put(DATA_FILE, Buffer.from(JSON.stringify({ things: items })))
  }

  checkSaved(items: readonly Item[]): void {
    const edited = items.filter(({ id }) => EDITED.includes(id)).map(({ id, v }) => [id, v] as const)
    assert.deepEqual(new Map([...edited].sort()), new Map([...this.saved].sort()))
    const added = items.filter(({ id }) => typeof id !== 'string').map(({ v }) => v)
    assert.deepEqual(added.sort(), [...this.added].sort(), 'an item without an id is there once')
  }

  /** One life of the service, which ends well or at any system call; the editor saves in between any two. */
  async live(): Promise<void> {
    const { random, disk } = this
    const last = random.chance(0.7) ? 5 + random.integer(160) : Number.POSITIVE_INFINITY
    const edits = new Set(Array.from({ length: random.integer(4) }, () => random.integer(160)))
    const files = disk.files((operation, path, call) => {
      if (call >= last) return { type: 'stop' }
      // Between the last look at the file and the rename there is no room for a third look.
      const isLastMoment = operation === 'rename' && path.endsWith('.new')
      if (edits.has(call) && !isLastMoment && disk === this.disk) this.edit()
      return undefined
    })
    const life = async (): Promise<void> => {
      const { engine } = await openTestEngine(files, { common: { eagerDataReload: this.eager } })
      for (let step = random.integer(20); step > 0; step--) await this.#step(engine)
      await engine.close()
    }
    await Promise.race([life(), files.stopped])
    this.disk = disk.killed()
    if (random.chance(0.4)) this.edit()
  }

  async #step(engine: FileEngine): Promise<void> {
    const { random } = this
    if (random.chance(0.5)) {
      const key = random.pick(SENT)
      const v = ++this.#value
      this.possible.get(key)?.add(v)
      const command = { type: 'ReplaceItem', collection: 'things', key, item: { id: key, v } } as const
      await engine.handler.handle(command, { actor: 'client', requestId: 'r' })
      this.possible.set(key, new Set([v]))
    } else if (random.chance(0.3)) {
      assert.deepEqual((await engine.dataFile.reload()).conflicts, [])
    } else {
      for (let turns = random.integer(6); turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve))
    }
  }

  /** The result of a last start. */
  async check(): Promise<void> {
    const { engine } = await openTestEngine(this.disk.files())
    await engine.dataFile.reload()
    const things = (snapshotOf(engine.views).get('things') ?? []) as readonly Item[]
    await engine.close()
    this.checkSaved(things)
    this.checkSaved(itemsIn(this.disk.bytes(DATA_FILE)))
    for (const [key, possible] of this.possible) {
      const v = things.find(({ id }) => id === key)?.v
      assert.ok(v !== undefined && possible.has(v), `${key} is ${v}, one of ${[...possible]} was expected`)
    }
    let isFirst = true
    for await (const { actor, events } of engine.journal.read(1)) {
      const ids = [...events].filter(isItemEvent).map(({ id }) => id)
      const others = ids.filter((id) => actor === 'data-file' && SENT.includes(String(id)))
      if (!isFirst) assert.deepEqual(others, [], 'an edit that nobody made')
      isFirst = false
    }
    assert.equal(engine.dataFile.status.state, 'current')
    assert.deepEqual(itemsIn(this.disk.bytes(DATA_FILE)), things)
  }
}

test('through any crash no edit is overwritten, no write is reverted, and no edit is invented', async () => {
  const rounds = Number(process.env.MERGE_ROUNDS ?? 150)
  for (let round = 0; round < rounds; round++) {
    try {
      const work = new Work(SEED + round)
      for (let lives = 1 + work.random.integer(5); lives > 0; lives--) await work.live()
      await work.check()
    } catch (error) {
      if (error instanceof Refusal) error.message += ` (SEED=${SEED + round})`
      else (error as Error).message = `SEED=${SEED + round}: ${(error as Error).message}`
      throw error
    }
  }
})

const ROUNDS = Number(process.env.DATA_FILE_KILLS ?? 4)
const KEYS = Array.from({ length: 8 }, (_, index) => `k${index}`)

interface Numbered {
  readonly id: string
  readonly n: number
}
type Data = Readonly<Record<'sent' | 'edited' | 'ballast', readonly Numbered[]>>

/** Big enough that a kill often comes while the file is written. */
const ballast = Array.from({ length: 4000 }, (_, n) => ({ id: `b${n}`, n, text: 'x'.repeat(200) }))
const INITIAL = { edited: [{ id: 'e', n: 0 }], sent: KEYS.map((id) => ({ id, n: 0 })), ballast }

test('killed at any moment while the file is written, it merges exactly the edits that were made', async (t) => {
  const random = new Random(SEED)
  const directory = await temporaryDirectory(t)
  const acknowledged = new Map(KEYS.map((id) => [id, 0]))
  const sent = new Map(acknowledged)
  let edited = 0
  let edits = 0
  let n = 0
  for (let round = 0; round <= ROUNDS; round++) {
    const server = await startProgram(t, { directory, data: INITIAL })
    const get = async <T>(path: string) => (await (await server.fetch(path)).json()) as T
    await until('it has merged the edit', async () => (await server.fetch('/api/edited')).status === 200)
    const byHand = await get<{ type: string; id?: string; item?: Numbered }[]>(
      '/events?actor=data-file&collection=edited',
    )
    assert.equal(byHand.length, 2 + edits, `round ${round}`)
    assert.deepEqual(await get('/api/edited'), [{ id: 'e', n: edited }])
    const touched = await get<unknown[]>('/events?actor=data-file&collection=sent&limit=1000')
    assert.equal(touched.length, 1 + KEYS.length, 'an edit that nobody made')
    for (const { id, n: now } of await get<Numbered[]>('/api/sent')) {
      assert.ok(now >= (acknowledged.get(id) ?? 0) && now <= (sent.get(id) ?? 0), `round ${round}: ${id} is ${now}`)
    }

    const writing = KEYS.map(async (id) => {
      for (;;) {
        sent.set(id, ++n)
        const value = n
        const response = await server.fetch(`/api/sent/${id}`, json('PUT', { n: value })).catch(() => undefined)
        if (response === undefined) return
        assert.equal(response.status, 204)
        acknowledged.set(id, value)
      }
    })
    await sleep(100 + random.integer(900))
    await server.stop('SIGKILL')
    await Promise.all(writing)
    if (random.chance(0.5)) continue
    const data = JSON.parse(await readFile(server.file, 'utf8')) as Data
    edited = ++edits
    await writeFile(server.file, JSON.stringify({ ...data, edited: [{ id: 'e', n: edited }] }))
  }
})
