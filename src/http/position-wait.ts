import type { Position } from '../events/event.ts'
import type { Arrivals } from '../projections/arrivals.ts'
import { Refusal } from '../runtime/errors.ts'
import { type ApiResource, wrapRoutes } from './api.ts'

/** Every event wakes each waiting request, so their number is limited. */
const MOST_WAITING = 1000

export interface WaitingOptions {
  readonly position: () => Position
  readonly arrivals: Arrivals
  /** Highest waiting time. */
  readonly seconds: number
}

/** Makes reads wait for `Wait-For-Position`, so that a client reads its own write at any node of a cluster. */
export function waitingForPosition(
  resources: readonly ApiResource[],
  { position, arrivals, seconds }: WaitingOptions,
): readonly ApiResource[] {
  let waiting = 0
  return wrapRoutes(resources, (route, method) => {
    if (method !== 'GET') return route
    return (request, reply) => {
      const header = request.headers['wait-for-position']
      if (header === undefined) return route(request, reply)
      return until(parse(header)).then(() => route(request, reply))
    }
  })

  async function until(wanted: Position): Promise<void> {
    if (position() >= wanted) return
    if (waiting === MOST_WAITING) throw lagging(wanted)
    waiting++
    try {
      if (!(await arrivals.waitUntil(() => position() >= wanted, seconds))) throw lagging(wanted)
    } finally {
      waiting--
    }
  }

  function lagging(wanted: Position): Refusal {
    return new Refusal('Lagging', `Position ${wanted} is not available yet; the current one is ${position()}.`)
  }
}

function parse(header: string | readonly string[]): Position {
  const text = String(header)
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new Refusal('Invalid', `Wait-For-Position must be a position, not ${JSON.stringify(text)}.`)
}
