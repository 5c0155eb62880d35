/** The parameters of all operations, by name. */

import type { JsonObject } from '../../json/value.ts'
import { OPERATORS } from '../../query/filter.ts'
import { DEPENDENT_PARAMETERS } from '../../query/json-server.ts'
import { type ParameterDescription, TEXT } from '../../query/parameter.ts'
import { LIST_PARAMETERS } from '../../query/query.ts'
import { EVENT_PARAMETERS, type EventParameterName } from '../event-parameters.ts'
import { BULK_PARAMETERS, KEY_BYTES, PREFERENCES, type Preference, REQUEST_ID } from '../requests.ts'

function path(name: string, description: string, schema: JsonObject = TEXT): JsonObject {
  return { name, in: 'path', required: true, description, schema }
}

function query(name: string, { description, schema }: ParameterDescription): JsonObject {
  return { name, in: 'query', description, schema, ...(schema.type === 'array' && { style: 'form', explode: false }) }
}

function queries<Name extends string>(described: Readonly<Record<Name, ParameterDescription>>) {
  const all = Object.entries<ParameterDescription>(described).map(([name, one]) => [name, query(name, one)])
  return Object.fromEntries(all) as Readonly<Record<Name, JsonObject>>
}

function requestHeader(name: string, description: string, schema: JsonObject = TEXT): JsonObject {
  return { name, in: 'header', description, schema }
}

function prefer(...preferences: readonly Preference[]): JsonObject {
  const texts = preferences.map((preference) => `\`${preference}\`: ${PREFERENCES[preference]}`)
  return requestHeader('Prefer', `${texts.join('; ')} (RFC 7240).`)
}

/** Those of `/events`, some of which have the name of another parameter of a list. */
function eventParameters(): Readonly<Record<`events.${EventParameterName}`, JsonObject>> {
  return Object.fromEntries(
    Object.entries(EVENT_PARAMETERS).map(([name, parameter]) => [`events.${name}`, query(name, parameter)]),
  ) as ReturnType<typeof eventParameters>
}

/** Without defaults, because tools send them, and mixed paging parameters are rejected. */
export const parameters = {
  collection: path('collection', "A collection's name, or that of a single object.", { type: 'string', minLength: 1 }),
  id: path('id', "The text of the item's `id`, compared verbatim: `007` is not `7`.", { type: 'string', minLength: 1 }),
  rest: path(
    'rest',
    'The path to a value inside the item: names of members; in an array the `id` of an element, or its index where no element has an `id`. Any number of segments, each percent-encoded.',
    { type: 'string', minLength: 1 },
  ),
  filters: {
    ...query('filters', {
      description: `Any other parameter is a filter: \`<field>=<value>\`, or \`<field>_<operator>=<value>\` with ${OPERATORS.map((operator) => `\`${operator}\``).join(', ')}; \`like\`, \`istartswith\` and \`iendswith\` ignore case; \`<field>:<operator>\` as in json-server 1.0 is understood, too. A field may be a dotted path. All filters must hold; of one given twice either (with \`ne\` neither). \`id[]=1&id[]=3\` is \`id=1&id=3\`. GET ignores \`_\`, \`_dc\` and \`_t\`.`,
      schema: { type: 'object', additionalProperties: TEXT },
    }),
    style: 'form',
    explode: true,
    example: {},
  },
  ...queries({ ...LIST_PARAMETERS, ...DEPENDENT_PARAMETERS, ...BULK_PARAMETERS }),
  ...eventParameters(),
  position: path('position', 'The position of an event, from 1.', { type: 'integer', minimum: 0 }),
  'If-Match': requestHeader('If-Match', 'Write only when the item has one of these entity tags; `*`: when it exists.'),
  'If-None-Match': requestHeader(
    'If-None-Match',
    'Reading: 304 if the resource has one of these entity tags. Writing: only if it has none of them; `*`: only if it does not exist.',
  ),
  'Idempotency-Key': requestHeader(
    'Idempotency-Key',
    'Any text. The same key and request within 24 hours gets the first response again, and writes nothing.',
    { type: 'string', minLength: 1, maxLength: KEY_BYTES },
  ),
  'Wait-For-Position': requestHeader(
    'Wait-For-Position',
    'Wait until this position is available, the `Journal-Position` of an earlier response: so a client reads its own write at any node of a cluster. 503 after `Limits.WaitSeconds`.',
    { type: 'integer', minimum: 0 },
  ),
  Prefer: prefer('return=representation'),
  PreferOnPut: prefer('return=representation', 'only-if-newer'),
  PreferOnPost: prefer('return=representation', 'handling=lenient'),
  'Last-Event-ID': requestHeader('Last-Event-ID', 'As `text/event-stream`: resume after this position.'),
  'X-Request-Id': requestHeader(
    'X-Request-Id',
    'An id of the request for the journal and the log. Invalid ones are ignored.',
    { type: 'string', pattern: REQUEST_ID.source },
  ),
} as const satisfies Readonly<Record<string, JsonObject>>

export type ParameterName = keyof typeof parameters
