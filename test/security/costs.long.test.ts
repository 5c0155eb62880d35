import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { Random, SEED } from '../support/random.ts'
import { LIST_BYTES, LIST_OPERATIONS, LIST_SHAPES } from './cost-lists.ts'
import { ITEM_BYTES, OPERATIONS, SHAPES } from './cost-operations.ts'
import {
  type Cost,
  Costs,
  type Door,
  doorOf,
  Growth,
  harmless,
  measureItem,
  measureList,
  measureRequest,
  open,
} from './cost-server.ts'
import { REQUESTS } from './costly-requests.ts'

/** How long shapes and operations are drawn at random; 0: only the few that are worst are tried, at full size. */
const SECONDS = Number(process.env.COSTS_SECONDS ?? 0)
/** The shapes with which every operation is measured at three sizes; `all` for all, and for requests too. */
const GROWN = process.env.COSTS_GROWTH ?? ''
/** A server is followed by a new one after this time, lest its journal fill the disk. */
const SERVER_SECONDS = 60
/** Costs are measured at this part of a size, too: a cost that grows as its square is so many times less there, squared. */
const PART = 4

/** The quick suite's selection: some of each kind. */
const WORST = {
  shapes: ['nested then wide', 'wide object', 'texts'],
  operations: [
    ...['POST', 'POST, malformed at the end', 'merge patch of another field', 'GET of an element', 'restore, tried'],
    ...['openapi.json', 'filter', 'filter _contains, slow', 'sort by many fields', 'q', 'fields, many'],
  ],
  lists: ['texts of one beginning', 'numbers'],
  listOperations: [
    ...['a page', 'rows of the highest texts, 16 at once', 'distinct, 16 at once', 'everything as text/csv'],
    ...['a deletion, tried', 'a restore from nothing, tried', 'a page of events, newest first', 'a batch'],
  ],
}

test('no costly request of any kind causes a server error', { timeout: (SECONDS + 600) * 1000 }, async (t) => {
  const costs = new Costs()
  if (SECONDS === 0) await t.test('at full size', (inner) => tryWorst(inner, costs))
  else await tryAtRandom(t, costs)
  // The measured times are for a reader: `npm run torture -- costs`, and the group `blocks` of the benchmark.
  for (const line of costs.table(SECONDS === 0 ? 10 : 200).split('\n')) t.diagnostic(line)
  assert.deepEqual(costs.failed, [])
})

if (GROWN !== '') {
  test('how each cost grows with the size', async (t) => {
    const growth = new Growth()
    const random = new Random(SEED)
    if (GROWN === 'all') await t.test('of requests', (inner) => growRequests(inner, growth))
    for (const shape of GROWN === 'all' ? Object.keys(SHAPES) : GROWN.split(',')) {
      await t.test(`of items: ${shape}`, (inner) => growItems(inner, growth, shape, random))
    }
    for (const line of growth.table(200).split('\n')) t.diagnostic(line)
  })
}

const PARTS = [1 / 4, 1 / 2, 1]

async function growRequests(t: TestContext, growth: Growth): Promise<void> {
  const server = await open(t, 'guarded')
  for (const [what, { most, request }] of Object.entries(REQUESTS)) {
    const costs: Cost[] = []
    for (const part of PARTS) costs.push(await measureRequest(server, request(Math.floor(most * part))))
    growth.note(what, 'guarded', costs)
  }
}

async function growItems(t: TestContext, growth: Growth, shape: string, random: Random): Promise<void> {
  const server = await open(t, 'open')
  const make = SHAPES[shape] as (typeof SHAPES)[string]
  const values = PARTS.map((part) => make(Math.floor(ITEM_BYTES * part), random))
  for (const what of Object.keys(OPERATIONS)) {
    const costs: Cost[] = []
    for (const value of values) {
      for (const [, cost] of await measureItem(server, value, [what], random)) costs.push(cost)
    }
    if (costs.length === PARTS.length) growth.note(what, shape, costs)
  }
}

