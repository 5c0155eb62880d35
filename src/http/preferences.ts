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
  const assigned = value === undefined ? '' : `\\s*=\\s*"?${value}"?`
  return new RegExp(`^\\s*${name}${assigned}\\s*(;|$)`, 'i')
}

/** Whether the `Prefer` header has the preference. */
export function prefers({ prefer }: IncomingHttpHeaders, wanted: Preference): boolean {
  return (
    prefer !== undefined &&
    String(prefer)
      .split(',')
      .some((preference) => PATTERNS[wanted].test(preference))
  )
}
