/** The parameters of all operations, by name. */

import { EVENT_TYPES } from '../../events/event.ts'
import type { JsonObject } from '../../json/value.ts'
import { FILLS } from '../../projections/query/aggregate/aggregation.ts'
import { DEFAULT_PAGE_SIZE } from '../../projections/query/query.ts'

type Named = Readonly<Record<string, JsonObject>>

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

/** Without defaults, because tools send them, and mixed paging parameters are rejected. */
export const parameters = {
  collection: path('collection', "A collection's name, or that of a single object.", { type: 'string', minLength: 1 }),
  id: path('id', "The text of the item's `id`, compared verbatim: `007` is not `7`.", { type: 'string', minLength: 1 }),
  rest: path(
    'rest',
    'The way to a value inside the item: the names of members; in an array the `id` of an element, else its index. Any number of segments, each percent-encoded.',
    { type: 'string', minLength: 1 },
  ),
  filters: {
    ...query(
      'filters',
      'Any other parameter is a filter: `<field>=<value>`, or `<field>_<operator>=<value>` with `eq`, `ne`, `gt`, `gte`, `lt`, `lte`, `in`, `contains`, `startswith`, `endswith`, `exists`. A field may be a dotted path. All filters must hold; of one given twice either (with `ne` neither).',
      { type: 'object', additionalProperties: text },
    ),
    style: 'form',
    explode: true,
    example: {},
  },
  q: query('q', 'Text that occurs in any value of the item, in either case.'),
  sort: list(
    'sort',
    '`<field>_asc`, `<field>_desc`, `<field>`, `+<field>` or `-<field>`. Items without the field come last.',
  ),
  page: query('page', 'The page, from 1. With `pageSize` or `per_page`.', fromOne),
  pageSize: query('pageSize', `Items on a page; ${DEFAULT_PAGE_SIZE} when nothing is said.`, fromOne),
  per_page: query('per_page', 'The same as `pageSize`.', fromOne),
  skip: query('skip', 'How many items to pass over. With `take`.', fromZero),
  take: query('take', 'How many items to answer with.', fromOne),
  offset: query('offset', 'How many items to pass over. With `limit`.', fromZero),
  limit: query('limit', 'How many items to answer with.', fromOne),
  all: query('all', '`true`: the whole result as a stream, instead of a page.', { type: 'boolean' }),
  dryRun: query('dryRun', '`true`: only say what would be deleted or replaced.', { type: 'boolean' }),
  fields: list('fields', 'Only these fields of each item; dotted paths keep their nesting.'),
  aggregate: list(
    'aggregate',
    'Rows instead of items: `count`, `avg(field)`, `sum(field)`, `min(field)`, `max(field)`, `first(field)`, `last(field)`, and percentiles such as `p95(field)`.',
  ),
  groupBy: list('groupBy', 'A row for each combination of values of these fields. With `aggregate`.'),
  window: query('window', 'A row for each window of event time, such as `15m`, `1h` or `1d`. With `aggregate`.'),
  tz: query('tz', 'The time zone that windows begin in, such as `Europe/Helsinki`. With `window`.'),
  fill: query('fill', 'Rows of windows without items: none, with null, or with the values before. With `window`.', {
    type: 'string',
    enum: [...FILLS],
  }),
  distinct: query('distinct', 'The values of this field instead of items, in their order.'),
  newestBy: query('newestBy', 'Only the newest item of each value of this field, by event time.'),
  asOf: query(
    'asOf',
    'The answer as it was right after the event at this position, or after the last event up to this ISO 8601 instant. Beyond the last position, or in the future, is refused.',
  ),
  from: query('from', 'The first position in that order; when nothing is said, all of them.', fromZero),
  order: query('order', '`desc`: the newest first.', { type: 'string', enum: ['asc', 'desc'] }),
  events: query('limit', `How many events; ${DEFAULT_PAGE_SIZE} when nothing is said, all of them as NDJSON.`, fromOne),
  eventsCollection: query('collection', 'Only events of this collection.'),
  eventsId: query('id', 'Only events of items whose `id` has this text.'),
  type: query('type', 'Only events of this type.', { type: 'string', enum: EVENT_TYPES }),
  actor: query('actor', 'Only what this actor wrote.'),
  since: query('since', 'Only events from this ISO 8601 date or date-time on.'),
  until: query('until', 'Only events up to this ISO 8601 date or date-time.'),
  follow: query(
    'follow',
    'Whether a stream goes on with the events to come; by default server-sent events do, NDJSON does not.',
    {
      type: 'boolean',
    },
  ),
  position: path('position', 'The position of an event, from 1.', fromZero),
  asset: path('name', 'The name of a file.'),
  'If-Match': requestHeader('If-Match', 'Write only when the item has one of these entity tags; `*`: when it exists.'),
  'If-None-Match': requestHeader(
    'If-None-Match',
    'Reading: 304 when what is there has one of these entity tags. Writing: only when it has none of them; `*`: when nothing is there.',
  ),
  'Idempotency-Key': requestHeader(
    'Idempotency-Key',
    'Any text. The same key and request within 24 hours gets the first answer again, and writes nothing.',
    { type: 'string', minLength: 1, maxLength: 255 },
  ),
  'Wait-For-Position': requestHeader(
    'Wait-For-Position',
    'Answer when this position is here, as an earlier answer named it in `Journal-Position`: so a client reads what it wrote at any node of a cluster. 503 when it does not come within `Limits.WaitSeconds`.',
    { type: 'integer', minimum: 0 },
  ),
  Prefer: requestHeader('Prefer', '`return=representation`: answer with the item (RFC 7240).'),
  PreferOnPost: requestHeader(
    'Prefer',
    '`return=representation`: answer with the item; `handling=lenient`: leave out the items of a batch that cannot be created, with a result for each (RFC 7240).',
  ),
  'Last-Event-ID': requestHeader('Last-Event-ID', 'As `text/event-stream`: go on after this position.'),
  'X-Request-Id': requestHeader(
    'X-Request-Id',
    'By which the request is to be found in the journal and in the log. One of another form is passed over.',
    { type: 'string', pattern: '^[\\w.:+/=-]{1,128}$' },
  ),
} as const satisfies Named

export type ParameterName = keyof typeof parameters
