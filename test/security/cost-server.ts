import type { Scope } from '../support/directory.ts'
import { startProbed } from '../support/probe.ts'
import type { Random } from '../support/random.ts'
import { type Reply, type Sent, send, sendBytes } from '../support/requests.ts'
import { type CostServer, Coverage } from './cost-coverage.ts'
import { LIST, LIST_OPERATIONS, listOf } from './cost-lists.ts'
import { ITEM_BYTES, OPERATIONS, subjectOf } from './cost-operations.ts'
import { type CostlyRequest, HEADER_REQUESTS, KEY, REQUESTS, TOKEN_SECRET } from './costly-requests.ts'

/** A block of so many milliseconds is measured again, as a garbage collection may have been part of it. */
const MUCH_MS = 25
const TIMES = 3

const DATA = { things: [{ id: 0, n: 1, list: [[[[[0]]]]] }], profile: {}, notes: [] }

const FLAGS = {
  open: [
    ...['--Cors.Origins', origins(100), '--Api.Reset', 'true', '--Api.ClientIdsOnPost', 'true'],
    ...['--Collections', JSON.stringify({ [LIST]: { Time: 't', Keep: '9999w' } })],
  ],
  guarded: [
    ...['--Authentication.Enabled', 'true', '--Authentication.AuthenticationType', 'token,basic,apikey'],
    ...['--Authentication.Users', JSON.stringify([{ Username: 'admin', Password: 'right' }])],
    ...['--Authentication.ApiKey', KEY, '--Limits.FailuresPerMinute', '1000000'],
    ...['--Limits.TrustedProxies', '127.0.0.0/8', '--Cors.Origins', origins(2000)],
    ...['--Authentication.Token.Secret', TOKEN_SECRET, '--Api.Compatibility', 'json-server'],
  ],
}

/** A server where everybody may in, and one where only those may who say who they are. */
export type Door = keyof typeof FLAGS

/** The server for a kind of request. With authentication on, headers are read that are ignored without. */
export function doorOf(what: string): Door {
  return Object.hasOwn(HEADER_REQUESTS, what) ? 'guarded' : 'open'
}

function origins(count: number): string {
  return Array.from({ length: count }, (_, index) => `https://page${index}.example`).join(',')
}

/** Starts it, and asks everything once in small: what is loaded with the first request is loaded then. */
export async function open(t: Scope, door: Door): Promise<CostServer> {
  const probed = await startProbed(t, { data: DATA, flags: FLAGS[door] })
  const server = { ...probed, coverage: new Coverage() }
  for (const { request } of Object.values(REQUESTS)) await ask(server, request(100))
  return server
}

/** How long a request blocks the event loop that costs no more than its bytes. */
export function harmless(server: CostServer): Promise<number> {
  const body = JSON.stringify({ a: 'a'.repeat(ITEM_BYTES - 100) })
  const post = { method: 'POST', path: '/api/things', headers: { 'Content-Type': 'application/json' }, body }
  return server.longestBlock(() => ask(server, post))
}

export async function measureRequest(server: CostServer, request: CostlyRequest): Promise<Cost> {
  let least: Cost | undefined
  for (let time = 0; time < TIMES && (least === undefined || least.block > MUCH_MS); time++) {
    least = lesser(least, await measure(server, () => ask(server, request)))
  }
  return least as Cost
}

/** Does one after the other with an item that has the value; when it costs much, with others from the beginning. */
export async function measureItem(
  server: CostServer,
  value: string,
  operations: readonly string[],
  random: Random,
): Promise<readonly (readonly [what: string, cost: Cost])[]> {
  let least: readonly Cost[] = []
  for (let time = 0; time < TIMES && (time === 0 || least.some(({ block }) => block > MUCH_MS)); time++) {
    const collection = `c${Math.floor(random.next() * 2 ** 48)}`
    const subject = await subjectOf(server, collection, value, random)
    if (!subject) return []
    const costs: Cost[] = []
    for (const what of operations) {
      const operation = OPERATIONS[what] as (typeof OPERATIONS)[string]
      costs.push(lesser(least[costs.length], await measure(server, () => operation(subject))))
    }
    least = costs
    await ask(server, { method: 'DELETE', path: `/api/${collection}/0` })
  }
  return least.map((cost, index) => [operations[index] as string, cost])
}

/** Does one after the other with a list of these values. */
export async function measureList(
  server: CostServer,
  values: readonly string[],
  operations: readonly string[],
  random: Random,
): Promise<readonly (readonly [what: string, cost: Cost])[]> {
  const list = await listOf(server, values, random)
  const costs: (readonly [string, Cost])[] = []
  for (const what of operations) {
    const operation = LIST_OPERATIONS[what] as (typeof LIST_OPERATIONS)[string]
    let least: Cost | undefined
    for (let time = 0; time < TIMES && (least === undefined || least.block > MUCH_MS); time++) {
      least = lesser(least, await measure(server, () => operation(list)))
    }
    costs.push([what, least as Cost])
  }
  return costs
}

function lesser(one: Cost | undefined, other: Cost): Cost {
  return {
    block: Math.min(one?.block ?? Number.POSITIVE_INFINITY, other.block),
    ms: Math.min(one?.ms ?? Number.POSITIVE_INFINITY, other.ms),
    failures: [...(one?.failures ?? []), ...other.failures],
  }
}

