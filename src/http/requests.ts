/** Reading requests, apart from their bodies. */
import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Position } from '../events/event.ts'
import { isPartKey, type Origin } from '../events/journal.ts'
import { mostSimilar } from '../json/similar.ts'
import { momentOf, parseMoment, type Timeline } from '../projections/moment.ts'
import { DEPENDENT, effectiveParameters } from '../query/json-server.ts'
import {
  bytesOfParameters,
  FLAG,
  IGNORED,
  type ParameterDescription,
  parameterName,
  scanTimeout,
} from '../query/parameter.ts'
import { AS_OF, type Parameter, parseParameters, type QueryLimits } from '../query/query.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Memory } from '../runtime/memory.ts'
import type { Asker } from '../runtime/turns.ts'
import type { HttpRequest, Reply } from './exchange.ts'

const PREFIX = '/api/'

/** The path's segments after `/api`, each decoded once; a slash at the end is ignored. */
export function apiSegments(path: string): readonly string[] {
  const end = path.endsWith('/') ? path.length - 1 : path.length
  if (end <= PREFIX.length) return []
  const segments = path.slice(PREFIX.length, end).split('/')
  return path.includes('%') ? segments.map(decoded) : segments
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    throw new Refusal('Invalid', `The path holds malformed percent-encoding: ${segment}`)
  }
}

export const REQUEST_ID = /^[\w.:+/=-]{1,128}$/

/** The client's own request id, or a new one. */
export function requestIdOf({ 'x-request-id': sent }: IncomingHttpHeaders, newId: () => string): string {
  return typeof sent === 'string' && REQUEST_ID.test(sent) ? sent : newId()
}

/** Highest length of an Idempotency-Key. */
export const KEY_BYTES = 255

export function authorOf({ principal, requestId }: HttpRequest): Origin {
  return { actor: principal.actor, requestId }
}

/**
 * Who makes a write. With an Idempotency-Key also the key, and a digest that tells a retry from another request with that
 * key.
 */
export function originOf(request: HttpRequest, body: Uint8Array = new Uint8Array()): Origin {
  const { method, path, querystring, headers } = request
  const author = authorOf(request)
  const sent = headers['idempotency-key']
  if (sent === undefined) return author
  const key = String(sent)
  if (key === '' || Buffer.byteLength(key, 'latin1') > KEY_BYTES) {
    throw new Refusal('Invalid', `An Idempotency-Key has between 1 and ${KEY_BYTES} bytes.`)
  }
  if (isPartKey(key)) {
    throw new Refusal(
      'Invalid',
      'An Idempotency-Key does not end with ":part", as the journal has it for parts of a write.',
    )
  }
  const parts = [
    method,
    path,
    headers['content-type'] ?? '',
    headers['if-match'] ?? '',
    headers['if-none-match'] ?? '',
    String(prefers(headers, 'return=representation')),
    Buffer.from(body).toString('latin1'),
    // Digests are stored, so a part that was added later appears only where it applies.
    ...(headers[UNCHANGED_SINCE] === undefined ? [] : [UNCHANGED_SINCE, String(headers[UNCHANGED_SINCE])]),
    ...(prefers(headers, 'handling=lenient') ? ['lenient'] : []),
    ...(method === 'PUT' && prefers(headers, 'only-if-newer') ? ['only-if-newer'] : []),
    ...(method === 'DELETE' && prefers(headers, 'atomic') ? ['atomic'] : []),
    ...(method === 'DELETE' && querystring !== '' ? [querystring] : []),
  ]
  return { ...author, key, request: hash('sha256', JSON.stringify(parts), 'hex') }
}

export function parsePosition(text: string, what: string): Position {
  if (!/^\d+$/.test(text))
    throw new Refusal('Invalid', `${what} must be a non-negative integer, not ${JSON.stringify(text)}.`)
  return Number(text)
}

/** A position in place of an entity tag: one read of a list tells it of all its items. */
export const UNCHANGED_SINCE = 'if-unchanged-since'

export function parseUnchangedSince({ [UNCHANGED_SINCE]: sent }: HttpRequest['headers']): Position | undefined {
  if (sent === undefined) return undefined
  return parsePosition(String(sent), 'If-Unchanged-Since')
}

