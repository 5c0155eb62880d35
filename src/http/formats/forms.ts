import type { HttpRequest } from '../exchange.ts'
import { JSON_TYPE, NDJSON_TYPE } from '../media-types.ts'

export const CSV_TYPE = 'text/csv'

/** The formats of a collection by media type. */
export type Form = 'json' | 'ndjson' | 'csv'

export const TYPES: Readonly<Record<Form, string>> = { json: JSON_TYPE, ndjson: NDJSON_TYPE, csv: CSV_TYPE }

const FORMS = Object.entries(TYPES) as readonly (readonly [Form, string])[]

/** The format that a request prefers, JSON by default; undefined if it accepts none. */
export function formOf(request: HttpRequest): Form | undefined {
  const { accept } = request.headers
  if (accept === undefined || accept === '*/*' || accept === JSON_TYPE) return 'json'
  const accepted = request.accepts(Object.values(TYPES))
  return FORMS.find(([, type]) => type === accepted)?.[0]
}