async function measure(server: CostServer, work: () => Promise<unknown>): Promise<Cost> {
  const failures: string[] = []
  const before = await server.spent()
  const block = await server.longestBlock(async () => {
    try {
      await work()
    } catch (error) {
      if (server.process.exitCode !== null) throw new Error(`the server ended:\n${server.stderr()}`)
      failures.push(String(error).slice(0, 500))
    }
  }, 1)
  return { block, ms: (await server.spent()) - before, failures }
}

async function ask(server: CostServer, request: CostlyRequest): Promise<void> {
  const { method, path, body, bytes, headers = {} } = request
  if (bytes !== undefined) {
    await sendBytes(server.url, bytes)
    return
  }
  const hasCredentials = 'Authorization' in headers || 'X-API-KEY' in headers
  const sent = {
    headers: { ...(hasCredentials ? {} : { 'X-API-KEY': KEY }), ...headers },
    ...(body !== undefined && { body }),
  }
  const { status, text } = await sendAgain(server, method, path, sent)
  server.coverage.noteRequest(method, path, sent.headers, status)
  if (status >= 500 && status !== 503) throw new Error(`${method} ${path.slice(0, 100)}: ${status} ${text}`)
}

/** As every client does whose connection from before has ended. */
async function sendAgain(server: CostServer, method: string, path: string, sent: Sent): Promise<Reply> {
  try {
    return await send(server.url, method, path, sent)
  } catch {
    return send(server.url, method, path, sent)
  }
}

/** In milliseconds of processor time: the longest block of the event loop, and all that it took. */
export interface Cost {
  readonly block: number
  readonly ms: number
  /** The responses that the server must not have sent. */
  readonly failures: readonly string[]
}

interface Of {
  readonly what: string
  readonly shape: string
  readonly bytes: number
  /** The seed of the round, which repeats it. */
  readonly seed: number
}

interface Measured extends Of, Cost {
  /** The same at another size. */
  readonly less: { readonly bytes: number; readonly block: number } | undefined
}

/** The costliest of each operation and shape. */
export class Costs {
  readonly #worst = new Map<string, Measured>()
  readonly failed: string[] = []
  #measured = 0
  #harmless = Number.POSITIVE_INFINITY

  note(of: Of, cost: Cost, less?: { readonly bytes: number } & Cost): void {
    this.#measured++
    for (const failure of cost.failures) this.failed.push(`${of.what}, ${of.shape}, seed ${of.seed}: ${failure}`)
    const name = `${of.what}\n${of.shape}`
    const known = this.#worst.get(name)
    if (!known || known.block < cost.block) this.#worst.set(name, { ...of, ...cost, less })
  }

  noteHarmless(block: number): void {
    this.#harmless = Math.min(this.#harmless, block)
  }

  sorted(): readonly Measured[] {
    return [...this.#worst.values()].sort((a, b) => b.block - a.block)
  }

  /** The costliest; `growth` is the exponent with which the block grows by the size, where that can be told. */
  table(rows: number): string {
    const lines = this.sorted()
      .slice(0, rows)
      .map(({ what, shape, bytes, block, ms, less, seed }) => [
        what,
        shape,
        String(Math.round(bytes)),
        ms.toFixed(1),
        block.toFixed(1),
        less ? less.block.toFixed(1) : '',
        // Smaller measurements say little.
        less && less.block > 1 ? (Math.log(block / less.block) / Math.log(bytes / less.bytes)).toFixed(2) : '',
        String(seed),
      ])
    const head = ['operation', 'shape', 'bytes', 'ms', 'block', 'of ¼', 'growth', 'seed']
    return [
      `${this.#measured} measured; a harmless request blocks for ${this.#harmless.toFixed(1)} ms`,
      ...laidOut([head, ...lines]),
    ].join('\n')
  }
}

/** The cost of each operation with each shape at three sizes, each twice the one before. */
export class Growth {
  readonly #rows: { readonly what: string; readonly shape: string; readonly costs: readonly Cost[] }[] = []

  note(what: string, shape: string, costs: readonly Cost[]): void {
    this.#rows.push({ what, shape, costs })
  }

  /** Those that grow most, of those that cost enough for it to be told; `growth` is the exponent, from the first size to the last. */
  table(rows: number): string {
    const told = this.#rows.flatMap((row) => {
      const first = row.costs[0]?.ms ?? 0
      const last = row.costs.at(-1)?.ms ?? 0
      return last < TOLD_MS ? [] : [{ ...row, growth: Math.log(last / first) / Math.log(2 ** (row.costs.length - 1)) }]
    })
    told.sort((a, b) => b.growth - a.growth)
    const lines = told.slice(0, rows).map(({ what, shape, costs, growth }) => {
      const [block, ms] = (['block', 'ms'] as const).map((name) => costs.map((cost) => cost[name].toFixed(1)))
      return [what, shape, ...(block as string[]), ...(ms as string[]), growth.toFixed(2)]
    })
    const head = ['operation', 'shape', 'block of n', '2n', '4n', 'ms of n', '2n', '4n', 'growth']
    return [
      `${this.#rows.length} measured at three sizes, of which ${told.length} take ${TOLD_MS} ms or longer`,
      ...laidOut([head, ...lines]),
    ].join('\n')
  }
}

/** Below this cost, garbage collection and compilation hide the growth. */
const TOLD_MS = 20

function laidOut(lines: readonly (readonly string[])[]): readonly string[] {
  const widths = (lines[0] ?? []).map((_, column) => Math.max(...lines.map((line) => (line[column] as string).length)))
  return lines.map((line) =>
    line
      .map((cell, column) =>
        column < 2 ? cell.padEnd(widths[column] as number) : cell.padStart(widths[column] as number),
      )
      .join('  '),
  )
}
