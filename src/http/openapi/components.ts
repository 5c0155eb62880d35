/** What the paths of the document share, by the names under which they refer to it. */

import { EVENT_TYPES } from '../../events/event.ts'
import type { JsonObject, JsonValue } from '../../json/value.ts'
import { FILLS } from '../../projections/query/aggregate/aggregation.ts'
import { DEFAULT_PAGE_SIZE } from '../../projections/query/query.ts'
import { ANSWERS } from '../problems.ts'

type Named = Readonly<Record<string, JsonObject>>

const id = { type: ['string', 'number'] }
const position = { type: 'integer', minimum: 0 }
const text = { type: 'string' }

function object(properties: Named, required: readonly string[] = Object.keys(properties), rest?: JsonObject) {
  return { type: 'object', required, properties, ...rest }
}

const ITEM_EVENT = {
  position: { type: 'integer', minimum: 1 },
  collection: text,
  time: { type: 'string', format: 'date-time' },
  actor: text,
  requestId: text,
}
const OF_ITEM = {
  ...ITEM_EVENT,
  id: { ...id, description: 'Empty for a single object.' },
  revision: {
    type: 'integer',
    minimum: 1,
    description: 'How many events the item has had; it goes on after a deletion.',
  },
  prior: { ...position, description: "The position of the item's previous event, 0 for none." },
}

export const schemas = {
  Item: {
    type: 'object',
    description: 'A JSON object; all but the `id` is free.',
    properties: { id: { ...id, description: 'By whose text the item is found in the path. It never changes.' } },
    examples: [{ id: 1, name: 'Ada' }],
  },
  Created: object({ id }),
  MergePatch: {
    type: 'object',
    description: 'RFC 7396: its members replace those of the item, `null` removes one.',
    minProperties: 1,
    examples: [{ name: 'Grace', nickname: null }],
  },
  JsonPatch: {
    type: 'array',
    description: 'RFC 6902: all operations are applied, or none.',
    minItems: 1,
    items: {
      oneOf: [
        object({ op: { enum: ['add', 'replace', 'test'] }, path: text, value: {} }),
        object({ op: { const: 'remove' }, path: text }),
        object({ op: { enum: ['move', 'copy'] }, path: text, from: text }),
      ],
    },
    examples: [[{ op: 'replace', path: '/name', value: 'Grace' }]],
  },
  Event: {
    description: 'A fact of the journal. It holds the item that resulted.',
    oneOf: [
      object({
        type: { enum: ['ItemCreated', 'ItemReplaced', 'ItemPatched', 'ObjectCreated'] },
        ...OF_ITEM,
        item: ref('schemas', 'Item'),
      }),
      object({ type: { enum: ['ItemDeleted', 'ObjectDeleted'] }, ...OF_ITEM }),
      object({ type: { enum: ['CollectionCreated', 'CollectionRemoved'] }, ...ITEM_EVENT }),
      object({ type: { const: 'CollectionOrdered' }, ...ITEM_EVENT, ids: { type: 'array', items: id } }),
    ],
  },
  Health: object(
    {
      status: { enum: ['ok', 'degraded', 'unavailable'] },
      position: { ...position, description: 'Of the last event that is served.' },
      uptime: { type: 'integer', minimum: 0, description: 'Seconds.' },
      version: text,
      journal: { type: 'object' },
      cluster: { type: 'object', description: 'Of a node of a cluster: its role, its lag and the other nodes.' },
      dataFile: ref('schemas', 'DataFile'),
      store: { type: 'object' },
      replay: { type: 'object', description: 'Of a server that plays what was recorded.' },
      access: object({
        schemes: { type: 'array', items: { enum: ['token', 'basic', 'apikey'] }, description: 'None: it is off.' },
        actor: { type: ['string', 'null'], description: 'Who asks; null for a stranger.' },
        role: { enum: ['reader', 'writer', 'admin', null] },
      }),
    },
    ['status', 'position', 'uptime', 'version'],
  ),
  DataFile: object(
    {
      state: { enum: ['current', 'behind', 'merging', 'edited', 'invalid', 'failing'] },
      position: { ...position, description: 'Of the event that the file shows the state after.' },
      detail: { ...text, description: 'What is wrong, for admins.' },
      behind: object({
        events: { type: 'integer', minimum: 0, description: 'Number of events that the file does not show yet.' },
        bytes: { type: 'integer', minimum: 0, description: 'About how many bytes of the journal these events take.' },
      }),
      nextWrite: {
        description: 'When the file is written; null where that is not known, or it is current.',
        oneOf: [
          object({ at: { type: 'string', format: 'date-time' } }),
          object({ afterJournalBytes: { type: 'integer', minimum: 1 } }),
          { type: 'null' },
        ],
      },
    },
    ['state', 'position', 'behind', 'nextWrite'],
  ),
  Restore: {
    type: 'object',
    required: ['to'],
    additionalProperties: false,
    properties: {
      to: { type: ['integer', 'string'], description: 'A position, or an ISO 8601 instant.' },
      collection: { ...text, description: 'Only this collection.' },
      id: { ...id, description: 'Only this item of it.' },
      dryRun: { type: 'boolean', description: 'Only say what would change.' },
    },
    examples: [{ to: 42, collection: 'sensors', dryRun: true }],
  },
  Restored: object({
    position: { ...position, description: 'Of the last event.' },
    dryRun: { type: 'boolean' },
    events: { type: 'integer', minimum: 0, description: 'How many events there are, or would be.' },
    changes: {
      type: 'array',
      description: 'The first of them.',
      items: object({ type: { enum: [...EVENT_TYPES] }, collection: text, id }, ['type', 'collection']),
    },
  }),
  Verified: {
    type: 'object',
    required: ['position'],
    properties: {
      position: { ...position, description: 'Up to here all is well.' },
      of: { ...position, description: 'Where it ends; not in the last line.' },
      ok: { type: 'boolean', description: 'In the last line alone.' },
      problem: { type: 'string', description: 'What is damaged, and where.' },
    },
  },
  Snapshot: object({ position: { ...position, description: 'Of the event that the file shows the state after.' } }),
  TakenInEdit: object({
    position: { ...position, description: "Of the edit's last event." },
    events: { type: 'integer', minimum: 0, description: 'How many events the edit became.' },
    basedOn: { ...position, description: 'Of the state that the edit was made from.' },
    conflicts: {
      type: 'array',
      description: 'Items that were also written since the edited file was; the edit won, the journal has both.',
      items: object({ collection: text, id }),
    },
  }),
  Problem: object(
    {
      type: {
        enum: [...Object.keys(ANSWERS), 'Malformed', 'Unexpected'].map((code) => `urn:recollect:problem:${code}`),
      },
      title: text,
      status: { type: 'integer' },
      detail: text,
      instance: { ...text, description: "The request's path; left out when it could not be read." },
      errors: {
        type: 'array',
        description: 'With 422: what is wrong inside the body.',
        items: object({ pointer: { ...text, format: 'json-pointer' }, message: text }),
      },
    },
    ['type', 'title', 'status', 'detail'],
  ),
} as const satisfies Named

