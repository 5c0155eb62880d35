import { isSafe } from '../../access/roles.ts'
import type { JsonObject } from '../../json/value.ts'
import { GROUPING_PARAMETERS } from '../../query/aggregate/aggregation.ts'
import { LIST_PARAMETERS } from '../../query/query.ts'
import { changesData, type Method } from '../exchange.ts'
import { CSV_TYPE } from '../formats/forms.ts'
import { EVENT_STREAM, FORM_TYPE, JSON_PATCH_TYPE, JSON_TYPE, NDJSON_TYPE, PATCH_TYPES } from '../media-types.ts'
import { type HeaderName, OF_EVENTS, type ParameterName } from './parameters.ts'
import { anyObject, anyText, content, json, ref } from './references.ts'

/** The settings that operations and responses depend on. */
export interface Offer {
  readonly isReadOnly?: boolean
  /** Whether `POST /admin/reset` is offered. */
  readonly hasReset?: boolean
  /** Responses are those of json-server where they differ. */
  readonly isJsonServer?: boolean
  /** As `Api.UseResultObject` says. */
  readonly useResultObject?: boolean
  readonly hasTokens?: boolean
  readonly hasAuthentication?: boolean
}

interface Condition {
  readonly when?: keyof Offer
  readonly unless?: keyof Offer
}

export interface Response extends Condition {
  readonly text: string
  readonly headers?: readonly HeaderName[]
  readonly body?: JsonObject
  /** Whether the JSON is a page, which may have another form. */
  readonly isPage?: true
}

export interface Operation extends Condition {
  /** In its id, if not that of the route. */
  readonly name?: string
  readonly summary: string
  readonly description?: string
  /** Besides those of the path. */
  readonly parameters?: readonly ParameterName[]
  readonly body?: JsonObject
  readonly hasOptionalBody?: true
  readonly responses: Readonly<Record<number, Response>>
  /** The status codes of its problems, besides those of authorization. */
  readonly problems?: readonly number[]
}

/** The operations of a path, and its name in their ids. */
export type Route = Condition & { readonly name: string } & Readonly<Partial<Record<Method, Operation>>>

/** Items that are read, and those that are sent, which need not have an id. The paths of a collection name its own. */
const ITEM = ref('Item')
const SENT = ref('NewItem')
const ITEMS = { type: 'array', items: ITEM }
const VALUES = { type: 'array', items: { type: ['string', 'number', 'boolean', 'null'] } }
const NAMES = { type: 'array', items: anyText }
const EVENT_TEXT = { ...anyText, description: 'An event a line, or a message with the position as id.' }
const NO_ITEMS = { type: 'array', items: {}, maxItems: 0 }
/** Lists and batches in other formats than JSON. */
const TEXTS = content(anyText, NDJSON_TYPE, CSV_TYPE)

const MERGE_TYPES = PATCH_TYPES.filter((type) => type !== JSON_PATCH_TYPE)
const JSON_PATCH = content('JsonPatch', JSON_PATCH_TYPE)

const CONDITIONS = ['If-Match', 'If-None-Match', 'If-Unchanged-Since', 'Idempotency-Key'] as const
const READ = ['asOf', 'If-None-Match', 'Wait-For-Position'] as const
const LIST = Object.keys(LIST_PARAMETERS) as (keyof typeof LIST_PARAMETERS)[]
/** Parameters with which a list does not hold whole items. */
const SHAPES: readonly string[] = ['fields', ...Object.keys(GROUPING_PARAMETERS).filter((name) => name !== 'newestBy')]

const ITEM_PROBLEMS = [400, 404, 409, 412, 413, 415, 422, 503, 504, 507] as const
const OBJECT_PROBLEMS = [...ITEM_PROBLEMS, 405] as const
const CREATE_PROBLEMS = [400, 409, 413, 415, 422, 503, 504, 507] as const

