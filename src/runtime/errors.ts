/** Codes of refusals. They are stable: tests and clients rely on the code, not on the message. */
export type RefusalCode =
  | 'Invalid'
  | 'UnknownParent'
  | 'Unauthenticated'
  | 'Forbidden'
  | 'NotFound'
  | 'MethodNotAllowed'
  | 'NotAcceptable'
  | 'Conflict'
  | 'PreconditionFailed'
  | 'Gone'
  | 'TooLarge'
  | 'UriTooLong'
  | 'UnsupportedMediaType'
  | 'Unprocessable'
  | 'Misdirected'
  | 'TooManyRequests'
  | 'Unavailable'
  | 'OutcomeUnknown'
  | 'Lagging'
  | 'DiskFull'
  | 'Simulated'

/** One error in a body: a JSON Pointer (RFC 6901) and a sentence. */
export interface Fault {
  readonly pointer: string
  readonly message: string
}

/** The effect of the writes of a deletion before one failed. */
export interface Progress {
  readonly deleted: number
  readonly writes: number
}

interface RefusalOptions {
  /** A failure of the environment, which is logged. */
  readonly cause?: unknown
  readonly progress?: Progress | undefined
}

/** An expected error, which becomes an error response. Any other exception is a bug or a broken disk. */
export class Refusal extends Error {
  readonly code: RefusalCode
  readonly faults: readonly Fault[]
  readonly progress: Progress | undefined

  constructor(code: RefusalCode, message: string, faults: readonly Fault[] = [], options: RefusalOptions = {}) {
    super(message, options)
    this.name = 'Refusal'
    this.code = code
    this.faults = faults
    this.progress = options.progress
  }
}

/** Data on disk is damaged or inconsistent. Nothing was changed; an operator must decide. */
export class Corruption extends Error {
  override readonly name = 'Corruption'
}

/** The process ends before the work is complete. */
export class Ended extends Error {}

/** The journal does not match a file beside it: it lost its end, or is another one. */
export class JournalMismatch extends Error {
  override readonly name = 'JournalMismatch'
}

/** Another process holds an exclusive resource. */
export class Locked extends Error {
  override readonly name = 'Locked'
}

/** Whether the process or the system has no file descriptor left. */
export function isOutOfDescriptors(error: unknown): boolean {
  const code = (error as { readonly code?: unknown } | undefined)?.code
  return code === 'EMFILE' || code === 'ENFILE'
}
