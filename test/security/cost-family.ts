/** A request of about so many bytes, of which a part grows until it meets a limit. */
export interface CostlyRequest {
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string | string[]>>
  readonly body?: string | Uint8Array
  /** The whole request, in place of all that. */
  readonly bytes?: string
}

export interface Family {
  /** Bytes that the limits admit. */
  readonly most: number
  readonly request: (bytes: number) => CostlyRequest
}

/** The API key of an admin, where authentication is on. */
export const KEY = 'admin-key-123456'

export const HEADERS = 31_000

/** As many pieces as there is room for. */
export function fill(bytes: number, piece: (index: number) => string, between = ''): string {
  const pieces: string[] = []
  for (let left = bytes; left > 0; ) {
    const text = piece(pieces.length)
    left -= text.length + between.length
    if (left >= 0) pieces.push(text)
  }
  return pieces.join(between)
}

export const POST: CostlyRequest = {
  method: 'POST',
  path: '/api/things',
  headers: { 'Content-Type': 'application/json' },
  body: '{}',
}