const WRITTEN = ['ETag', 'Recollect-Hint'] as const
const AT_POSITION = { headers: ['Journal-Position'] } as const
const NOT_MODIFIED: Response = { text: 'The client has the current version.', headers: ['ETag'] }
const CREATED: Response = {
  text: 'Created. The body is its `id`, or with `Prefer: return=representation` the item.',
  headers: ['Location', 'ETag', 'Preference-Applied'],
  body: json({ anyOf: [ref('Created'), ITEM] }),
}
const REPRESENTATION: Response = {
  text: 'With `Prefer: return=representation`: the item after the write.',
  headers: ['ETag', 'Preference-Applied', 'Recollect-Hint'],
  body: json(ITEM),
}
const VALUE: Response = { ...REPRESENTATION, text: 'With `Prefer: return=representation`: the value.', body: json({}) }
const PAGE: Response = {
  text: 'A page of the items that match, which past the end is empty, or with `all=true` all of them. `Link` and `X-Total-Count` come with a page.',
  headers: ['ETag', 'Link', 'Recollect-Hint', 'X-Total-Count', 'Vary'],
  body: json(ITEMS),
  isPage: true,
}
const UNCACHED = { headers: ['Cache-Control'] } as const
const HEALTH = { ...UNCACHED, body: json('Health') } as const
const RESTORATION = {
  responses: { 200: { ...AT_POSITION, text: 'The changes, also for a dry run.', body: json('Restored') } },
  problems: CREATE_PROBLEMS,
} as const

const LIST_ORDER =
  'Filters apply first, then the sort, then the page, then the fields. Paging parameters of different kinds cannot be mixed. With `all=true` the whole result is sent, as of one position.'

const CREATE_ITEMS: Operation = {
  summary: 'Create an item, or a batch of items',
  description:
    'Its `id` is one above the highest that the collection ever had. A collection that does not exist is created. A JSON list, NDJSON and CSV (with a header row of dotted paths, or the parameter header=absent) are a batch: all of its items are created in one write, or none.',
  parameters: ['Idempotency-Key', 'PreferOnPost'],
  body: { ...json({ anyOf: [SENT, { type: 'array', items: SENT }] }), ...TEXTS },
  responses: {
    200: {
      text: 'With `Prefer: handling=lenient`: a result for each item of the batch. Else the item is there already, or took the place of one that has its natural key (`Collections.<name>.Key`): the body is as of 201.',
      headers: ['Location', 'ETag', 'Preference-Applied', 'Recollect-Hint'],
      body: json({ anyOf: [ref('BatchResults'), ref('Created'), ref('CreatedItems'), ITEM] }),
    },
    201: {
      text: 'Created. The body is the `id`, with `Prefer: return=representation` the item; of a batch the `ids`, without `Location` and `ETag`.',
      headers: ['Location', 'ETag', 'Preference-Applied', 'Recollect-Hint'],
      body: json({ anyOf: [ref('Created'), ref('CreatedItems'), ITEM] }),
    },
  },
  problems: CREATE_PROBLEMS,
}

/** The path of a collection that is known to be a list of items. */
export const COLLECTION = {
  name: 'Items',
  GET: {
    summary: 'The items',
    description: `${LIST_ORDER} \`fields\`, \`aggregate\`, \`distinct\`, NDJSON and CSV work here as well, and are described at \`/api/{collection}\`.`,
    parameters: ['filters', ...LIST.filter((name) => !SHAPES.includes(name)), 'If-None-Match', 'Wait-For-Position'],
    responses: { 200: PAGE, 304: NOT_MODIFIED },
    problems: [400, 404, 406, 414, 429, 503],
  },
  POST: CREATE_ITEMS,
  PUT: {
    unless: 'isJsonServer',
    summary: 'Create the collection',
    description: 'Without a body. An existing collection is not changed.',
    parameters: ['Idempotency-Key'],
    responses: {
      201: { text: 'Created, without items.', headers: ['Location'], body: json(NO_ITEMS) },
      204: { text: 'It exists.' },
    },
    problems: [400, 422, 503, 504, 507],
  },
  DELETE: {
    unless: 'isJsonServer',
    summary: 'Delete the matching items, or the collection',
    description:
      'With filters the matching items: more than `Limits.AtomicItems` in several writes, unless `Prefer: atomic` asks for one. With `all=true` instead, all items and the collection itself; that needs the role `admin`. Without either, with a body, with an empty text to look for, or with a slash at the end of the path: 400.',
    parameters: ['filters', 'q', 'all', 'dryRun', 'Idempotency-Key', 'PreferOnDelete'],
    responses: {
      200: { text: 'Deleted.', headers: ['Preference-Applied', 'Recollect-Hint'], body: json('Deleted') },
    },
    problems: [400, 404, 414, 422, 503, 504, 507],
  },
} as const satisfies Route

