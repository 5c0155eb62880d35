/** An error response of the server (RFC 9457, docs/api.md "Errors"). */
export class Problem extends Error {
  /** The HTTP status. */
  readonly status: number
  /** `urn:recollect:problem:<code>`. */
  readonly type: string
  /** The message for people; programs should use `code`. */
  readonly detail: string
  /** The invalid places in the request, if any. */
  readonly errors: readonly { readonly pointer: string; readonly message: string }[]
  /** The Retry-After header in seconds. */
  readonly retryAfter: number | undefined
  /** Where the journal is damaged, if the events that were asked for cannot be read. */
  readonly firstUnreadable: number | undefined
  /** Where reading can continue behind the damage; undefined at the end of the journal. */
  readonly nextReadable: number | undefined

  constructor(document: ProblemDocument, retryAfter?: number) {
    const { status, type, title, detail, errors, firstUnreadable, nextReadable } = document
    // HTTP/2 has no reason phrase, which leaves the title empty.
    super(detail || title || `status ${status}`)
    this.name = 'Problem'
    this.status = status
    this.type = type ?? 'about:blank'
    this.detail = detail ?? ''
    this.errors = errors ?? []
    this.retryAfter = retryAfter
    this.firstUnreadable = firstUnreadable
    this.nextReadable = nextReadable
  }

  /** The last part of `type`: `NotFound`, `PreconditionFailed`, `Unprocessable`… */
  get code(): string {
    return this.type.slice(this.type.lastIndexOf(':') + 1)
  }
}

/**
 * The server could not be reached, or the connection was lost before the end of the response. `cause` is the error of
 * `fetch`.
 */
export class Unreachable extends TypeError {
  constructor(cause: TypeError) {
    super('The connection to the server failed.', { cause })
    this.name = 'Unreachable'
  }
}

/** Rethrows an error of `fetch` or of a response body. Only those of the network are a `TypeError`. */
export function rethrown(error: unknown): never {
  throw error instanceof TypeError ? new Unreachable(error) : error
}

interface ProblemDocument {
  readonly status: number
  readonly type?: string | undefined
  readonly title?: string | undefined
  readonly detail?: string | undefined
  readonly errors?: Problem['errors'] | undefined
  readonly firstUnreadable?: number | undefined
  readonly nextReadable?: number | undefined
}

/** Creates a Problem from a response. Without a problem document, as from a proxy, the status describes it. */
export async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text().catch(rethrown)
  const isProblem = response.headers.get('Content-Type')?.startsWith('application/problem+json')
  const document = isProblem ? (JSON.parse(text) as ProblemDocument) : { title: response.statusText }
  const retryAfter = Number(response.headers.get('Retry-After') ?? Number.NaN)
  return new Problem({ ...document, status: response.status }, Number.isNaN(retryAfter) ? undefined : retryAfter)
}

/** A problem reported over a socket, or found before a request was sent. */
export function problem(code: string, status: number, detail: string): Problem {
  return new Problem({ status, type: `urn:recollect:problem:${code}`, detail })
}

/** Whether the server responded with one of these statuses. */
export function hasStatus(error: unknown, ...statuses: readonly number[]): error is Problem {
  return error instanceof Problem && statuses.includes(error.status)
}

/** The delay before what failed is tried again: a second, or what the server asks for. */
export function retryDelayMs(error?: unknown): number {
  return 1000 * Math.max(1, error instanceof Problem ? (error.retryAfter ?? 0) : 0)
}
