import type { Logger } from 'pino'
import { Histogram } from '../runtime/histogram.ts'
import type { LimitedLog } from '../runtime/limited-log.ts'

const SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5]
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

/** A group of responses and their durations. */
export interface ResponseTimes {
  readonly method: string
  /** The pattern of the route (`/api/:collection/:id`), so that their number is bounded. */
  readonly route: string
  readonly status: number
  readonly seconds: Histogram
}

/** Called for each response with the pattern of its route. */
export type Observe = (request: Observed, route: string, status: number, elapsedMs: number) => void

interface Observed {
  readonly method: string
  readonly path: string
  readonly requestId: string
}

export interface ObservingOptions {
  readonly times: RequestTimes
  readonly log: Logger
  readonly limitedLog: LimitedLog
  /** A response that takes longer to begin is logged as a warning; 0: none is. */
  readonly slowMs: number
}

/** Counts each response, and logs it at level debug, or if it is slow, without query, headers and body. */
export function observing({ times, log, limitedLog, slowMs }: ObservingOptions): Observe {
  return ({ method, path, requestId }, route, status, elapsedMs) => {
    times.observe(method, route, status, elapsedMs / 1000)
    const isSlow = slowMs > 0 && elapsedMs > slowMs
    if (!isSlow && !log.isLevelEnabled('debug')) return
    const facts = { requestId, method, path, status, ms: Math.round(elapsedMs) }
    log.debug(facts, 'answered')
    if (isSlow) limitedLog.warn(facts, 'a request was slow')
  }
}

/** Durations of requests by method, route and status. */
export class RequestTimes {
  readonly #routes = new Map<string, Map<string, Map<number, Histogram>>>()

  observe(method: string, route: string, status: number, seconds: number): void {
    const known = this.#routes.get(route)?.get(method)?.get(status)
    if (known) known.note(seconds)
    else this.#begin(method, route, status).note(seconds)
  }

  *all(): Generator<ResponseTimes> {
    for (const [route, methods] of this.#routes)
      for (const [method, statuses] of methods)
        for (const [status, seconds] of statuses) yield { method, route, status, seconds }
  }

  /** Unknown methods share one entry, so that clients cannot create entries. */
  #begin(sent: string, route: string, status: number): Histogram {
    const method = METHODS.includes(sent) ? sent : 'other'
    const methods = within(this.#routes, route, () => new Map<string, Map<number, Histogram>>())
    const statuses = within(methods, method, () => new Map<number, Histogram>())
    return within(statuses, status, () => new Histogram(SECONDS))
  }
}

function within<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const found = map.get(key)
  if (found !== undefined) return found
  const made = make()
  map.set(key, made)
  return made
}
