import { hash } from 'node:crypto'

/** The strong entity tag (RFC 9110 §8.8.3) of a JSON text, with its quotes. */
export function tagOf(text: string): string {
  // JSON.stringify makes a flat string. A concatenated one would be flattened anew for each response.
  return JSON.stringify(hash('sha256', text, 'base64url').slice(0, 27))
}
