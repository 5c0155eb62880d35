import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { connect, type ListChange, type LiveList, type Recollect } from '../../src/client/index.ts'
import { sleep, until } from '../support/deadline.ts'
import { Random, SEED } from '../support/random.ts'
import { type Line, lineTo, type Server, startProgram } from './host.ts'

type Thing = Record<string, unknown>

const FILTERS: readonly Readonly<Record<string, string | number | readonly string[]>>[] = [
  {},
  { n_gt: 50 },
  { n_lte: 20 },
  { kind: 'x' },
  { kind: ['x', 'y'], n_lt: 80 },
  { kind_ne: 'x' },
  { tags: 'red' },
  { 'at.when_gte': '2026-03-01' },
  { mixed_exists: 'true' },
  { id_lt: 6 },
]
const SORTS = ['n', '-n', 'kind,-n', '-at.when', 'mixed', '-mixed,kind', 'tags,n_desc', 'id_desc', '-at']
const FIELDS = ['n', 'kind,mixed', 'at.when']

/** The parameters of a list, so that a GET can use the same. */
interface Wanted {
  readonly collection: string
  readonly where: (typeof FILTERS)[number]
  readonly q: string | undefined
  readonly sort: string | undefined
  readonly fields: string | undefined
  readonly page: readonly [number, number] | undefined
}

function wantedBy(random: Random): Wanted {
  return {
    collection: random.pick(['a', 'b']),
    where: random.pick(FILTERS),
    q: random.chance(0.1) ? '7' : undefined,
    sort: random.chance(0.8) ? random.pick(SORTS) : undefined,
    fields: random.chance(0.2) ? random.pick(FIELDS) : undefined,
    page: random.chance(0.3) ? [1 + random.integer(3), 1 + random.integer(6)] : undefined,
  }
}

/** The address that answers what the list should show, now or at a position. */
function addressOf({ collection, where, q, sort, fields, page }: Wanted, asOf?: number): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(where))
    for (const one of [value].flat()) parameters.append(name, String(one))
  const others = {
    q,
    sort: sort ? `${sort},id` : 'id',
    fields,
    page: page?.[0] ?? 1,
    pageSize: page?.[1] ?? 10_000,
    asOf,
  }
  for (const [name, value] of Object.entries(others)) if (value !== undefined) parameters.set(name, String(value))
  return `/api/${collection}?${parameters}`
}

/** A list, and what is known of it from its changes alone. */
class Follower {
  readonly wanted: Wanted
  readonly list: LiveList<Thing>
  readonly faults: string[] = []
  /** The content of the list, and the position up to which it claimed to be right. */
  readonly shown: { readonly position: number; readonly items: string }[] = []
  #told = 0
  #fold: Thing[] = []

