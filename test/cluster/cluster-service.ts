import { setTimeout as sleep } from 'node:timers/promises'
import type { Service } from '../linearizability/clients.ts'
import type { Answer, Request } from '../linearizability/history.ts'
import { type RunningCluster, rolesOf } from '../support/cluster.ts'
import { within } from '../support/deadline.ts'
import type { Random } from '../support/random.ts'
import type { RunningServer } from '../support/server.ts'

const COLLECTION = 'things'
/** Longest time without a leader: much longer than a failover takes on a busy machine. */
const PATIENCE_MS = 90_000
/** Longest time until every history has come to its restart: each has some 60 requests before it. */
const RESTART_DEADLINE_MS = 8 * 60_000

/** The living nodes, whose leader is stopped now and then during requests. */
export class Failovers {
  readonly #cluster: RunningCluster
  readonly #random: Random
  readonly #alive: Set<RunningServer>
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
  next(random: Random): RunningServer {
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
export class ClusterService implements Service {
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

  async #send(node: RunningServer, item: string, request: Request, signal: AbortSignal): Promise<Answer> {
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
