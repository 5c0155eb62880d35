/** Why a request is refused. Stable: tests and clients rely on the code, never on the message. */
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
  | 'TooLarge'
  | 'UnsupportedMediaType'
  | 'Unprocessable'
  | 'Misdirected'
  | 'TooManyRequests'
  | 'Unavailable'
  | 'OutcomeUnknown'
  | 'Lagging'
  | 'DiskFull'
  | 'Simulated'

/** One thing that is wrong inside a body: a JSON Pointer (RFC 6901) and a sentence. */
export interface Fault {
  readonly pointer: string
  readonly message: string
}

/** The expected "no": an answer, not an accident. Any other throw is a bug or a broken disk. */
export class Refusal extends Error {
  readonly code: RefusalCode
  readonly faults: readonly Fault[]

  constructor(code: RefusalCode, message: string, faults: readonly Fault[] = []) {
    super(message)
    this.name = 'Refusal'
    this.code = code
    this.faults = faults
  }
}

/** What is on disk cannot be trusted or does not fit together. Nothing was changed; a person must decide. */
export class Corruption extends Error {
  override readonly name = 'Corruption'
}

/** The process ends before the work is complete. */
export class Ended extends Error {}

/** The journal is not the one that a file beside it was written from: it lost its end, or it is another one. */
export class JournalMismatch extends Error {
  override readonly name = 'JournalMismatch'
}

/** Another process holds what only one may hold. */
export class Locked extends Error {
  override readonly name = 'Locked'
}

/** Whether an error says that this process, or the whole system, has no file descriptor left. */
export function isOutOfDescriptors(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException | undefined)?.code
  return code === 'EMFILE' || code === 'ENFILE'
}
