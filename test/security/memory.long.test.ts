import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { until } from '../support/deadline.ts'
import { Random, SEED } from '../support/random.ts'
import { ATTACKS, randomAttack } from './memory-attacks.ts'
import { prepare } from './memory-data.ts'
import {
  type Attack,
  boundOf,
  hasEnded,
  MIB,
  released,
  serveNormally,
  startTarget,
  strike,
  type Target,
} from './memory-server.ts'

/** V8's limits of the heap, in MiB. */
const HEAPS = (process.env.MEMORY_HEAPS ?? '256').split(',').map(Number)
/** The names of the attacks, as a pattern; otherwise the selection below. */
const NAMES = process.env.MEMORY_ATTACKS
/** How long attacks are drawn at random, for each heap. */
const SECONDS = Number(process.env.MEMORY_SECONDS ?? 0)
/** The part of the items of the largest run. */
const PART = Number(process.env.MEMORY_PART ?? 0.2)
/** Memory that attacks leave behind adds up. */
const ROUNDS = Number(process.env.MEMORY_ROUNDS ?? 1)
/** The bytes that caches may have taken since the start: an eighth of the heap and 48 MiB at most for items, and others. */
const cachesOf = (heap: number): number => (Math.min(48, heap / 8) + 24) * MIB
/** A server is followed by a new one after this time, lest its journal fill the disk. */
const SERVER_MS = 300_000
/** Far beyond all attacks at full size. */
const TIMEOUT_MS = 8 * 3600_000

/** The quick suite's selection. Past states, which are cached for a while, come first. */
const WORST = [
  ...['past states of large items', 'restores of deleted items, tried', 'a list of empty objects, many clients'],
  ...['NDJSON of empty objects', 'CSV of empty cells', 'a merge patch of a large item', 'pages of large items, read'],
  ...['one page of large items, not read', 'pages of events of large items, not read', 'groups by large texts'],
  ...['subscriptions to large items, not read'],
]

const prepared = await prepare({ after }, PART)

for (const heap of HEAPS) {
  test(`clients that attack at once do not exhaust a heap of ${heap} MiB`, { timeout: TIMEOUT_MS }, async (t) => {
    const names = NAMES === undefined ? WORST : Object.keys(ATTACKS).filter((name) => new RegExp(NAMES).test(name))
    assert.ok(names.length > 0 || SECONDS > 0, `no attack is named ${NAMES}`)
    const siege = new Siege(t, heap)
    for (let round = 0; round < ROUNDS; round++) {
      for (const name of names) await siege.strike(name, ATTACKS[name] as Attack)
    }
    const end = performance.now() + SECONDS * 1000
    for (let seed = SEED; performance.now() < end; seed++)
      await siege.strike(`random, seed ${seed}`, randomAttack(new Random(seed)))
    await siege.end()
    assert.deepEqual(siege.failures, [])
  })
}

/** One attack after the other on a server, which is replaced when it has ended or takes too much memory. */
class Siege {
  readonly failures: string[] = []
  readonly #t: TestContext
  readonly #heap: number
  #target: Target | undefined
  #idle = 0
  #startedAt = 0

  constructor(t: TestContext, heap: number) {
    this.#t = t
    this.#heap = heap
  }

  async strike(name: string, attack: Attack): Promise<void> {
    if (performance.now() - this.#startedAt > SERVER_MS) await this.end()
    const target = await this.#open()
    const { before, most, ms, slowest, statuses, failures } = await strike(target, attack)
    const memory = `${inMib(before)} to ${inMib(most)} MiB`
    const times = `${(ms / 1000).toFixed(1)} s, others waited for up to ${Math.round(slowest)} ms`
    this.#t.diagnostic(`${this.#heap} MiB, ${name}: ${memory}, ${times}; ${statuses}`)
    for (const failure of failures) {
      this.failures.push(`${this.#heap} MiB, ${name}: ${failure}`)
      this.#t.diagnostic(`  ${failure}`)
    }
    if (hasEnded(target) || most > boundOf(target)) this.#abandon(target)
  }

  async #open(): Promise<Target> {
    if (this.#target) return this.#target
    const target = await startTarget(this.#t, prepared, this.#heap)
    await serveNormally(target)
    this.#target = target
    this.#idle = await target.memory()
    this.#startedAt = performance.now()
    return target
  }

  #abandon(target: Target): void {
    this.#target = undefined
    target.process.kill('SIGKILL')
  }

  /** Whatever the attacks took is released, and normal clients are served. */
  async end(): Promise<void> {
    const target = this.#target
    if (!target) return
    try {
      await released(target)
      await until(
        'the memory of all attacks is free',
        async () => (await target.memory()) < this.#idle + cachesOf(this.#heap),
      )
      await serveNormally(target)
    } catch (error) {
      this.failures.push(`${this.#heap} MiB, afterwards: ${error}`)
    }
    this.#t.diagnostic(
      `${this.#heap} MiB: ${inMib(this.#idle)} MiB in use before, ${inMib(await target.memory())} after`,
    )
    this.#abandon(target)
  }
}

function inMib(bytes: number): number {
  return Math.round(bytes / MIB)
}
