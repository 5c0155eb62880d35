import { readFileSync } from 'node:fs'
import { cp } from 'node:fs/promises'
import { Agent, request as httpRequest } from 'node:http'
import { sleep, until, within } from '../support/deadline.ts'
import { type Scope, temporaryDirectory } from '../support/directory.ts'
import { startProbed } from '../support/probe.ts'
import { send } from '../support/requests.ts'
import { type CostServer, Coverage } from './cost-coverage.ts'
import { ATTACK_DEADLINE_MS, Attackers } from './memory-clients.ts'
import type { Prepared } from './memory-data.ts'

export const MIB = 1024 * 1024

const SAMPLE_MS = 20
const WITNESS_PAUSE_MS = 20
const WITNESS_DEADLINE_MS = 60_000
/** How long clients that do not read keep their connections open. */
const UNREAD_MS = Number(process.env.MEMORY_UNREAD_MS ?? 1000)

/** Only `/admin/snapshot` writes the data file, which is large. */
export const FLAGS = ['--DataFile.Write', 'never', '--Limits.StreamsPerAddress', '200']

/** A server that is attacked. */
export interface Target extends CostServer {
  /** V8's limit of the heap, in MiB. */
  readonly heap: number
  /** The data file has changes between these positions. */
  readonly changes: Prepared['changes']
}

/** Starts a server with so many MiB of heap on a copy of the prepared directory. */
export async function startTarget(t: Scope, { directory: prepared, changes }: Prepared, heap: number): Promise<Target> {
  const directory = await temporaryDirectory(t)
  // The store is built again if its times are not those at which the server closed it.
  await cp(prepared, directory, { recursive: true, preserveTimestamps: true })
  const node = [`--max-old-space-size=${heap}`]
  const probed = await startProbed(t, { directory, flags: FLAGS, node })
  return { ...probed, coverage: new Coverage(), heap, changes }
}

export function hasEnded({ process }: Target): boolean {
  return process.exitCode !== null || process.signalCode !== null
}

/**
 * The most anonymous memory that a process may take: the heap, its third beside it for buffers (the default of
 * `Limits.MemoryBytes`), and a constant part for code, the young generation, and memory that malloc keeps.
 */
export function boundOf({ heap }: Target): number {
  return (heap * (4 / 3) + 108) * MIB
}

/** One kind of attack. */
export interface Attack {
  readonly clients: number
  /** Clients that do not read keep their connections open for a while. */
  readonly isUnread?: boolean
  /** One of the clients, which all act at once. */
  readonly act: (attackers: Attackers, index: number) => Promise<unknown>
}

export interface Outcome {
  /** Bytes of anonymous memory before the attack, and the most during it. */
  readonly before: number
  readonly most: number
  readonly ms: number
  /** The longest wait of the witness in milliseconds. */
  readonly slowest: number
  /** How often each status came. */
  readonly statuses: string
  readonly failures: readonly string[]
}

/** How a client sees a response that was cut because its next part did not fit into memory, which the log must tell. */
const CUT = /aborted$|the response ended early$/

/** Attacks a server, and watches its memory and whether it serves others meanwhile. */
export async function strike(target: Target, attack: Attack): Promise<Outcome> {
  const attackers = new Attackers(target)
  const memory = new AnonymousMemory(target)
  const witness = new Witness(target)
  const logged = target.stderr().length
  const began = performance.now()
  const acts = Array.from({ length: attack.clients }, (_, index) => attack.act(attackers, index))
  const settled = Promise.all(acts.map((act) => act.catch((error) => attackers.fail(error))))
  // A client that waits behind others that do not read gets no response before these are disconnected.
  await (attack.isUnread ? Promise.race([settled.then(() => sleep(UNREAD_MS)), sleep(5 * UNREAD_MS)]) : settled)
  attackers.end()
  await within('the end of all clients', settled, ATTACK_DEADLINE_MS)
  await witness.end()
  const most = memory.end()
  const cut = target.stderr().slice(logged).includes('a response was cut') ? CUT : undefined
  const failures = [...attackers.failures, ...witness.failures].filter((failure) => !cut?.test(failure))
  // The kernel reports the end of a process that prints its last lines a moment later.
  if (failures.length > 0) await sleep(1000)
  if (hasEnded(target)) failures.splice(0, failures.length, `the process ended: ${lastWords(target)}`)
  if (most > boundOf(target)) failures.push(`${Math.ceil(most / MIB)} MiB of anonymous memory`)
  return {
    before: memory.first,
    most,
    ms: performance.now() - began,
    slowest: witness.slowest,
    statuses: attackers.statuses(),
    failures,
  }
}