function header(description: string, schema: JsonObject = text): JsonObject {
  return { description, schema }
}

export const headers = {
  ETag: header('The entity tag of what is answered; for an item a hash of its data: same data, same tag.'),
  Location: header('Where it is, as a path.'),
  Link: header('The pages `first`, `prev`, `next` and `last` (RFC 8288), as paths; every other parameter is kept.'),
  'X-Total-Count': header('How many items match, on all pages.', { type: 'integer', minimum: 0 }),
  'Journal-Position': header(
    'The position of the write (of its last event), or the position that a read reflects. Every answer under `/api` has it.',
    position,
  ),
  'X-Request-Id': header('By which the request is found in the journal and in the log.'),
  Allow: header('The methods that are allowed here.'),
  'Accept-Patch': header('The media types of PATCH (RFC 5789).'),
  'Retry-After': header('Seconds.', { type: 'integer', minimum: 0 }),
  'Preference-Applied': header('`return=representation`, when the answer is the item because it was asked for.'),
  Vary: header('`Accept`: the representations have one address.'),
  'Cache-Control': header('How long the answer may be kept.'),
} as const satisfies Named

export type HeaderName = keyof typeof headers

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

/** Without defaults: tools send those, and two ways of counting pages in one request are refused. */
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
  'Last-Event-ID': requestHeader('Last-Event-ID', 'As `text/event-stream`: go on after this position.'),
  'X-Request-Id': requestHeader(
    'X-Request-Id',
    'By which the request is to be found in the journal and in the log. One of another form is passed over.',
    { type: 'string', pattern: '^[\\w.:+/=-]{1,128}$' },
  ),
} as const satisfies Named

