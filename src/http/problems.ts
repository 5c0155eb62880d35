import type { Rejection } from '../commands/command.ts'
import { JournalDamage, unreadableText } from '../events/damage.ts'
import { Corruption, isOutOfDescriptors, Refusal, type RefusalCode } from '../runtime/errors.ts'
import { type LimitedLog, TEN_IN_TEN_SECONDS } from '../runtime/limited-log.ts'
import { OutOfMemory } from '../runtime/memory.ts'
import { Abandoned } from '../runtime/turns.ts'
import { UnsupportedBody } from './bodies.ts'
import type { HttpRequest, Reply } from './exchange.ts'

interface ProblemType {
  readonly status: number
  readonly title: string
}

/** Status codes and titles of all refusals. */
export const PROBLEMS: Readonly<Record<RefusalCode, ProblemType>> = {
  Invalid: { status: 400, title: 'The request is not valid' },
  UnknownParent: { status: 400, title: 'The parent does not exist' },
  Unauthenticated: { status: 401, title: 'Credentials are needed' },
  Forbidden: { status: 403, title: 'Not allowed' },
  NotFound: { status: 404, title: 'Not found' },
  MethodNotAllowed: { status: 405, title: 'Method not allowed' },
  NotAcceptable: { status: 406, title: 'Not acceptable' },
  Conflict: { status: 409, title: 'In conflict with the current state' },
  PreconditionFailed: { status: 412, title: 'Precondition failed' },
  Gone: { status: 410, title: 'No longer available' },
  TooLarge: { status: 413, title: 'The body is too large' },
  UriTooLong: { status: 414, title: 'The address is too long' },
  UnsupportedMediaType: { status: 415, title: 'Unsupported media type' },
  Unprocessable: { status: 422, title: 'Understood, but not processable' },
  Misdirected: { status: 421, title: 'Not the server of this host' },
  TooManyRequests: { status: 429, title: 'Too many requests' },
  Unavailable: { status: 503, title: 'Not possible at the moment' },
  Lagging: { status: 503, title: 'That position is not here yet' },
  OutcomeUnknown: { status: 504, title: 'It is not known whether this was stored' },
  DiskFull: { status: 507, title: 'The disk is full' },
  Simulated: { status: 500, title: 'A simulated error' },
}

/** Error codes of OAuth 2 (RFC 6749 §5.2). */
export const OAUTH_ERRORS = ['invalid_client', 'invalid_request', 'unsupported_grant_type'] as const
type OAuthError = (typeof OAUTH_ERRORS)[number]

/** A refusal of `/token`, which OAuth 2 clients understand by the member `error`. */
export class OAuthRefusal extends Refusal {
  readonly error: OAuthError

  constructor(code: RefusalCode, error: OAuthError, message: string) {
    super(code, message)
    this.error = error
  }
}

export const PROBLEM_TYPE = 'application/problem+json'

/** Responds with the problem of an error (RFC 9457). Unexpected errors and failures of the environment are logged. */
export function replyProblem(
  error: unknown,
  { method, base, path, requestId }: Pick<HttpRequest, 'method' | 'base' | 'path' | 'requestId'>,
  reply: Reply,
  log: LimitedLog,
): void {
  const facts = { requestId, method }
  const instance = base + path
  const refusal = error instanceof Refusal ? error : refusalOf(error)
  if (!refusal) {
    log.error({ err: error, ...facts }, 'a request failed unexpectedly', TEN_IN_TEN_SECONDS)
    const unexpected = { status: 500, title: 'An unexpected error' }
    const members = membersOf('Unexpected', unexpected, 'The server has logged what went wrong.', instance, [])
    reply.send(PROBLEM_TYPE, JSON.stringify(members), unexpected.status)
    return
  }
  const { code, message, faults, cause, progress } = refusal
  if (cause !== undefined) log.error({ err: cause, ...facts }, `a request failed: ${failureOf(refusal)}`)
  if (refusal instanceof UnsupportedBody) reply.set(refusal.header, refusal.accepted)
  if (code === 'Unavailable' || code === 'Lagging') reply.set('Retry-After', '1')
  const members = membersOf(code, PROBLEMS[code], message, instance, faults)
  const oauth = refusal instanceof OAuthRefusal && { error: refusal.error }
  const all = { ...members, ...oauth, ...progress, ...unreadable(cause) }
  reply.send(PROBLEM_TYPE, JSON.stringify(all), PROBLEMS[code].status)
}

/** The refusal for an error of the environment, without paths, as anybody may see it; undefined for a bug. */
function refusalOf(error: unknown): Refusal | undefined {
  if (isOutOfDescriptors(error)) {
    const why = 'The server has too many files and connections open. Nothing was changed.'
    return new Refusal('Unavailable', why, [], { cause: error })
  }
  if (error instanceof JournalDamage) {
    const why = `${unreadableText(error.damage)} /health says how to repair it.`
    return new Refusal('Unavailable', why, [], { cause: error })
  }
  if (error instanceof Corruption) {
    const why = 'The journal cannot be read: a part of it was removed, shortened or damaged while the server runs.'
    return new Refusal('Unavailable', `${why} The server has logged where.`, [], { cause: error })
  }
  return undefined
}

/** The members of a problem that tell clients where the journal can be read again. */
function unreadable(cause: unknown): object {
  if (!(cause instanceof JournalDamage)) return {}
  const { position: firstUnreadable, next: nextReadable } = cause.damage
  return { firstUnreadable, nextReadable }
}

function failureOf({ code, cause }: Refusal): string {
  if (code === 'DiskFull') return 'the disk is full'
  return isOutOfDescriptors(cause) ? 'too many files are open' : 'what it reads is damaged or was removed'
}

/** The problem of one item of a batch. */
export function problemIn({ code, message, faults }: Rejection): object {
  return membersOf(code, PROBLEMS[code], message, undefined, faults)
}

function membersOf(
  code: string,
  { status, title }: ProblemType,
  detail: string,
  instance: string | undefined,
  errors: readonly object[],
): object {
  const type = `urn:recollect:problem:${code}`
  const places = errors.length > 0 || status === 422 ? { errors } : {}
  return { type, title, status, detail, instance, ...places }
}

/** Logs why a response that had begun ended early, unless its client went away. */
export function logEndedEarly(log: LimitedLog, error: unknown, facts: object = {}): void {
  if (error instanceof OutOfMemory)
    log.warn({ ...facts, reason: error.message }, 'a response was cut', TEN_IN_TEN_SECONDS)
  else if (!isClientGone(error)) log.error({ ...facts, err: error }, 'a response failed', TEN_IN_TEN_SECONDS)
}

/** Whether the client disconnected during the request, which is no error of the server. */
function isClientGone(error: unknown): boolean {
  if (error instanceof Abandoned) return true
  const { code = '' } = error as { readonly code?: string }
  return ['EPIPE', 'ECONNRESET', 'ERR_STREAM_PREMATURE_CLOSE', 'HPE_INVALID_EOF_STATE'].includes(code)
}
