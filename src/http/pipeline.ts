/**
 * The way of every HTTP request. Koa (app.ts) and the fast front (fast-front.ts) are two entries to the same steps:
 *
 * | Step                    | What it does                                                                   |
 * |-------------------------|--------------------------------------------------------------------------------|
 * | `admit`                 | checks the host and the origin, before a failure is counted for an address      |
 * | `authenticate`          | finds the client of the credentials                                            |
 * | `authorize`             | checks the role that the method and the path need                              |
 * | steps of the resource   | below `/api`: wait for a position, require the complete store, simulate errors |
 * | route                   | makes the response                                                             |
 * | `respond`, or `refuse`  | adds the position; makes a failure a problem document                          |
 *
 * Limits on connections and pending requests come before (connections.ts). The middleware of a library's user runs in
 * Koa before `admit`, so a request that it changes is authorized as changed.
 */

import { Readable } from 'node:stream'
import type { Logger } from 'pino'
import type { Principal } from '../access/accounts.ts'
import { credentialsOf, type Gate, isRefused, type RefusedAccess } from '../access/gate.ts'
import { includes, isSafe } from '../access/roles.ts'
import type { Position } from '../events/event.ts'
import type { Arrivals } from '../projections/arrivals.ts'
import { Refusal } from '../runtime/errors.ts'
import { Histogram } from '../runtime/histogram.ts'
import type { LimitedLog } from '../runtime/limited-log.ts'
import type { HttpRequest, Reply, Step } from './exchange.ts'
import { EVENT_MEDIA_TYPES, EVENT_STREAM } from './media-types.ts'
import { replyProblem } from './problems.ts'
import { delayAsAsked, type SimulationSettings, simulate } from './simulation.ts'

export class Pipeline {
  /** The steps of all paths, before those of the resource. */
  readonly access: readonly Step[]
  readonly #position: () => Position
  readonly #log: LimitedLog

  /** `position` is that of the last event that readers see. */
  constructor(gate: Gate, position: () => Position, log: LimitedLog) {
    this.#position = position
    this.#log = log
    this.access = [
      (request) => admit(request, gate),
      (request, reply) => authenticate(request, reply, gate),
      (request) => authorize(request),
    ]
  }

  /** Runs the steps of a request, and completes the reply. It is synchronous while they are, and never fails. */
  run(steps: readonly Step[], request: HttpRequest, reply: Reply): void | Promise<void> {
    try {
      const pending = inOrder(steps, request, reply)
      if (pending) {
        return pending.then(
          () => this.#complete(request, reply),
          (error) => this.#refuse(error, request, reply),
        )
      }
    } catch (error) {
      this.#refuse(error, request, reply)
      return
    }
    this.#complete(request, reply)
  }

  /** Holds the memory of the response. When that is refused, the refusal is the response. */
  #complete(request: HttpRequest, reply: Reply): void {
    try {
      holdBody(request, reply)
    } catch (error) {
      if (reply.body instanceof Readable) reply.body.destroy()
      this.#refuse(error, request, reply)
      return
    }
    this.#respond(request, reply)
  }

  /** Adds `Journal-Position` to every authorized response under `/api`. Writes have set their own. */
  #respond({ path, client }: HttpRequest, reply: Reply): void {
    const reflectsViews = path.startsWith('/api/') || path === '/api'
    if (reflectsViews && client) reply.position ??= this.#position()
  }

  #refuse(error: unknown, request: HttpRequest, reply: Reply): void {
    replyProblem(request.refusalOf(error), request, reply, this.#log)
    this.#respond(request, reply)
  }
}

/** A shorter response is not counted. */
const SHORT_CHARACTERS = 16 * 1024
/** Bytes for each character of a response: the text, and its copy at the connection. */
const CHARACTER_BYTES = 2
/** The memory of a stream: parts of 16 to 128 KiB, in the stream and at the connection. */
const STREAM_BYTES = 256 * 1024

/** A completed write is not refused any more. */
function holdBody(request: HttpRequest, { body, isAlwaysSent }: Reply): void {
  const isLong = typeof body === 'string' || Buffer.isBuffer(body) ? body.length > SHORT_CHARACTERS : body !== undefined
  if (!isLong) return
  const memory = request.memoryFor('responses')
  const bytes = body instanceof Readable ? STREAM_BYTES : CHARACTER_BYTES * (body as string | Buffer).length
  if (isSafe(request.method) && !isAlwaysSent) memory.hold(bytes)
  else memory.count(bytes)
}

