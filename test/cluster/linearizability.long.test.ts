import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { tagOf } from '../../src/json/tag.ts'
import { check, describe } from '../linearizability/checker.ts'
import { planOf, type Service, work } from '../linearizability/clients.ts'
import type { Answer, Request } from '../linearizability/history.ts'
import { type RunningCluster, rolesOf, startCluster } from '../support/cluster.ts'
import { within } from '../support/deadline.ts'
import { withoutNats } from '../support/nats.ts'
import { Random, SEED } from '../support/random.ts'
import type { RunningProgram } from '../support/server.ts'

const COLLECTION = 'things'
/** Longest time without a leader: much longer than a failover takes on a busy machine. */
const PATIENCE_MS = 90_000
/** Longest time until every history has come to its restart: each has some 60 requests before it. */
const RESTART_DEADLINE_MS = 8 * 60_000

/** The living nodes, whose leader is stopped now and then during requests. */
class Failovers {
  readonly #cluster: RunningCluster
  readonly #random: Random
  readonly #alive: Set<RunningProgram>
  /** The number of requests until the next end. */
  #left = Infinity
  #restarting: Promise<void> = Promise.resolve()
  #gathered: { count: number; readonly all: Promise<void>; readonly begin: () => void } | undefined

  constructor(cluster: RunningCluster, random: Random) {
    this.#cluster = cluster
    this.#random = random
    this.#alive = new Set(cluster.nodes)
  }

  /** Ends the leader after so many more requests. */
  endAfter(requests: number): void {
    this.#left = requests
  }

  /** A node for a request. */
  next(random: Random): RunningProgram {
    if (--this.#left <= 0) {
      this.#left = Infinity
      void this.restart()
    }
    return random.pick([...this.#alive])
  }

  /** Ends the leader, well or not, and starts it again. */
  restart(): Promise<void> {
    this.#restarting = this.#restarting.then(async () => {
      const { leader } = await rolesOf([...this.#alive])
      this.#alive.delete(leader)
      await leader.stop(this.#random.chance(0.5) ? 'SIGKILL' : 'SIGTERM')
      this.#alive.add(await this.#cluster.start(leader.directory))
    })
    return this.#restarting
  }

  /** As `restart`, once for so many who ask for it, when all of them have asked. */
  restartForAll(count: number): Promise<void> {
    if (!this.#gathered) {
      let begin = () => {}
      const all = new Promise<void>((resolve) => {
        begin = resolve
      })
      this.#gathered = { count, all: all.then(() => this.restart()), begin }
    }
    const gathered = this.#gathered
    if (--gathered.count === 0) {
      this.#gathered = undefined
      gathered.begin()
    }
    return within('a restart that every history asks for', gathered.all, RESTART_DEADLINE_MS)
  }
}

/**
 * A cluster over HTTP, as the clients of one history know it: every request goes to a random node, and a read waits
 * for the highest position that any answer to them has named.
 */
class ClusterService implements Service {
  readonly #failovers: Failovers
  readonly #random: Random
  /** How many histories are made at once. */
  readonly #histories: number
  #seen = 0

  constructor(failovers: Failovers, random: Random, histories: number) {
    this.#failovers = failovers
    this.#random = random
    this.#histories = histories
  }

  async ask(item: string, request: Request, waits: boolean): Promise<Answer | undefined> {
    const aborted = new AbortController()
    const answered = this.#ask(item, request, aborted.signal)
    if (!waits) {
      await sleep(this.#random.integer(5))
      aborted.abort()
    }
    return answered
  }

  restart(): Promise<void> {
    return this.#failovers.restartForAll(this.#histories)
  }

  async #ask(item: string, request: Request, signal: AbortSignal): Promise<Answer | undefined> {
    const deadline = performance.now() + PATIENCE_MS
    for (;;) {
      const node = this.#failovers.next(this.#random)
      const answer = await this.#send(node, item, request, signal).catch(() => undefined)
      // 503: nothing was stored, and another node may do better. 504: nobody knows.
      if (answer?.status === 504) return undefined
      if (answer?.status !== 503) return answer
      if (performance.now() > deadline) throw new Error(`${request.method} ${item} got nothing but 503`)
      await sleep(20 + this.#random.integer(100))
    }
  }

  async #send(node: RunningProgram, item: string, request: Request, signal: AbortSignal): Promise<Answer> {
    const { method, body, ifMatch, ifNoneMatch, key } = request
    const isPost = method === 'POST'
    const text = body && JSON.stringify(isPost ? { id: item, ...body } : body)
    const answer = await node.fetch(`/api/${COLLECTION}${isPost ? '' : `/${item}`}`, {
      method,
      signal,
      headers: {
        ...(text === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...(ifMatch === undefined ? {} : { 'If-Match': ifMatch }),
        ...(ifNoneMatch === undefined ? {} : { 'If-None-Match': ifNoneMatch }),
        ...(key === undefined ? {} : { 'Idempotency-Key': key }),
        ...(method === 'GET' ? { 'Wait-For-Position': String(this.#seen) } : {}),
      },
      ...(text === undefined ? {} : { body: text }),
    })
    const answered = await answer.text()
    this.#seen = Math.max(this.#seen, Number(answer.headers.get('journal-position')))
    const tag = answer.headers.get('etag')
    return {
      status: answer.status,
      ...(tag === null ? {} : { tag }),
      ...(method === 'GET' ? { text: answered } : {}),
    }
  }
}

const HISTORIES = Number(process.env.CLUSTER_HISTORIES ?? 20)
/** The number of concurrent histories, each on its own items: they share a failover, which takes longer than a history. */
const AT_ONCE = 20

test('three nodes are linearizable through failovers', {
  skip: withoutNats,
}, async (t) => {
  const cluster = await startCluster(t, { data: { things: [] }, flags: ['--Api.ClientIdsOnPost', 'true'] })
  const answered = new Map<number | undefined, number>()
  const failovers = new Failovers(cluster, new Random(SEED))
  const moments = new Random(SEED)
  for (let first = 0; first < HISTORIES; first += AT_ONCE) {
    const count = Math.min(AT_ONCE, HISTORIES - first)
    const plans = Array.from({ length: count }, (_, index) => {
      const history = first + index
      const random = new Random(SEED + history)
      const plan = planOf(random, { prefix: `${history}-`, pause: (own) => sleep(own.integer(10)) })
      const service = new ClusterService(failovers, new Random(random.integer(2 ** 32)), count)
      return () => work(service, random, plan)
    })
    // All of them are on their way then, as none has less than 30 requests to make.
    failovers.endAfter(count * (5 + moments.integer(20)))
    const histories = await Promise.all(plans.map((begin) => begin())).catch((error: unknown) => {
      for (const { stderr } of cluster.nodes) t.diagnostic(stderr().slice(-5000))
      for (const { log } of cluster.nats) t.diagnostic(log.slice(-5000))
      throw error
    })
    for (const [index, { operations }] of histories.entries()) {
      const violation = check({ operations }, () => undefined, tagOf)
      if (violation) assert.fail(`SEED=${SEED}, history ${first + index}: ${describe(violation)}`)
      for (const { answer } of operations) answered.set(answer?.status, (answered.get(answer?.status) ?? 0) + 1)
    }
    if (HISTORIES > 100) t.diagnostic(`${first + count} histories`)
  }
  t.diagnostic(`${HISTORIES} histories, answers ${JSON.stringify([...answered])}`)
  assert.deepEqual(
    [...answered.keys()].filter((status) => status !== undefined && status >= 500),
    [],
  )
})
