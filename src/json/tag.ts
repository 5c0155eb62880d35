import { hash } from 'node:crypto'

/** A strong entity tag (RFC 9110 §8.8.3), quotes included, of a JSON text: same text, same tag, always. */
export function tagOf(text: string): string {
  // Joined otherwise, it would stay several strings that refer to each other, of which each answer reads all.
  return JSON.stringify(hash('sha256', text, 'base64url').slice(0, 27))
}
