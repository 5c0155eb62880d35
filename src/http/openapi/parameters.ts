/** The parameters of all operations, by name. */

import type { JsonObject } from '../../json/value.ts'
import { FILLS } from '../../query/aggregate/aggregation.ts'
import { DEFAULT_PAGE_SIZE } from '../../query/query.ts'
import { EVENT_PARAMETERS, type EventParameterName } from '../event-parameters.ts'

const text = { type: 'string' }

function path(name: string, description: string, schema: JsonObject = text): JsonObject {
  return { name, in: 'path', required: true, description, schema }
}

function query(name: string, description: string, schema: JsonObject = text): JsonObject {
  return { name, in: 'query', description, schema }
}

function list(name: string, description: string): JsonObject {
  return { ...query(name, description, { type: 'array', items: text }), style: 'form', explode: false }
}

function requestHeader(name: string, description: string, schema: JsonObject = text): JsonObject {
  return { name, in: 'header', description, schema }
}

const fromOne = { type: 'integer', minimum: 1 }
const fromZero = { type: 'integer', minimum: 0 }

/** Those of `/events`, some of which have the name of another parameter of a list. */
function eventParameters(): Readonly<Record<`events.${EventParameterName}`, JsonObject>> {
  return Object.fromEntries(
    Object.entries(EVENT_PARAMETERS).map(([name, { description, schema }]) => [
      `events.${name}`,
      query(name, description, schema),
    ]),
  ) as ReturnType<typeof eventParameters>
}

/** Without defaults, because tools send them, and mixed paging parameters are rejected. */
export const parameters = {
  collection: path('collection', "A collection's name, or that of a single object.", { type: 'string', minLength: 1 }),
  id: path('id', "The text of the item's `id`, compared verbatim: `007` is not `7`.", { type: 'string', minLength: 1 }),
  rest: path(
    'rest',
    'The path to a value inside the item: names of members; in an array the `id` of an element, or else its index. Any number of segments, each percent-encoded.',
    { type: 'string', minLength: 1 },
  ),
  filters: {
    ...query(
      'filters',
      'Any other parameter is a filter: `<field>=<value>`, or `<field>_<operator>=<value>` with `eq`, `ne`, `gt`, `gte`, `lt`, `lte`, `in`, `contains`, `startswith`, `endswith`, `exists`, and `like`, `istartswith`, `iendswith`, which ignore case; `<field>:<operator>` as in json-server 1.0 is understood, too. A field may be a dotted path. All filters must hold; of one given twice either (with `ne` neither).',
      { type: 'object', additionalProperties: text },
    ),
    style: 'form',
    explode: true,
    example: {},
  },
  q: query('q', 'Text that occurs in any value of the item, ignoring case.'),
  sort: list(
    'sort',
    '`<field>_asc`, `<field>_desc`, `<field>`, `+<field>` or `-<field>`. Items without the field come last.',
  ),
  page: query('page', 'The page, from 1. With `pageSize` or `per_page`.', fromOne),
  pageSize: query('pageSize', `Items on a page; ${DEFAULT_PAGE_SIZE} by default.`, fromOne),
  per_page: query('per_page', 'The same as `pageSize`.', fromOne),
  skip: query('skip', 'Number of items to skip. With `take`.', fromZero),
  take: query('take', 'Highest number of items.', fromOne),
  offset: query('offset', 'Number of items to skip. With `limit`.', fromZero),
  limit: query('limit', 'Highest number of items.', fromOne),
  all: query('all', '`true`: the whole result as a stream, instead of a page.', { type: 'boolean' }),
  dryRun: query('dryRun', '`true`: only say what would be deleted or replaced.', { type: 'boolean' }),
  fields: list('fields', 'Only these fields of each item; dotted paths keep their nesting.'),
  _embed: list(
    '_embed',
    'Shows in each item the items of these collections that refer to it by `<singular>Id`; or, of a singular, the item that it refers to.',
  ),
  _expand: list('_expand', 'Shows in each item the one that it refers to by `<name>Id`: `_expand=post` by `postId`.'),
  _dependent: list(
    '_dependent',
    'Also deletes the items of these collections that refer to the item by `<singular>Id`, in the same write.',
  ),
  aggregate: list(
    'aggregate',
    'Rows instead of items: `count`, `avg(field)`, `sum(field)`, `min(field)`, `max(field)`, `first(field)`, `last(field)`, and percentiles such as `p95(field)`.',
  ),
  groupBy: list('groupBy', 'A row for each combination of values of these fields. With `aggregate`.'),
  window: query('window', 'A row for each window of event time, such as `15m`, `1h` or `1d`. With `aggregate`.'),
  tz: query('tz', 'The time zone of the windows, such as `Europe/Helsinki`. With `window`.'),
  fill: query('fill', 'Rows of windows without items: none, with null, or with the values before. With `window`.', {
    type: 'string',
    enum: [...FILLS],
  }),
  distinct: query('distinct', 'The values of this field instead of items, in their order.'),
  newestBy: query('newestBy', 'Only the newest item of each value of this field, by event time.'),
  asOf: query(
    'asOf',
    'The state right after the event at this position, or after the last event up to this ISO 8601 instant. Positions beyond the last one and future instants are refused.',
  ),
  ...eventParameters(),
  position: path('position', 'The position of an event, from 1.', fromZero),
  asset: path('name', 'The name of a file.'),
  'If-Match': requestHeader('If-Match', 'Write only when the item has one of these entity tags; `*`: when it exists.'),
  'If-None-Match': requestHeader(
    'If-None-Match',
    'Reading: 304 if the resource has one of these entity tags. Writing: only if it has none of them; `*`: only if it does not exist.',
  ),
  'Idempotency-Key': requestHeader(
    'Idempotency-Key',
    'Any text. The same key and request within 24 hours gets the first response again, and writes nothing.',
    { type: 'string', minLength: 1, maxLength: 255 },
  ),
  'Wait-For-Position': requestHeader(
    'Wait-For-Position',
    'Wait until this position is available, the `Journal-Position` of an earlier response: so a client reads its own write at any node of a cluster. 503 after `Limits.WaitSeconds`.',
    { type: 'integer', minimum: 0 },
  ),
  Prefer: requestHeader('Prefer', '`return=representation`: answer with the item (RFC 7240).'),
  PreferOnPut: requestHeader(
    'Prefer',
    '`return=representation`: answer with the item; `only-if-newer`: leave an item as it is that has the same event time or a later one (RFC 7240).',
  ),
  PreferOnPost: requestHeader(
    'Prefer',
    '`return=representation`: answer with the item; `handling=lenient`: leave out the items of a batch that cannot be created, with a result for each (RFC 7240).',
  ),
  'Last-Event-ID': requestHeader('Last-Event-ID', 'As `text/event-stream`: resume after this position.'),
  'X-Request-Id': requestHeader(
    'X-Request-Id',
    'An id of the request for the journal and the log. Invalid ones are ignored.',
    { type: 'string', pattern: '^[\\w.:+/=-]{1,128}$' },
  ),
} as const satisfies Readonly<Record<string, JsonObject>>

export type ParameterName = keyof typeof parameters