/** The path of an item of a collection. */
export const COLLECTION_ITEM = {
  name: 'Item',
  GET: {
    summary: 'An item',
    parameters: ['_embed', '_expand', ...READ],
    responses: { 200: { text: 'The item.', headers: ['ETag'], body: json(ITEM) }, 304: NOT_MODIFIED },
    problems: [400, 404, 414, 503],
  },
  PUT: {
    summary: 'Replace an item',
    description:
      'With `Api.UpsertOnPut` an item (and a collection) that does not exist is created; otherwise the response is 404.',
    parameters: [...CONDITIONS, 'PreferOnPut'],
    body: json(SENT),
    responses: {
      200: {
        ...REPRESENTATION,
        text: 'With `Prefer: return=representation`: the item. With `Prefer: only-if-newer`, where the item has the same event time or a later one: it stays as it is.',
        body: json({ anyOf: [ref('NotApplied'), ITEM] }),
      },
      201: CREATED,
      204: { text: 'Replaced.', headers: WRITTEN },
    },
    problems: ITEM_PROBLEMS,
  },
  PATCH: {
    summary: 'Change parts of an item',
    parameters: [...CONDITIONS, 'Prefer'],
    body: { ...content('MergePatch', ...MERGE_TYPES), ...JSON_PATCH },
    responses: { 200: REPRESENTATION, 204: { text: 'Changed.', headers: WRITTEN } },
    problems: ITEM_PROBLEMS,
  },
  DELETE: {
    summary: 'Delete an item',
    parameters: ['_dependent', ...CONDITIONS, 'PreferOnDelete'],
    responses: {
      200: {
        text: 'The item as it was.',
        headers: ['Preference-Applied'],
        body: json(ITEM),
        when: 'isJsonServer',
      },
      204: {
        text: 'Deleted. Its `id` is never assigned again.',
        headers: ['Preference-Applied'],
        unless: 'isJsonServer',
      },
    },
    problems: [400, 404, 412, 414, 422, 503, 504, 507],
  },
} as const satisfies Route

/** The path of what is known to be a single object. */
export const OBJECT = {
  name: 'Object',
  GET: { ...COLLECTION_ITEM.GET, summary: 'The object', parameters: READ },
  PUT: {
    ...COLLECTION_ITEM.PUT,
    summary: 'Replace a single object',
    description: 'Creates it again after a deletion.',
    problems: OBJECT_PROBLEMS,
  },
  PATCH: { ...COLLECTION_ITEM.PATCH, summary: 'Change parts of a single object', problems: OBJECT_PROBLEMS },
  DELETE: {
    unless: 'isJsonServer',
    summary: 'Delete a single object',
    parameters: CONDITIONS,
    responses: { 204: { text: 'Deleted. PUT creates it again.' } },
    problems: [400, 404, 405, 412, 414, 422, 503, 504, 507],
  },
} as const satisfies Route

