import type { IncomingHttpHeaders } from 'node:http'

/** The preferences of writes (RFC 7240), for the check and for OpenAPI. */
export const PREFERENCES = {
  'return=representation': 'answer with the item',
  'handling=lenient': 'leave out the items of a batch that cannot be created, with a result for each',
  'only-if-newer': 'leave an item as it is that has the same event time or a later one',
} as const

export type Preference = keyof typeof PREFERENCES

const PATTERNS = Object.fromEntries(
  Object.keys(PREFERENCES).map((preference) => [preference, patternOf(preference)]),
) as Readonly<Record<Preference, RegExp>>

/** Parameters after a semicolon are ignored, and the value may be quoted. */
function patternOf(preference: string): RegExp {
  const [name, value] = preference.split('=')
  // An empty value is none.
  const assigned = value === undefined ? '(=\\s*(""\\s*)?)?' : `=\\s*"?${value}"?\\s*`
  return new RegExp(`^\\s*${name}\\s*${assigned}(;|$)`, 'i')
}

/** A quoted value, also one without its end, so that the search takes linear time. */
const QUOTED = /"(?:[^"\\]|\\.)*(?:"|\\?$)/g

/** Whether the `Prefer` header has the preference; of repeated ones the first counts (RFC 7240 §2). */
export function prefers({ prefer }: IncomingHttpHeaders, wanted: Preference): boolean {
  if (prefer === undefined) return false
  const [name] = wanted.split('=')
  // A comma in a quoted value separates nothing.
  const preferences = String(prefer)
    .replace(QUOTED, (quoted) => quoted.replaceAll(',', ' '))
    .split(',')
  const first = preferences.find((preference) => /^\s*([^\s=;]*)/.exec(preference)?.[1]?.toLowerCase() === name)
  return first !== undefined && PATTERNS[wanted].test(first)
}
