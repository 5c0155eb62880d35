import type { JsonObject } from '../../json/value.ts'
import { OPERATORS } from '../../query/filter.ts'
import { DEPENDENT_PARAMETERS } from '../../query/json-server.ts'
import type { ParameterDescription } from '../../query/parameter.ts'
import { LIST_PARAMETERS } from '../../query/query.ts'
import { EVENT_PARAMETERS, type EventParameterName } from '../event-parameters.ts'
import { BULK_PARAMETERS, KEY_BYTES, NAMES_PARAMETERS, PREFERENCES, type Preference, REQUEST_ID } from '../requests.ts'
import { anyText, ref } from './references.ts'

const someText = { type: 'string', minLength: 1 }
const position = { type: 'integer', minimum: 0 }

type ParameterObject = JsonObject & {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly description: string
}

function path(name: string, description: string, schema: JsonObject = someText): ParameterObject {
  return { name, in: 'path', required: true, description, schema }
}

function query(name: string, { description, schema }: ParameterDescription): ParameterObject {
  return { name, in: 'query', description, schema, ...(schema.type === 'array' && { style: 'form', explode: false }) }
}

/** The parameters of a query, by their names behind a prefix. */
function queries<Prefix extends string, Name extends string>(
  prefix: Prefix,
  described: Readonly<Record<Name, ParameterDescription>>,
) {
  const all = Object.entries<ParameterDescription>(described).map(([name, one]) => [prefix + name, query(name, one)])
  return Object.fromEntries(all) as Readonly<Record<`${Prefix}${Name}`, ParameterObject>>
}

function sent(name: string, description: string, schema: JsonObject = anyText): ParameterObject {
  return { name, in: 'header', description, schema }
}

function prefer(...preferences: readonly Preference[]): ParameterObject {
  const texts = preferences.map((preference) => `\`${preference}\`: ${PREFERENCES[preference]}`)
  return sent('Prefer', `${texts.join('; ')} (RFC 7240).`)
}

const FILTERS = `Any other parameter is a filter: \`<field>=<value>\`, or \`<field>_<operator>=<value>\` with ${OPERATORS.map((operator) => `\`${operator}\``).join(', ')}. \`in\` takes a list with commas, \`exists\` \`true\` or \`false\`; \`like\` (contains, also of numbers and booleans), \`istartswith\` and \`iendswith\` ignore case; \`<field>:<operator>\` as in json-server 1.0 is understood, too. A field may be a dotted path. All filters must hold; of one given twice either (with \`ne\` neither). \`id[]=1&id[]=3\` is \`id=1&id=3\`. GET ignores \`_\`, \`_dc\`, \`_t\` and \`_delay\`.`

/** The parameters of all operations. They have no defaults, because tools send them, and mixed paging parameters are rejected. */
export const parameters = {
  collection: path('collection', "A collection's name, or that of a single object."),
  id: path('id', "The text of the item's `id`, compared verbatim: `007` is not `7`."),
  rest: path(
    'rest',
    'The path to a value inside the item: names of members; in an array the `id` of an element, or its index where no element has an `id`. Any number of segments, each percent-encoded.',
  ),
  filters: {
    ...query('filters', { description: FILTERS, schema: { type: 'object', additionalProperties: anyText } }),
    style: 'form',
    explode: true,
    example: {},
  },
  ...queries('', { ...LIST_PARAMETERS, ...DEPENDENT_PARAMETERS, ...BULK_PARAMETERS, ...NAMES_PARAMETERS }),
  // Some have the name of another parameter of a list.
  ...queries('events.', EVENT_PARAMETERS),
  position: path('position', 'The position of an event, from 1.', position),
  'If-Match': sent('If-Match', 'Write only when the item has one of these entity tags; `*`: when it exists.'),
  'If-None-Match': sent(
    'If-None-Match',
    'Reading: 304 if the resource has one of these entity tags. Writing: only if it has none of them; `*`: only if it does not exist.',
  ),
  'If-Unchanged-Since': sent(
    'If-Unchanged-Since',
    'Write only when the item exists and has no event after this position, which `Journal-Position` tells of a read. Restore only when nothing that would change has one.',
    position,
  ),
  'Idempotency-Key': sent(
    'Idempotency-Key',
    'Any text that does not end with `:part`. The same key and request within 24 hours gets the first response again, and writes nothing; a deletion in several writes that was interrupted continues.',
    { ...someText, maxLength: KEY_BYTES },
  ),
  'Wait-For-Position': sent(
    'Wait-For-Position',
    'Wait until this position is available, the `Journal-Position` of an earlier response: so a client reads its own write at any node of a cluster. 503 after `Limits.WaitSeconds`.',
    position,
  ),
  Prefer: prefer('return=representation'),
  PreferOnDelete: prefer('atomic'),
  PreferOnPut: prefer('return=representation', 'only-if-newer'),
  PreferOnPost: prefer('return=representation', 'handling=lenient'),
  'Last-Event-ID': sent('Last-Event-ID', 'As `text/event-stream`: resume after this position.'),
  'X-Request-Id': sent('X-Request-Id', 'An id of the request for the journal and the log. Invalid ones are ignored.', {
    type: 'string',
    pattern: REQUEST_ID.source,
  }),
} as const satisfies Readonly<Record<string, ParameterObject>>

export type ParameterName = keyof typeof parameters

export const OF_EVENTS = (Object.keys(EVENT_PARAMETERS) as EventParameterName[]).map(
  (name) => `events.${name}` as const,
)

function header(description: string, schema: JsonObject = anyText): JsonObject {
  return { description, schema }
}

/** The headers of all responses. */
export const headers = {
  ETag: header('The entity tag of the response; for an item a hash of its data: equal data has an equal tag.'),
  Location: header('The path of the created resource.'),
  Link: header('The pages `first`, `prev`, `next` and `last` (RFC 8288), as paths; every other parameter is kept.'),
  'Recollect-Hint': header(
    'Fields of the query that no item of the collection has; of a write the ids that the server replaced, and event times that are not valid.',
  ),
  'X-Total-Count': header('Number of matching items on all pages.', position),
  'Journal-Position': header(
    'The position of the write (of its last event), or the position that a read reflects. Every response under `/api` has it.',
    position,
  ),
  'X-Request-Id': header('The id of the request in the journal and in the log.'),
  Allow: header('The methods that are allowed here.'),
  'Accept-Patch': header('The media types of PATCH (RFC 5789).'),
  'Retry-After': header('Seconds.', position),
  'Preference-Applied': header('The applied preference of `Prefer`.'),
  Vary: header('`Accept`: the representations have one address.'),
  'Cache-Control': header('How long the response may be cached.'),
} as const satisfies Readonly<Record<string, JsonObject>>

export type HeaderName = keyof typeof headers

export function headerRefs(names: readonly HeaderName[]): JsonObject {
  return Object.fromEntries(names.map((name) => [name, ref(name, 'headers')]))
}