/** Rejects writes with headers that would otherwise be ignored. */
export function refuseIgnoredHeaders({ method, headers }: HttpRequest, takesUnchangedSince = method !== 'POST'): void {
  if (method === 'PUT' && headers['content-range'] !== undefined) {
    throw new Refusal(
      'Invalid',
      'A PUT replaces the item as a whole; with Content-Range it is refused (RFC 9110 §14.5).',
    )
  }
  if (!takesUnchangedSince && headers[UNCHANGED_SINCE] !== undefined) {
    throw new Refusal(
      'Invalid',
      'If-Unchanged-Since is for PUT, PATCH and DELETE of single items, and for restores, not for other POSTs.',
    )
  }
  // If-Match takes precedence (RFC 9110 §13.2.2).
  if (headers['if-unmodified-since'] !== undefined && headers['if-match'] === undefined) {
    throw new Refusal(
      'Invalid',
      "Items have no time of modification, so If-Unmodified-Since is refused; send If-Match with the item's ETag, or If-Unchanged-Since with the Journal-Position at which it was read.",
    )
  }
}

/** Asks what a write would do. */
export const DRY_RUN = 'dryRun'

/** The parameters of writes of many items, besides filters. */
export const BULK_PARAMETERS = {
  [DRY_RUN]: { description: '`true`: only say what would be deleted, replaced or expire.', schema: FLAG },
} as const satisfies Readonly<Record<string, ParameterDescription>>

/** Asks for the numbers of items beside the names of collections. */
export const COUNT = 'count'

/** The parameter of the list of collections, besides `asOf`. */
export const NAMES_PARAMETERS = {
  [COUNT]: {
    description: '`true`: an object of the numbers of items by name, `null` for a single object.',
    schema: FLAG,
  },
} as const satisfies Readonly<Record<string, ParameterDescription>>

/** Rejects headers and parameters that a write of an item ignores: a DELETE with an ignored `dryRun` would delete. */
export function refuseIgnored(request: HttpRequest): void {
  refuseIgnoredHeaders(request)
  const { method, querystring } = request
  if (querystring === '') return
  for (const sent of new URLSearchParams(querystring).keys()) {
    const name = parameterName(sent)
    if (IGNORED.includes(name)) continue
    const isDelete = method === 'DELETE'
    if (isDelete ? name === DEPENDENT : mostSimilar(name, [AS_OF, DRY_RUN]) === undefined) continue
    const only = isDelete ? `, only ${DEPENDENT}` : ''
    throw new Refusal('Invalid', `A ${method} of an item takes no parameter ${JSON.stringify(name)}${only}.`)
  }
}

/** Rejects parameters that are not described. */
export function refuseUnknown(
  parameters: readonly Parameter[],
  described: Readonly<Record<string, ParameterDescription>>,
): void {
  const unknown = parameters.find(({ name }) => !Object.hasOwn(described, name))
  if (!unknown) return
  const known = Object.keys(described).join(', ')
  throw new Refusal('Invalid', `There is no parameter ${JSON.stringify(unknown.name)} here; there are: ${known}.`)
}

/** Rejects misspelt parameters that would otherwise be ignored: the present would look like the past. */
export function refuseMisspelt(parameters: readonly Parameter[], known: readonly string[]): void {
  for (const { name } of parameters) {
    const meant = known.includes(name) ? undefined : mostSimilar(name, known)
    if (meant === undefined) continue
    throw new Refusal('Invalid', `There is no parameter ${JSON.stringify(name)} here; did you mean ${meant}?`)
  }
}

export interface HttpQueryLimits extends QueryLimits {
  /** Highest length of the query string. */
  readonly bytes: number
}

/** The memory of a shorter query is not counted. */
const SHORT_CHARACTERS = 256

