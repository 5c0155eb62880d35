import { Agent, request as httpRequest, type IncomingMessage } from 'node:http'
import { within } from '../support/deadline.ts'
import type { Scope } from '../support/directory.ts'
import type { Random } from '../support/random.ts'
import { type RunningServer, startServer } from '../support/server.ts'
import type { Service } from './clients.ts'
import type { Answer, Request } from './history.ts'
import { turns } from './simulated-service.ts'

const COLLECTION = 'things'

/** The server as a user runs it, over HTTP, killed with SIGKILL now and then while requests are on their way. */
export class ServerService implements Service {
  readonly #scope: Scope
  readonly #random: Random
  readonly #agent = new Agent({ keepAlive: true })
  #server: Promise<RunningServer>
  /** The number of requests until the next kill. */
  #left = Infinity

  private constructor(scope: Scope, random: Random, server: RunningServer) {
    this.#scope = scope
    this.#random = random
    this.#server = Promise.resolve(server)
    scope.after(async () => this.#agent.destroy())
  }

  static async start(scope: Scope, random: Random): Promise<ServerService> {
    return new ServerService(scope, random, await start(scope))
  }

  /** Kills it after so many more requests. */
  killAfter(requests: number): void {
    this.#left = requests
  }

  async ask(item: string, request: Request, waits: boolean): Promise<Answer | undefined> {
    const server = await this.#server
    const aborted = new AbortController()
    const answered = this.#send(server, item, request, aborted.signal)
    if (--this.#left <= 0) {
      this.#left = Infinity
      // Some requests have arrived by then, some have not.
      void turns(this.#random.integer(20)).then(() => this.restart())
    }
    if (!waits) {
      await turns(this.#random.integer(20))
      aborted.abort()
    }
    return answered
  }

  async restart(): Promise<void> {
    const killed = this.#server
    this.#server = killed.then(async (server) => {
      await server.stop('SIGKILL')
      return start(this.#scope, server.directory)
    })
    await this.#server
  }

  /** Undefined when the connection ends before the answer does. */
  async #send(server: RunningServer, item: string, request: Request, signal: AbortSignal): Promise<Answer | undefined> {
    const { method, body, ifMatch, ifNoneMatch, key } = request
    const isPost = method === 'POST'
    const path = `/api/${COLLECTION}${isPost ? '' : `/${item}`}`
    const text = body && JSON.stringify(isPost ? { id: item, ...body } : body)
    const headers = {
      ...(text === undefined ? {} : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }),
      ...(ifMatch === undefined ? {} : { 'If-Match': ifMatch }),
      ...(ifNoneMatch === undefined ? {} : { 'If-None-Match': ifNoneMatch }),
      ...(key === undefined ? {} : { 'Idempotency-Key': key }),
    }
    try {
      const response = await within(
        `the response to ${method} ${path}`,
        new Promise<IncomingMessage>((resolve, reject) => {
          httpRequest(server.url + path, { method, headers, signal, agent: this.#agent }, resolve)
            .on('error', reject)
            .end(text)
        }),
      )
      const chunks: Buffer[] = await within(`the end of the response to ${method} ${path}`, response.toArray())
      const { etag } = response.headers
      return {
        status: response.statusCode ?? 0,
        ...(etag === undefined ? {} : { tag: etag }),
        ...(method === 'GET' ? { text: Buffer.concat(chunks).toString() } : {}),
      }
    } catch {
      return undefined
    }
  }
}

function start(scope: Scope, directory?: string): Promise<RunningServer> {
  return startServer(scope, {
    ...(directory === undefined ? {} : { directory }),
    data: { [COLLECTION]: [] },
    flags: ['--Api.UpsertOnPut', 'true', '--Api.ClientIdsOnPost', 'true'],
  })
}