/** Runs steps in order, without a pause while they are synchronous. */
export function inOrder(steps: readonly Step[], request: HttpRequest, reply: Reply, from = 0): void | Promise<void> {
  for (let at = from; at < steps.length; at++) {
    const pending = (steps[at] as Step)(request, reply)
    if (pending && at === steps.length - 1) return pending
    if (pending) return pending.then(() => inOrder(steps, request, reply, at + 1))
  }
}

/** The headers of every response, also of one that a library's user makes. */
export function headersOf(requestId: string): string[] {
  return ['X-Request-Id', requestId, 'X-Content-Type-Options', 'nosniff', 'Vary', 'Origin']
}

/**
 * Rejects requests of forbidden origins before any failure is counted for the address. Safe requests are not rejected,
 * since browsers withhold their responses, unless they carry a token in the URL.
 */
function admit(request: HttpRequest, { hosts, origins }: Gate): void {
  const { headers, method } = request
  if (!hosts.accepts(headers.host)) {
    throw new Refusal(
      'Misdirected',
      `This server does not answer to the host ${JSON.stringify(headers.host)}; see the setting Http.Hosts.`,
    )
  }
  if (!origins.isForeign(headers) || (isSafe(method) && tokenInQuery(request) === undefined)) return
  const page = headers.origin === undefined ? 'another site' : JSON.stringify(headers.origin)
  throw new Refusal('Forbidden', `Pages of ${page} are not allowed to do this; see the setting Cors.Origins.`)
}

/** The path that uses credentials without requiring them. */
const OPTIONAL_CREDENTIALS = /^\/health\/?$/

function authenticate(request: HttpRequest, reply: Reply, gate: Gate): void | Promise<void> {
  const { neededRole, path, headers } = request
  if (neededRole === undefined && !OPTIONAL_CREDENTIALS.test(path)) return
  // Caches know about Authorization, but not about API keys and tokens in the URL.
  if (gate.access) reply.set('Cache-Control', 'private, no-cache')
  const credentials = credentialsOf(headers, tokenInQuery(request))
  const admitted = gate.admit(credentials, () => addressOf(request, gate))
  if (admitted instanceof Promise) return admitted.then((one) => enter(request, reply, gate, one))
  enter(request, reply, gate, admitted)
}

function enter(request: HttpRequest, reply: Reply, gate: Gate, admitted: Principal | RefusedAccess): void {
  if (!isRefused(admitted)) request.client = admitted
  else if (request.neededRole !== undefined) throw accessRefusal(admitted, reply, gate)
}

function authorize(request: HttpRequest): void {
  const { neededRole } = request
  if (neededRole === undefined) return
  const { role } = request.principal
  if (!includes(role, neededRole)) {
    throw new Refusal('Forbidden', `The role ${role} does not allow this; ${neededRole} is needed.`)
  }
}

/** The refusal of credentials; sets its headers. */
export function accessRefusal(refused: RefusedAccess, reply: Reply, { access }: Gate): Refusal {
  if (refused.refused === 'TooManyRequests') {
    reply.set('Retry-After', String(refused.waitSeconds))
    return new Refusal(
      'TooManyRequests',
      `Too many passwords, or too many wrong ones, came from this address; try again in ${refused.waitSeconds} s.`,
    )
  }
  for (const challenge of access?.challenges() ?? []) reply.append('WWW-Authenticate', challenge)
  return new Refusal('Unauthenticated', `Credentials are required, by one of: ${access?.schemes.join(', ')}.`)
}

/** The client's address, by which failures are counted. */
export function addressOf({ remoteAddress, headers }: HttpRequest, gate: Gate): string {
  return gate.addressOf(remoteAddress, headers)
}

/** The query parameter for the token of EventSource, which cannot set headers. */
export const ACCESS_TOKEN = 'access_token'

function tokenInQuery(request: HttpRequest): string | undefined {
  if (!/^\/events\/?$/.test(request.path) || request.accepts(EVENT_MEDIA_TYPES) !== EVENT_STREAM) return undefined
  return new URLSearchParams(request.querystring).get(ACCESS_TOKEN) ?? undefined
}