export function parametersOf(
  request: Pick<HttpRequest, 'querystring' | 'memoryFor'>,
  { bytes, parameters }: HttpQueryLimits,
): readonly Parameter[] {
  const { querystring } = request
  if (querystring.length > bytes) {
    throw new Refusal('UriTooLong', `The query is longer than ${bytes} bytes (Limits.QueryBytes).`)
  }
  const parsed = parseParameters(querystring, parameters)
  if (querystring.length > SHORT_CHARACTERS) request.memoryFor('queries').hold(bytesOfParameters(parsed))
  return parsed
}

/** The parameters of a GET of items. */
export function parametersOfRead(
  request: HttpRequest,
  { limits, isJsonServer }: { readonly limits: HttpQueryLimits; readonly isJsonServer: boolean },
): readonly Parameter[] {
  const parameters = parametersOf(request, limits)
  return isJsonServer ? effectiveParameters(parameters) : parameters
}

/**
 * Ends the queries of a client that has disconnected, and those that scan for too long; admins may scan for any time. The
 * queries hold `memory`.
 */
export function askerOf(
  request: HttpRequest,
  seconds: number,
  memory?: Memory,
  refusal = () => scanTimeout(seconds),
): Asker {
  const limit = request.principal.role === 'admin' ? undefined : { seconds, refusal }
  return { isGone: () => request.isGone(), limit, memory }
}

export function asksForPast(parameters: readonly Parameter[]): boolean {
  return parameters.some(({ name }) => name === AS_OF)
}

/**
 * The position that `asOf` names; undefined without `asOf`. Sets the `Cache-Control` of a past state.
 * @throws {Refusal} when it is beyond the head or in the future.
 */
export async function readPosition(
  parameters: readonly Parameter[],
  reply: Reply,
  timeline: Timeline,
): Promise<Position | undefined> {
  const asked = parameters.filter(({ name }) => name === AS_OF)
  const [first] = asked
  if (!first) return undefined
  if (asked.length > 1) throw new Refusal('Invalid', 'The parameter asOf must be given once.')
  const at = await parseMoment(first.value, AS_OF, timeline)
  reply.set('Cache-Control', 'private, no-cache')
  return at
}

/** The instant of `asOf` in milliseconds since 1970. The parameter must be present. */
export async function timeOfAsOf(parameters: readonly Parameter[], timeline: Timeline): Promise<number> {
  const { value } = parameters.find(({ name }) => name === AS_OF) as Parameter
  return (await momentOf(value, AS_OF, timeline)).ms
}

/** The preferences of writes (RFC 7240), for the check and for OpenAPI. */
export const PREFERENCES = {
  'return=representation': 'answer with the item',
  'handling=lenient': 'leave out the items of a batch that cannot be created, with a result for each',
  atomic: 'delete in one write, however many items there are',
  'only-if-newer': 'leave an item as it is that has the same event time or a later one',
} as const

export type Preference = keyof typeof PREFERENCES

/** A preference: its name, its quoted or plain value, and any wrong character before its parameters. */
const PREFERENCE = /^\s*([^\s=;]*)\s*(?:=\s*(?:"([^"]*)"|([^\s";]*))\s*)?([^;]?)/

/** A quoted value, also one without its end, so that the search takes linear time. */
const QUOTED = /"(?:[^"\\]|\\.)*(?:"|\\?$)/g

/** Whether the `Prefer` header has the preference; of repeated ones the first counts (RFC 7240 §2). */
export function prefers({ prefer }: IncomingHttpHeaders, wanted: Preference): boolean {
  if (prefer === undefined) return false
  const [name, value = ''] = wanted.split('=')
  // A comma in a quoted value separates nothing.
  const preferences = String(prefer)
    .toLowerCase()
    .replace(QUOTED, (quoted) => quoted.replaceAll(',', ' '))
    .split(',')
  const first = preferences.map((preference) => PREFERENCE.exec(preference)).find((parts) => parts?.[1] === name)
  const [, , quoted, plain = '', wrong] = first ?? []
  return wrong === '' && (quoted ?? plain) === value
}

export type Missing = 'NotFound' | 'UnknownParent'

/** The refusal of an address below a collection that does not exist. */
export function noCollection(name: string, code: Missing = 'UnknownParent'): Refusal {
  return new Refusal(code, `There is no collection ${JSON.stringify(name)}.`)
}
