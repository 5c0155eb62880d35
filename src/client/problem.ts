/** What the server answers instead of what was asked for (RFC 9457, docs/api.md "Errors"). */
export class Problem extends Error {
  /** HTTP status. */
  readonly status: number
  /** `urn:recollect:problem:<code>`. */
  readonly type: string
  /** For people; `code` is what a program goes by. */
  readonly detail: string
  /** The places that are at fault, where there are any. */
  readonly errors: readonly { readonly pointer: string; readonly message: string }[]
  /** Seconds after which to try again, where the server says so. */
  readonly retryAfter: number | undefined

  constructor({ status, type, title, detail, errors }: ProblemDocument, retryAfter?: number) {
    super(detail ?? title ?? `status ${status}`)
    this.name = 'Problem'
    this.status = status
    this.type = type ?? 'about:blank'
    this.detail = detail ?? ''
    this.errors = errors ?? []
    this.retryAfter = retryAfter
  }

  /** The last part of `type`: `NotFound`, `PreconditionFailed`, `Unprocessable`… */
  get code(): string {
    return this.type.slice(this.type.lastIndexOf(':') + 1)
  }
}

interface ProblemDocument {
  readonly status: number
  readonly type?: string
  readonly title?: string
  readonly detail?: string
  readonly errors?: Problem['errors']
}

/** The problem that an answer is; one without a document (from a proxy, say) is told by its status. */
export async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text()
  const isProblem = response.headers.get('Content-Type')?.startsWith('application/problem+json')
  const document = isProblem ? (JSON.parse(text) as ProblemDocument) : { title: response.statusText }
  const retryAfter = Number(response.headers.get('Retry-After') ?? Number.NaN)
  return new Problem({ ...document, status: response.status }, Number.isNaN(retryAfter) ? undefined : retryAfter)
}

/** A problem that was told over a socket, or found before anything was asked. */
export function problem(code: string, status: number, detail: string): Problem {
  return new Problem({ status, type: `urn:recollect:problem:${code}`, detail })
}