/** The routes by their paths in OpenAPI's form, but those of pages and files. */
export const ROUTES: Readonly<Record<string, Route>> = {
  '/api': {
    name: 'Collections',
    GET: {
      summary: 'The names of the collections and single objects',
      parameters: ['count', ...READ],
      responses: {
        200: {
          text: 'In the order of their first creation; with `count=true` an object of the numbers of items.',
          headers: ['ETag'],
          body: json(NAMES),
        },
        304: NOT_MODIFIED,
      },
      problems: [400, 414, 503],
    },
    POST: {
      unless: 'isJsonServer',
      summary: 'Replace everything',
      description:
        'The body is a data file: lists of items and single objects by their names. They take the place of all that there are, in one write, which `/admin/restore` can undo.',
      parameters: ['dryRun'],
      body: json({ type: 'object', additionalProperties: { anyOf: [{ type: 'array', items: anyObject }, anyObject] } }),
      responses: { 200: { text: 'What was changed, or would be.', body: json('Replaced') } },
      problems: [400, 413, 415, 422, 503, 504, 507],
    },
  },
  '/api/{collection}': {
    name: 'Items',
    GET: {
      ...COLLECTION.GET,
      description: `${LIST_ORDER} A row of \`aggregate\` and an item with \`fields\` may have any members; with \`distinct\` the list holds values. A single object is answered as it is.`,
      parameters: ['filters', ...LIST, 'If-None-Match', 'Wait-For-Position'],
      responses: {
        ...COLLECTION.GET.responses,
        200: { ...PAGE, body: { ...json({ anyOf: [ITEMS, VALUES, ITEM] }), ...TEXTS } },
      },
    },
    POST: CREATE_ITEMS,
    PUT: {
      ...OBJECT.PUT,
      summary: 'Create the collection, or replace a single object',
      description:
        'Without a body a collection is created, unless it exists. With a body a single object is replaced, or created again after a deletion.',
      hasOptionalBody: true,
      responses: {
        ...OBJECT.PUT.responses,
        201: {
          ...CREATED,
          text: 'Created. For a collection the body is an empty list.',
          body: json({ anyOf: [NO_ITEMS, ref('Created'), ITEM] }),
        },
        204: { text: 'Replaced; or the collection exists.', headers: WRITTEN },
      },
    },
    PATCH: OBJECT.PATCH,
    DELETE: {
      unless: 'isJsonServer',
      summary: 'Delete the matching items, the collection, or a single object',
      description: `${COLLECTION.DELETE.description} A single object has no filters.`,
      parameters: ['filters', 'q', 'all', 'dryRun', ...CONDITIONS, 'PreferOnDelete'],
      responses: { ...OBJECT.DELETE.responses, ...COLLECTION.DELETE.responses },
      problems: OBJECT.DELETE.problems,
    },
  },
  '/api/{collection}/{id}': COLLECTION_ITEM,
  '/api/{collection}/{id}/{rest}': {
    name: 'Value',
    GET: {
      summary: 'A value inside an item',
      description: 'An unknown collection or item is 400; a missing value is 404.',
      parameters: READ,
      responses: { 200: { text: 'Any JSON value.', headers: ['ETag'], body: json({}) }, 304: NOT_MODIFIED },
      problems: COLLECTION_ITEM.GET.problems,
    },
    POST: {
      ...CREATE_ITEMS,
      when: 'isJsonServer',
      name: 'Nested',
      summary: 'Create an item of another collection that refers to this one',
      description: 'The last segment is the name of that collection; the item gets the `<singular>Id` of this one.',
      parameters: ['Idempotency-Key', 'Prefer'],
      body: json(SENT),
      responses: {
        200: { ...CREATED, text: 'The item is there already, or took the place of one that has its natural key.' },
        201: CREATED,
      },
      problems: [...CREATE_PROBLEMS, 404],
    },
    PUT: {
      ...COLLECTION_ITEM.PATCH,
      summary: 'Replace a value inside an item',
      description:
        'With any JSON value. If-Match may have the tag of the value or of the item. A missing value is 404: a PATCH of the object around it adds a member.',
      body: json({}),
      responses: { 200: VALUE, 204: { text: 'Replaced.', headers: WRITTEN } },
    },
    PATCH: {
      ...COLLECTION_ITEM.PATCH,
      summary: 'Change parts of a value inside an item',
      description:
        'A merge patch that is no object replaces the value. The pointers of a JSON Patch begin at the value.',
      body: { ...content({ anyOf: [ref('MergePatch'), { not: { type: 'object' } }] }, ...MERGE_TYPES), ...JSON_PATCH },
      responses: { ...COLLECTION_ITEM.PATCH.responses, 200: VALUE },
    },
  },
  '/events': only('GET', 'Events', {
    summary: 'The events, by default oldest first',
    description:
      'A page as `application/json`; all matching events, one per line, as `application/x-ndjson`, with `follow=true` also new ones; all matching events and then new ones as `text/event-stream`, where `Last-Event-ID` resumes. With `aggregate=count` the list holds rows instead, whose members are those of `groupBy`, `window` and `count`.',
    parameters: ['Last-Event-ID', ...OF_EVENTS],
    responses: {
      200: {
        text: 'The matching events. `Link` has the next page, if there is one.',
        headers: ['Cache-Control', 'Link', 'Journal-Position', 'Vary'],
        body: { ...json({ type: 'array', items: ref('Event') }), ...content(EVENT_TEXT, NDJSON_TYPE, EVENT_STREAM) },
      },
    },
    problems: [400, 406, 409, 414, 429, 503],
  }),
  '/events/{position}': only('GET', 'Event', {
    summary: 'The event at a position',
    parameters: ['events.changes'],
    responses: { 200: { text: 'The event.', headers: ['Vary'], body: content('Event', JSON_TYPE, NDJSON_TYPE) } },
    problems: [400, 404, 406, 414, 503],
  }),
  '/health': only('GET', 'Health', {
    summary: 'How the service is',
    responses: {
      200: {
        ...HEALTH,
        text: '`ok`; or `degraded`, when the data file cannot be kept up to date, or the journal is damaged.',
      },
      503: { ...HEALTH, text: '`unavailable`: nothing can be written at the moment.' },
    },
  }),
  '/metrics': only('GET', 'Metrics', {
    summary: 'Metrics for Prometheus',
    responses: { 200: { ...UNCACHED, text: "Prometheus' text form.", body: content(anyText, 'text/plain') } },
  }),
  '/openapi.json': only('GET', 'OpenApi', {
    summary: 'The OpenAPI document',
    responses: { 200: { text: 'OpenAPI 3.1.', body: json(anyObject) } },
  }),
  '/token': {
    when: 'hasTokens',
    ...only('POST', 'Token', {
      summary: 'A token for a name and a password',
      description:
        'The body has `username` and `password`, or `grant_type=client_credentials` with `client_id` and `client_secret`, which an OAuth 2 client may send as Basic credentials instead.',
      body: content('Credentials', JSON_TYPE, FORM_TYPE, 'multipart/form-data'),
      responses: { 200: { ...UNCACHED, text: 'The token.', body: json('Token') } },
      problems: [400, 401, 413, 415, 429],
    }),
  },
  '/logout': {
    when: 'hasTokens',
    ...only('POST', 'Logout', {
      summary: 'Revokes the token of the request',
      responses: { 204: { text: 'The token was revoked.' } },
      problems: [400],
    }),
  },
  '/admin/reload': only('POST', 'Reload', {
    summary: 'Import edits of the data file',
    description: 'Edits become events. An invalid file changes nothing.',
    responses: { 200: { ...AT_POSITION, text: 'The result of the import.', body: json('TakenInEdit') } },
    problems: [422, 503, 504, 507],
  }),
  '/admin/settings/reload': only('POST', 'ReloadSettings', {
    summary: 'Read users, API keys and schemas again',
    description: 'From where the server read them at the start. With a mistake, the earlier ones stay in use.',
    responses: { 200: { text: 'What is in use.', body: json('ReloadedSettings') } },
    problems: [422],
  }),
  '/admin/snapshot': only('POST', 'Snapshot', {
    summary: 'Write the data file now',
    description: 'Regardless of `DataFile.Write`. Edits are not overwritten.',
    responses: { 200: { ...AT_POSITION, text: 'The position that the file shows.', body: json('Snapshot') } },
    problems: [409, 503, 504, 507],
  }),
  '/admin/retention': only('POST', 'Retention', {
    summary: 'Confirm the rules by which items expire',
    description:
      'Begins rules that are new or have changed, and says that the clock is right after a jump of more than a day. The items expire in the background.',
    parameters: ['dryRun'],
    responses: { 200: { ...AT_POSITION, text: 'What expires now, by collection.', body: json('Retention') } },
    problems: [400, 503, 504, 507],
  }),
  '/admin/verify': only('POST', 'Verify', {
    summary: 'Check the whole journal',
    description:
      'Frames, checksums, positions and order of all records, while the server runs. A request during a check joins it.',
    responses: {
      200: { ...UNCACHED, text: 'Progress; the last line has the result.', body: content('Verified', NDJSON_TYPE) },
    },
    problems: [404],
  }),
  '/admin/restore': only('POST', 'Restore', {
    ...RESTORATION,
    summary: 'Bring back what was',
    description:
      'Appends the events that return an item, a collection or everything to an earlier state. History is kept, and a restore can be reverted.',
    parameters: ['If-Unchanged-Since'],
    problems: [...CREATE_PROBLEMS, 412],
    body: json('Restore'),
  }),
  '/admin/reset': {
    when: 'hasReset',
    ...only('POST', 'Reset', {
      ...RESTORATION,
      summary: 'Return to the first data',
      description:
        'Appends the events that return everything to the first import of the data file, and the next ids that followed it. History is kept.',
      body: json('Reset'),
      hasOptionalBody: true,
    }),
  },
}

/** The route of a path with one operation. */
function only(method: Method, name: string, operation: Operation): Route {
  return { name, [method]: operation }
}

export const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const

/** The methods of a route, besides HEAD and OPTIONS. A read-only server has only those that change no data. */
export function methodsOf(path: string, offer: Offer, route = ROUTES[path] as Route): readonly Method[] {
  if (!isOffered(route, offer)) return []
  const isReadOnly = offer.isReadOnly && changesData(path)
  return METHODS.filter((method) => {
    const operation = route[method]
    return operation && isOffered(operation, offer) && (isSafe(method) || !isReadOnly)
  })
}

export function isOffered({ when, unless }: Condition, offer: Offer): boolean {
  return (when === undefined || offer[when] === true) && (unless === undefined || offer[unless] !== true)
}
