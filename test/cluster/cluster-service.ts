import { setTimeout as sleep } from 'node:timers/promises'
import type { Service } from '../linearizability/clients.ts'
import type { Answer, Request } from '../linearizability/history.ts'
import { type RunningCluster, rolesOf } from '../support/cluster.ts'
import type { Random } from '../support/random.ts'
import type { RunningServer } from '../support/server.ts'

const COLLECTION = 'things'

/**
 * A cluster over HTTP: every request goes to a random node, and a read waits for the highest position that any
 * answer has named. Now and then the node that decides is ended while requests are on their way.
 */
export class ClusterService implements Service {
  readonly #cluster: RunningCluster
  readonly #random: Random
  readonly #alive: Set<RunningServer>
  #seen = 0
  /** So many requests until the next end. */
  #left = Infinity
  #restarting: Promise<void> = Promise.resolve()

  constructor(cluster: RunningCluster, random: Random) {
    this.#cluster = cluster
    this.#random = random
    this.#alive = new Set(cluster.nodes)
  }

  /** Ends the node that decides after so many more requests. */
  endAfter(requests: number): void {
    this.#left = requests
  }

  async ask(item: string, request: Request, waits: boolean): Promise<Answer | undefined> {
    if (--this.#left <= 0) {
      this.#left = Infinity
      void this.restart()
    }
    const aborted = new AbortController()
    const answered = this.#ask(item, request, aborted.signal)
    if (!waits) {
      await sleep(this.#random.integer(5))
      aborted.abort()
    }
    return answered
  }

  /** Ends the node that decides, well or not, and starts it again. */
  restart(): Promise<void> {
    this.#restarting = this.#restarting.then(async () => {
      const { decider } = await rolesOf([...this.#alive])
      this.#alive.delete(decider)
      await decider.stop(this.#random.chance(0.5) ? 'SIGKILL' : 'SIGTERM')
      this.#alive.add(await this.#cluster.start(decider.directory))
    })
    return this.#restarting
  }

  async #ask(item: string, request: Request, signal: AbortSignal): Promise<Answer | undefined> {
    for (;;) {
      const node = this.#random.pick([...this.#alive])
      const answer = await this.#send(node, item, request, signal).catch(() => undefined)
      // 503: nothing was stored, and another node may do better. 504: nobody knows.
      if (answer?.status === 504) return undefined
      if (answer?.status !== 503) return answer
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
