import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type RunningServer, start } from '../../src/library/index.ts'
import { fetch } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { Random, SEED } from '../support/random.ts'
import { json } from '../support/server.ts'

const RUNS = Number(process.env.RESET_RUNS ?? 2)
const STEPS = Number(process.env.RESET_STEPS ?? 100)
/** The share of the positions whose past is read at the end. */
const PAST = 0.2
const NAMES = ['a', 'b', 'c']
const SETTINGS = { Api: { UpsertOnPut: true, Reset: true } }

interface Item {
  readonly id: number
  readonly n: number
}
type Unnamed = Omit<Item, 'id'> & Partial<Item>
type Data = Readonly<Record<string, readonly Unnamed[]>>

/** Lists of items, and the ids that POST is to assign. */
class Model {
  lists = new Map<string, Item[]>()
  next = new Map<string, number>()

  /** The state of a first start with a data file. */
  static of(data: Data): Model {
    const model = new Model()
    for (const [name, items] of Object.entries(data)) {
      let next = Math.max(0, ...items.map(({ id = -1 }) => id + 1))
      model.lists.set(
        name,
        items.map(({ id = next++, n }) => ({ id, n })),
      )
      model.next.set(name, next)
    }
    return model
  }

  put(name: string, item: Item): void {
    const items = this.lists.get(name) ?? []
    const at = items.findIndex(({ id }) => id === item.id)
    this.lists.set(name, at < 0 ? [...items, item] : items.with(at, item))
    this.next.set(name, Math.max(this.nextOf(name), item.id + 1))
  }

  remove(name: string, id: number): void {
    const items = this.lists.get(name)
    if (items)
      this.lists.set(
        name,
        items.filter((item) => item.id !== id),
      )
  }

  nextOf(name: string): number {
    return this.next.get(name) ?? 0
  }
}

function anyData(random: Random, isNamed: boolean): Data {
  const names = NAMES.filter(() => random.chance(0.6))
  return Object.fromEntries(
    names.map((name) => {
      const ids = [...new Set(Array.from({ length: random.integer(5) }, () => random.integer(9)))]
      return [name, ids.map((id) => ({ ...((isNamed || random.chance(0.6)) && { id }), n: random.integer(3) }))]
    }),
  )
}

async function stateOf({ url }: RunningServer, suffix = ''): Promise<Record<string, unknown>> {
  const names = (await (await fetch(`${url}/api${suffix}`)).json()) as string[]
  const lists = names.map(async (name) => [name, await (await fetch(`${url}/api/${name}${suffix}`)).json()] as const)
  return Object.fromEntries(await Promise.all(lists))
}

async function run(t: TestContext, random: Random, context: string): Promise<void> {
  const directory = await temporaryDirectory(t)
  const first = anyData(random, true)
  const file = join(directory, 'db.json')
  await writeFile(file, JSON.stringify(first))
  let server = await start({ file, settings: SETTINGS })
  t.after(() => server.close())
  let model = Model.of(first)
  const past = new Map<number, Record<string, unknown>>()
  for (let step = 0; step < STEPS; step++) {
    const where = `${context}, step ${step}`
    const name = random.pick(NAMES)
    const path = `${server.url}/api/${name}`
    const id = random.integer(12)
    const n = random.integer(3)
    const kind = random.integer(20)
    if (kind < 8) {
      const answer = (await (await fetch(path, json('POST', { n }))).json()) as { id: number }
      assert.equal(answer.id, model.nextOf(name), where)
      model.put(name, { id: answer.id, n })
    } else if (kind < 11) {
      await fetch(`${path}/${id}`, json('PUT', { n }))
      model.put(name, { id, n })
    } else if (kind < 15) {
      await fetch(`${path}/${id}`, { method: 'DELETE' })
      model.remove(name, id)
    } else if (kind === 15) {
      await fetch(`${path}?all=true`, { method: 'DELETE' })
      model.lists.delete(name)
    } else if (kind === 16) {
      await server.close()
      server = await start({ file, settings: SETTINGS })
    } else if (kind === 17) {
      const data = anyData(random, false)
      await server.reset(data)
      model = Model.of(data)
    } else {
      if (random.chance(0.5)) await server.reset()
      else assert.equal((await fetch(`${server.url}/admin/reset`, { method: 'POST' })).status, 200, where)
      model = Model.of(first)
    }
    const state = await stateOf(server)
    assert.deepEqual(state, Object.fromEntries(model.lists), where)
    past.set(Number((await fetch(`${server.url}/api`)).headers.get('Journal-Position')), state)
  }
  for (const [position, state] of past) {
    if (!random.chance(PAST)) continue
    assert.deepEqual(await stateOf(server, `?asOf=${position}`), state, `${context}, position ${position}`)
  }
}

test('resets among random writes and restarts give the state and the ids of a first start', async (t) => {
  for (let round = 0; round < RUNS; round++) {
    await run(t, new Random(SEED + round), `SEED=${SEED + round}`)
  }
})