async function tryWorst(t: TestContext, costs: Costs): Promise<void> {
  const random = new Random(SEED)
  const servers = { open: await open(t, 'open'), guarded: await open(t, 'guarded') }
  costs.noteHarmless(await harmless(servers.open))
  for (const [what, { most, request }] of Object.entries(REQUESTS)) {
    const door = doorOf(what)
    costs.note({ what, shape: door, bytes: most, seed: SEED }, await measureRequest(servers[door], request(most)))
  }
  for (const shape of WORST.shapes) {
    const value = (SHAPES[shape] as (typeof SHAPES)[string])(ITEM_BYTES, random)
    const measured = await measureItem(servers.open, value, WORST.operations, random)
    for (const [what, cost] of measured) costs.note({ what, shape, bytes: ITEM_BYTES, seed: SEED }, cost)
  }
  for (const shape of WORST.lists) {
    const values = (LIST_SHAPES[shape] as (typeof LIST_SHAPES)[string])(LIST_BYTES, random)
    const measured = await measureList(servers.open, values, WORST.listOperations, random)
    for (const [what, cost] of measured) costs.note({ what, shape, bytes: LIST_BYTES, seed: SEED }, cost)
  }
}

/** Rounds of a seed each: SEED of a round repeats it as the first one. */
async function tryAtRandom(t: TestContext, costs: Costs): Promise<void> {
  const end = performance.now() + SECONDS * 1000
  let seed = SEED
  while (performance.now() < end) {
    await t.test(`from the seed ${seed}`, async (inner) => {
      const until = Math.min(end, performance.now() + SERVER_SECONDS * 1000)
      const servers = { open: await open(inner, 'open'), guarded: await open(inner, 'guarded') }
      costs.noteHarmless(await harmless(servers.open))
      do await round(servers, costs, seed++)
      while (performance.now() < until)
    })
  }
}

type Servers = Readonly<Record<Door, Awaited<ReturnType<typeof open>>>>

async function round(servers: Servers, costs: Costs, seed: number): Promise<void> {
  const random = new Random(seed)
  if (random.chance(0.4)) return roundOfLists(servers, costs, random, seed)
  if (random.chance(0.2)) {
    for (let time = 0; time < 20; time++) {
      const what = random.pick(Object.keys(REQUESTS))
      const { most, request } = REQUESTS[what] as (typeof REQUESTS)[string]
      const door = random.pick(['open', 'guarded'] as const)
      const bytes = Math.floor(most * (0.5 + random.next() / 2))
      const of = { what, shape: door, bytes, seed }
      costs.note(of, await measureRequest(servers[door], request(bytes)), {
        bytes: bytes / PART,
        ...(await measureRequest(servers[door], request(Math.floor(bytes / PART)))),
      })
    }
    return
  }
  const shape = random.pick(Object.keys(SHAPES))
  const bytes = Math.floor(ITEM_BYTES * (0.5 + random.next() / 2))
  const operations = Array.from({ length: 6 }, () => random.pick(Object.keys(OPERATIONS)))
  const make = SHAPES[shape] as (typeof SHAPES)[string]
  const small = await measureItem(servers.open, make(Math.floor(bytes / PART), random), operations, random)
  const large = await measureItem(servers.open, make(bytes, random), operations, random)
  large.forEach(([what, cost], index) => {
    const [, less] = small[index] ?? []
    costs.note({ what, shape, bytes, seed }, cost, less && { bytes: bytes / PART, ...less })
  })
}

async function roundOfLists(servers: Servers, costs: Costs, random: Random, seed: number): Promise<void> {
  const shape = random.pick(Object.keys(LIST_SHAPES))
  const bytes = Math.floor(LIST_BYTES * (0.5 + random.next() / 2))
  const operations = Array.from({ length: 8 }, () => random.pick(Object.keys(LIST_OPERATIONS)))
  const make = LIST_SHAPES[shape] as (typeof LIST_SHAPES)[string]
  const small = await measureList(servers.open, make(bytes / PART, random), operations, random)
  const large = await measureList(servers.open, make(bytes, random), operations, random)
  large.forEach(([what, cost], index) => {
    const [, less] = small[index] ?? []
    costs.note({ what, shape, bytes, seed }, cost, less && { bytes: bytes / PART, ...less })
  })
}