export type ParameterName = keyof typeof parameters

/** When an operation answers with a problem, by status. */
const PROBLEMS = {
  400: 'No body, or one that is not well-formed; a malformed query, path, patch or header; an unknown collection above an item that is read.',
  403: 'A page of another origin asks that may not call; or the role of whoever asks does not allow this.',
  404: 'Nothing is there.',
  405: 'A list of items has no such method; `Allow` says which it has.',
  406: 'None of the representations is acceptable.',
  409: 'The `id` in the body differs from the one in the path; the patch changes it, or one of its tests fails; an item of this `id` exists already; a single object has no items.',
  412: 'The item is not, or no longer, what `If-Match` or `If-None-Match` asks for. Nothing was written.',
  413: 'The body is too large.',
  415: 'The content type is missing or not accepted here, or the content coding is not; `Accept`, `Accept-Patch` or `Accept-Encoding` says what is.',
  422: 'JSON, but not an item that is accepted, or a patch that cannot be applied; or the `Idempotency-Key` came with another request.',
  429: 'Too many wrong credentials came from this address, or it has too many streams open.',
  503: 'Not possible at the moment, and nothing was written: writing is not, the journal cannot be read, or the server has too many connections and files open; or the position in `Wait-For-Position` is not here yet.',
  504: 'In a cluster: nobody knows whether this was stored. A retry with the same `Idempotency-Key` is stored once.',
  507: 'The disk is full. Nothing was written.',
} as const

/** The same where not everybody may in. */
const ACCESS_PROBLEMS = {
  401: 'Credentials are missing, wrong, expired or revoked; `WWW-Authenticate` has the ways to say who one is.',
} as const

export type ProblemStatus = keyof typeof PROBLEMS | keyof typeof ACCESS_PROBLEMS

/** Shown by the first refusal that has the status. */
function problem(status: number, description: string, names: readonly HeaderName[] = []): JsonObject {
  const [code, answered] = Object.entries(ANSWERS).find(([, answer]) => answer.status === status) ?? []
  const example = {
    type: `urn:recollect:problem:${code}`,
    ...answered,
    detail: 'A sentence for whoever has to find out why.',
    instance: '/api/sensors/1',
    ...(status === 422 && { errors: [{ pointer: '/name', message: 'must be string' }] }),
  }
  return {
    description,
    headers: headerRefs([...names, 'Journal-Position', 'X-Request-Id']),
    content: { 'application/problem+json': { schema: ref('schemas', 'Problem'), example } },
  }
}

const HEADERS_OF: Readonly<Record<string, readonly HeaderName[]>> = {
  405: ['Allow'],
  429: ['Retry-After'],
  503: ['Retry-After'],
}

export const responses: Named = {
  ...named(PROBLEMS),
  Problem: problem(405, 'Any other problem. The one of a method that is not allowed here says in `Allow` which are.', [
    'Allow',
  ]),
}

export const accessResponses: Named = named(ACCESS_PROBLEMS)

function named(descriptions: Readonly<Record<number, string>>): Named {
  return Object.fromEntries(
    Object.entries(descriptions).map(([status, description]) => [
      problemName(status),
      problem(Number(status), description, HEADERS_OF[status]),
    ]),
  )
}

function problemName(status: string | number): string {
  return `Problem${status}`
}

export function problems(...statuses: readonly ProblemStatus[]): JsonObject {
  return Object.fromEntries(statuses.map((status) => [String(status), ref('responses', problemName(status))]))
}

export function headerRefs(names: readonly HeaderName[]): JsonObject {
  return Object.fromEntries(names.map((name) => [name, ref('headers', name)]))
}

export function parameterRefs(names: readonly ParameterName[]): readonly JsonObject[] {
  return names.map((name) => ref('parameters', name))
}

export function ref(kind: 'schemas' | 'headers' | 'parameters' | 'responses', name: string): JsonObject {
  return { $ref: `#/components/${kind}/${name}` }
}

/** Content of one schema in each of the media types. */
export function content(schema: JsonValue, ...types: readonly string[]): JsonObject {
  return Object.fromEntries(types.map((type) => [type, { schema }]))
}
