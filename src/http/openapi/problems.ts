import type { JsonObject } from '../../json/value.ts'
import type { RefusalCode } from '../../runtime/errors.ts'
import { PROBLEMS } from '../problems.ts'
import { type HeaderName, headerRefs } from './parameters.ts'
import { ref } from './references.ts'

/** When a request is answered with each of the problems. */
export const PROBLEM_TEXTS: Readonly<Record<RefusalCode, string>> = {
  Invalid:
    'No body (checked before its type), `null`, malformed JSON, invalid UTF-8, `__proto__`, nesting beyond 100, or a number that overflows or underflows; an empty or malformed patch; an invalid parameter, header or percent-encoding, or too many parameters.',
  UnknownParent: 'An item of an unknown collection, or a value inside an unknown item.',
  Unauthenticated: 'Credentials are missing, wrong, expired or revoked; `WWW-Authenticate` lists the schemes.',
  Forbidden: 'The role does not suffice, or the request comes from a page of a forbidden origin.',
  NotFound: 'There is no such collection, item, event or file; also for a write to an item of an unknown collection.',
  MethodNotAllowed: 'The resource has no such method; `Allow` lists those that it has.',
  NotAcceptable: 'None of the available formats is acceptable.',
  Conflict:
    'The `id` differs from that of the path, would be changed by a patch, or exists already; a `test` of a JSON Patch fails; an item is sent to a single object, or has the natural key of another; or the `journal` of `/events` is not that of the server.',
  PreconditionFailed:
    'The condition of `If-Match`, `If-None-Match` or `If-Unchanged-Since` does not hold. Nothing was written.',
  Gone: 'A past state of a collection of which more than `Limits.PastItems` items have expired since.',
  TooLarge: 'A body beyond `Limits.BodyBytes`, or a batch beyond `Limits.BatchBytes` or `Limits.BatchItems`.',
  UriTooLong:
    'A query beyond `Limits.QueryBytes`; or a request line beyond `Limits.HeaderBytes`, after which the connection is closed.',
  UnsupportedMediaType:
    'A missing or unsupported content type, a charset other than UTF-8, or an unknown `Content-Encoding`. `Accept`, for PATCH `Accept-Patch`, and for codings `Accept-Encoding` list what is supported.',
  Unprocessable:
    'JSON, but not an object; an item of more than `Limits.BodyBytes` without its `id`, as the server writes it; an item or a body of more than `Limits.ItemValues` values; a number beyond 2^53; an unacceptable id or collection name; an item that violates the schema; a well-formed patch that cannot be applied; an `Idempotency-Key` of another request; a request that would not fit into memory; settings or a data file with a mistake.',
  Misdirected: 'The `Host` is not a name of the server.',
  TooManyRequests:
    'Too many wrong credentials, passwords at once, or open event streams from the address; or too many whole results are being sent.',
  Unavailable:
    'Writes are impossible at the moment, the journal cannot be read, the server is stopping, it has too many connections or open files, or its memory for requests is in use. Nothing was written.',
  Lagging: 'The position in `Wait-For-Position` is not available yet.',
  OutcomeUnknown:
    'The write may have been stored, or may be later, mostly in a cluster; a retry with the same `Idempotency-Key` is stored once.',
  DiskFull: 'Nothing was stored; reads continue, and writes when there is space.',
  Simulated: 'An error of `Simulate.Error`; nothing was changed.',
}

const HEADERS: Readonly<Record<number, readonly HeaderName[]>> = {
  405: ['Allow'],
  429: ['Retry-After'],
  503: ['Retry-After'],
}

const CODES = Object.keys(PROBLEM_TEXTS) as RefusalCode[]

/** The responses with problems, by the names of their components: one for each status. */
export const responses: Readonly<Record<string, JsonObject>> = {
  ...Object.fromEntries(
    CODES.map((code) => {
      const { status } = PROBLEMS[code]
      const all = CODES.filter((other) => PROBLEMS[other].status === status)
      return [`Problem${status}`, problem(all[0] as RefusalCode, all.map((one) => PROBLEM_TEXTS[one]).join(' '))]
    }),
  ),
  Problem: problem('MethodNotAllowed', `Any other problem. ${PROBLEM_TEXTS.MethodNotAllowed}`),
}

function problem(code: RefusalCode, description: string): JsonObject {
  const { status } = PROBLEMS[code]
  const example = {
    type: `urn:recollect:problem:${code}`,
    ...PROBLEMS[code],
    detail: 'An explanation for people.',
    instance: '/api/sensors/1',
    ...(status === 422 && { errors: [{ pointer: '/name', message: 'must be string' }] }),
  }
  return {
    description,
    headers: headerRefs([...(HEADERS[status] ?? []), 'Journal-Position', 'X-Request-Id']),
    content: { 'application/problem+json': { schema: ref('Problem'), example } },
  }
}

export function problemRefs(statuses: readonly number[]): JsonObject {
  return Object.fromEntries(statuses.map((status) => [status, ref(`Problem${status}`, 'responses')]))
}