  constructor(client: Recollect, wanted: Wanted) {
    this.wanted = wanted
    const { where, q, sort, fields, page } = wanted
    let query = client.collection<Thing>(wanted.collection).where(where)
    if (q !== undefined) query = query.q(q)
    if (sort !== undefined) query = query.sort(...sort.split(','))
    if (fields !== undefined) query = query.fields(...fields.split(','))
    if (page) query = query.page(...page)
    this.list = query.live()
    this.list.onChange((change) => this.#take(change))
  }

  /** Changes are told of in their order, and make of what was there what there is. */
  #take({ position, entered, updated, left, wasReset }: ListChange<Thing>): void {
    if (position < this.#told) this.faults.push(`position ${position} after ${this.#told}`)
    if (wasReset) this.faults.push(`a reset at ${position}`)
    this.#told = position
    const gone = new Set([...left, ...updated.map(({ before }) => before)])
    const kept = this.#fold.filter((item) => !gone.has(item))
    if (kept.length + gone.size !== this.#fold.length) this.faults.push(`what left at ${position} was not there`)
    this.#fold = [...kept, ...entered, ...updated.map(({ item }) => item)]
    const { items } = this.list
    if (items.length !== this.#fold.length || items.some((item) => !this.#fold.includes(item))) {
      this.faults.push(`the changes up to ${position} do not make the list`)
    }
    this.shown.push({ position, items: JSON.stringify(items) })
  }
}

function thing(random: Random): Thing {
  return {
    ...(random.chance(0.9) && { n: random.integer(100) }),
    ...(random.chance(0.9) && { kind: random.pick(['x', 'y', 'z', 'ü', '\u{1f600}', '\uff5e']) }),
    tags: random.pick([['red'], ['blue', 'green'], [], ['red', ['blue']], 'red']),
    at: { when: random.pick(['2026-01-01', '2026-03-01T00:00:00Z', '2026-03-01T02:00:00+02:00', 'soon', null]) },
    ...(random.chance(0.7) && { mixed: random.pick([null, true, 7, -0.5, '7', 'seven', [7], { a: 7 }, '2026-07-07']) }),
  }
}

/** Sends one write. `both`: the position at which both collections exist; a restore to an earlier one would make GETs 404. */
async function write(server: Server, random: Random, both: number): Promise<void> {
  const collection = random.pick(['a', 'b'])
  const id = random.chance(0.8) ? random.integer(25) : random.pick(['x', 'é/?', '07'])
  const path = `/api/${collection}/${encodeURIComponent(id)}`
  const kind = random.integer(20)
  if (kind < 4) await server.send('DELETE', path)
  else if (kind < 6) await server.send('POST', `/api/${collection}`, thing(random))
  else if (kind < 10) await server.send('PATCH', path, thing(random))
  else if (kind < 11) {
    const to = Math.max(both, (await positionOf(server)) - random.integer(30))
    await server.send('POST', '/admin/restore', { to, collection })
  } else await server.send('PUT', path, thing(random))
}

async function positionOf(server: Server): Promise<number> {
  return (JSON.parse(await server.get('/health')) as { position: number }).position
}

const SIZES = { writes: Number(process.env.CLIENT_WRITES ?? 150), lists: 20, clients: 5 }

test('live lists of random queries stay right through random writes, lost connections and restarts, at every position', async (t) => {
  const random = new Random(SEED)
  const flags = ['--Api.UpsertOnPut', 'true']
  // Some lists are too large for a subscription with a small limit. No collection gets ten times as many items: such
  // lists are refused.
  const limits = () => [
    '--Limits.SubscriptionItems',
    String(random.pick([Math.max(6, Math.ceil(SIZES.writes / 60)), 10_000])),
    '--Limits.PageSize',
    '10000',
  ]
  const data = { a: Array.from({ length: 12 }, (_, id) => ({ id, ...thing(random) })), b: [] }
  let server = await startProgram(t, { data, flags: [...flags, ...limits()] })
  const both = await positionOf(server)
  const clients = await Promise.all(Array.from({ length: SIZES.clients }, () => clientBehindALine(t, server.url)))
  const followers: Follower[] = []
  const closed: Follower[] = []
  const open = (): void => {
    followers.push(new Follower(random.pick(clients).client, wantedBy(random)))
  }
  for (let n = 0; n < SIZES.lists; n++) open()

  for (let written = 0; written < SIZES.writes; ) {
    const burst = 1 + random.integer(8)
    await Promise.all(Array.from({ length: burst }, () => write(server, random, both)))
    written += burst
    for (const one of clients) if (random.chance(one.isCut ? 0.3 : 0.05)) await toggle(one)
    if (random.chance(0.1)) {
      const [ended] = followers.splice(random.integer(followers.length), 1)
      ended?.list.close()
      if (ended) closed.push(ended)
      open()
    }
    if (random.chance(2.5 / (SIZES.writes / 4))) {
      await (random.chance(0.7) ? server.kill() : server.stop())
      server = await startProgram(t, { directory: server.directory, flags: [...flags, ...limits()] })
      for (const { line } of clients) await line.aim(server.url)
    }
    if (random.chance(0.3)) await sleep(random.integer(20))
  }
  for (const one of clients) if (one.isCut) await toggle(one)

  const context = `SEED=${SEED}`
  for (const { wanted, list } of followers) {
    let [left, right] = ['', '']
    await until(`${context}: ${JSON.stringify(wanted)}`, async () => {
      left = JSON.stringify(list.items)
      right = await server.get(addressOf(wanted))
      return left === right
    }).catch((error: unknown) => assert.equal(left, right, String(error)))
    const position = await positionOf(server)
    await until(`${context}: the last position`, () => list.position === position)
  }
  const all = [...followers, ...closed]
  for (const { wanted, faults } of all) assert.deepEqual(faults, [], `${context}: ${JSON.stringify(wanted)}`)
  const moments = all.flatMap(({ wanted, shown }) => shown.map((moment) => ({ wanted, ...moment })))
  assert.ok(moments.length > SIZES.writes / 3, `${moments.length} moments to look at`)
  for (let look = 0; look < 300; look++) {
    const { wanted, position, items } = random.pick(moments)
    const then = await server.get(addressOf(wanted, position))
    assert.equal(items, then, `${context}: ${JSON.stringify(wanted)} at ${position}`)
  }
})

interface CuttableClient {
  readonly client: Recollect
  readonly line: Line
  isCut: boolean
}

async function clientBehindALine(t: TestContext, url: string): Promise<CuttableClient> {
  const line = await lineTo(t, url)
  const client = connect(line.url)
  t.after(async () => client.close())
  return { client, line, isCut: false }
}

async function toggle(one: CuttableClient): Promise<void> {
  if (one.isCut) await one.line.mend()
  else await one.line.cut()
  one.isCut = !one.isCut
}