interface ApiStepsOptions {
  readonly position: () => Position
  readonly arrivals: Arrivals
  /** How long a request waits for a position at most. */
  readonly waitSeconds: number
  readonly building: () => BuildProgress
  /** Whether a former store is read until this one is built. */
  readonly isFormerRead: () => boolean
  readonly simulation: SimulationSettings
  readonly isJsonServer: boolean
}

/** The steps of the resources below `/api`, before their routes. */
export function apiSteps(options: ApiStepsOptions): readonly Step[] {
  const { building, isFormerRead, simulation, isJsonServer } = options
  const isSimulating = simulation.delay.enabled || simulation.error.enabled
  const requireBuilt: Step = ({ method }) => {
    if (!(isSafe(method) && isFormerRead())) checkBuilt(building())
  }
  const delays = [...(isSimulating ? [simulate(simulation)] : []), ...(isJsonServer ? [delayAsAsked()] : [])]
  return [waitForPosition(options), requireBuilt, ...delays]
}

/** Progress of building the store from the journal; undefined when it is complete. */
export type BuildProgress =
  | { readonly position: Position; readonly of: Position; readonly secondsLeft?: number }
  | undefined

/** Refuses what needs the complete store while it is being built. */
export function checkBuilt(progress: BuildProgress): void {
  if (!progress) return
  const { position, of, secondsLeft } = progress
  const left = secondsLeft === undefined ? '' : `, and is complete in about ${secondsLeft} seconds`
  const why = `The store is being built from the journal; it has ${position} of ${Math.max(position, of)} events${left}.`
  throw new Refusal('Unavailable', why)
}

/** Every event looks at each waiting request, so their number is limited. */
const MOST_WAITING = 1000

type Waiting = Pick<ApiStepsOptions, 'position' | 'arrivals' | 'waitSeconds'>

/** Makes reads wait for `Wait-For-Position`, so that a client reads its own write at any node of a cluster. */
export function waitForPosition({ position, arrivals, waitSeconds }: Waiting): Step {
  let waiting = 0
  return ({ method, headers }) => {
    const header = headers['wait-for-position']
    if (header === undefined || !isSafe(method)) return
    const wanted = parseAwaitedPosition(header)
    if (position() < wanted) return until(wanted)
  }

  async function until(wanted: Position): Promise<void> {
    if (waiting === MOST_WAITING) throw lagging(wanted)
    waiting++
    try {
      if (!(await arrivals.waitUntil(() => position() >= wanted, waitSeconds))) throw lagging(wanted)
    } finally {
      waiting--
    }
  }

  function lagging(wanted: Position): Refusal {
    return new Refusal('Lagging', `Position ${wanted} is not available yet; the current one is ${position()}.`)
  }
}

function parseAwaitedPosition(header: string | readonly string[]): Position {
  const text = String(header)
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new Refusal('Invalid', `Wait-For-Position must be a position, not ${JSON.stringify(text)}.`)
}

const SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5]
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

/** A group of responses and their durations. */
interface ResponseTimes {
  readonly method: string
  /** The pattern of the route (`/api/:collection/:id`), so that their number is bounded. */
  readonly route: string
  readonly status: number
  readonly seconds: Histogram
}

/** Called for each response with the pattern of its route. */
export type Observe = (
  request: Pick<HttpRequest, 'method' | 'path' | 'requestId'>,
  route: string,
  status: number,
  elapsedMs: number,
) => void

/**
 * Counts each response, and logs it at level debug, without query, headers and body. One that takes longer than `slowMs`
 * to begin is logged as a warning; 0: none is.
 */
export function observing(times: RequestTimes, log: Logger, limitedLog: LimitedLog, slowMs: number): Observe {
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
  readonly #byRoute = new Map<string, ResponseTimes[]>()

  observe(sent: string, route: string, status: number, seconds: number): void {
    // Unknown methods share one entry, so that clients cannot create entries.
    const method = METHODS.includes(sent) ? sent : 'other'
    const times = this.#byRoute.get(route) ?? []
    const known = times.find((one) => one.status === status && one.method === method)
    if (known) known.seconds.note(seconds)
    else {
      const begun = new Histogram(SECONDS)
      begun.note(seconds)
      this.#byRoute.set(route, [...times, { method, route, status, seconds: begun }])
    }
  }

  all(): readonly ResponseTimes[] {
    return [...this.#byRoute.values()].flat()
  }
}
