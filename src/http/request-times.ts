import type { Logger } from 'pino'
import { Distribution } from '../measures.ts'

const SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5]
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

/** What was answered, and in what time. */
export interface Answered {
  readonly method: string
  /** As it is registered (`/api/:collection/:id`), so that there are no more of them than the program has. */
  readonly route: string
  readonly status: number
  readonly seconds: Distribution
}

/** Is told of each response, and by which route it came: one that is registered, or another of few. */
export type Observe = (request: Observed, route: string, status: number, elapsedMs: number) => void

interface Observed {
  readonly method: string
  readonly path: string
  readonly requestId: string
}

/** Counts each response, and on the level debug logs it: no query, no header, no body. */
export function observing(times: RequestTimes, log: Logger): Observe {
  return ({ method, path, requestId }, route, status, elapsedMs) => {
    times.observe(method, route, status, elapsedMs / 1000)
    if (!log.isLevelEnabled('debug')) return
    log.debug({ requestId, method, path, status, ms: Math.round(elapsedMs) }, 'answered')
  }
}

/** The times of all requests, by method, route and status. */
export class RequestTimes {
  readonly #routes = new Map<string, Map<string, Map<number, Distribution>>>()

  observe(method: string, route: string, status: number, seconds: number): void {
    const known = this.#routes.get(route)?.get(method)?.get(status)
    if (known) known.note(seconds)
    else this.#begin(method, route, status).note(seconds)
  }

  *all(): Generator<Answered> {
    for (const [route, methods] of this.#routes)
      for (const [method, statuses] of methods)
        for (const [status, seconds] of statuses) yield { method, route, status, seconds }
  }

  /** Clients may make methods up; all of those are one. */
  #begin(sent: string, route: string, status: number): Distribution {
    const method = METHODS.includes(sent) ? sent : 'other'
    const methods = within(this.#routes, route, () => new Map<string, Map<number, Distribution>>())
    const statuses = within(methods, method, () => new Map<number, Distribution>())
    return within(statuses, status, () => new Distribution(SECONDS))
  }
}

function within<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const found = map.get(key)
  if (found !== undefined) return found
  const made = make()
  map.set(key, made)
  return made
}
