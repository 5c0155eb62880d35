import type { JsonObject } from '../../json/value.ts'

const text = { type: 'string' }

function header(description: string, schema: JsonObject = text): JsonObject {
  return { description, schema }
}

export const headers = {
  ETag: header('The entity tag of the response; for an item a hash of its data: equal data has an equal tag.'),
  Location: header('The path of the created resource.'),
  Link: header('The pages `first`, `prev`, `next` and `last` (RFC 8288), as paths; every other parameter is kept.'),
  'Recollect-Hint': header(
    'Fields of the query that no item of the collection has; of a write the ids that the server replaced, and event times that are not valid.',
  ),
  'X-Total-Count': header('Number of matching items on all pages.', { type: 'integer', minimum: 0 }),
  'Journal-Position': header(
    'The position of the write (of its last event), or the position that a read reflects. Every response under `/api` has it.',
    { type: 'integer', minimum: 0 },
  ),
  'X-Request-Id': header('The id of the request in the journal and in the log.'),
  Allow: header('The methods that are allowed here.'),
  'Accept-Patch': header('The media types of PATCH (RFC 5789).'),
  'Retry-After': header('Seconds.', { type: 'integer', minimum: 0 }),
  'Preference-Applied': header('The applied preference of `Prefer`.'),
  Vary: header('`Accept`: the representations have one address.'),
  'Cache-Control': header('How long the response may be cached.'),
} as const satisfies Readonly<Record<string, JsonObject>>

export type HeaderName = keyof typeof headers
