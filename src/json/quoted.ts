/** Printable ASCII that JSON writes as it is. */
const PLAIN = /^[ !#-[\]-~]*$/

/** A text as JSON. Most are plain: to find that out costs a third of what `JSON.stringify` does. */
export function quoted(text: string): string {
  return PLAIN.test(text) ? `"${text}"` : JSON.stringify(text)
}