/** V8's report of an exhausted heap, without the native stack. */
function lastWords(target: Target): string {
  const printed = target.stderr()
  const begin = printed.indexOf('<--- Last few GCs')
  const report = begin < 0 ? printed.slice(-1000) : (printed.slice(begin).split('----- Native')[0] as string)
  return `${target.process.signalCode ?? target.process.exitCode}\n${report}`
}

/** Samples RssAnon of proc(5). */
class AnonymousMemory {
  readonly first: number
  readonly #file: string
  readonly #timer: NodeJS.Timeout
  #most = 0

  constructor({ process: { pid } }: Target) {
    this.#file = `/proc/${pid}/status`
    this.first = this.#look()
    this.#timer = setInterval(() => this.#look(), SAMPLE_MS)
  }

  #look(): number {
    try {
      const now = Number(/^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(this.#file, 'utf8'))?.[1] ?? 0) * 1024
      this.#most = Math.max(this.#most, now)
      return now
    } catch {
      // The process has ended.
      return 0
    }
  }

  end(): number {
    clearInterval(this.#timer)
    return this.#most
  }
}

/** A client that is served during an attack: it asks for `/health` and for a small item, one after the other. */
class Witness {
  readonly failures: string[] = []
  slowest = 0
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 1 })
  readonly #target: Target
  readonly #asking: Promise<void>
  #isOver = false

  constructor(target: Target) {
    this.#target = target
    this.#asking = this.#askAgain()
  }

  async #askAgain(): Promise<void> {
    while (!this.#isOver && this.failures.length === 0) {
      for (const path of ['/health', '/api/small/7']) {
        const began = performance.now()
        const status = await this.#ask(path).catch(String)
        if (status !== 200) this.failures.push(`GET ${path} beside the attack: ${status}`)
        this.slowest = Math.max(this.slowest, performance.now() - began)
      }
      await sleep(WITNESS_PAUSE_MS)
    }
    this.#agent.destroy()
  }

  #ask(path: string): Promise<number | undefined> {
    const { hostname, port } = new URL(this.#target.url)
    return within(
      `the response to GET ${path}`,
      new Promise((resolve, reject) => {
        const sent = httpRequest({ agent: this.#agent, hostname, port, path }, (response) => {
          response.resume().on('end', () => resolve(response.statusCode))
        })
        sent.on('error', reject).end()
      }),
      WITNESS_DEADLINE_MS,
    )
  }

  async end(): Promise<void> {
    this.#isOver = true
    await this.#asking
  }
}

/** The requests of normal clients, which every heap has room for. */
export async function serveNormally({ url }: Target): Promise<void> {
  const batch = JSON.stringify(Array.from({ length: 1000 }, (_, n) => ({ n, text: 'text '.repeat(200) })))
  const headers = { 'Content-Type': 'application/json' }
  for (const [method, path, expected, body] of [
    ['POST', '/api/posted', 201, batch],
    ['GET', '/api/posted?take=1000&skip=0', 200],
    ['GET', '/api/large?take=5&skip=0', 200],
    ['GET', '/api/small?take=100&skip=0&sort=-n', 200],
  ] as const) {
    const { status, text } = await send(url, method, path, { ...(body !== undefined && { body, headers }) })
    if (status !== expected) throw new Error(`${method} ${path}: ${status} ${text.slice(0, 300)}`)
  }
}

/** Resolves when the server holds no memory of the budget any more; states of the past are held for a while. */
export async function released({ url }: Target): Promise<void> {
  await until('all memory of the budget is released', async () => {
    const { text } = await send(url, 'GET', '/metrics')
    const held = [...text.matchAll(/^recollect_memory_held_bytes\{.*\} (\d+)/gm)]
    if (held.length === 0) throw new Error('/metrics does not show the memory that is held')
    return held.every(([, bytes]) => bytes === '0')
  })
}
