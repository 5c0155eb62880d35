/** Components of the OpenAPI document, by name. */

import { EVENT_TYPES } from '../../events/event.ts'
import type { JsonObject, JsonValue } from '../../json/value.ts'
import { ANSWERS } from '../problems.ts'
import { bulkSchemas } from './bulk-schemas.ts'
import type { ParameterName } from './parameters.ts'

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
    description: "The number of the item's events; continues after a deletion.",
  },
  prior: { ...position, description: "The position of the item's previous event, 0 for none." },
}

/** The schemas in which items have their id. */
export function itemSchemasWith(idField: string) {
  const description = 'Its text identifies the item in the path. It never changes.'
  return {
    Item: {
      type: 'object',
      description: `A JSON object with any members besides the \`${idField}\`.`,
      properties: { [idField]: { ...id, description } },
      examples: [{ [idField]: 1, name: 'Ada' }],
    },
    Created: object({ [idField]: id }),
  }
}

export const schemas = {
  ...itemSchemasWith('id'),
  ...bulkSchemas,
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
    description: 'An event of the journal. It holds the resulting item.',
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
      position: { ...position, description: 'Position of the last visible event.' },
      uptime: { type: 'integer', minimum: 0, description: 'Seconds.' },
      version: text,
      readOnly: { type: 'boolean', description: 'Nothing can be written to it.' },
      idField: { ...text, description: 'The field of an item that is its id.' },
      journal: { type: 'object' },
      cluster: { type: 'object', description: 'In a cluster: the role of the node, its lag and its peers.' },
      dataFile: ref('schemas', 'DataFile'),
      store: { type: 'object' },
      replay: { type: 'object', description: 'Only for a replay server.' },
      eventTime: {
        type: 'object',
        additionalProperties: text,
        description:
          'Per collection, the field of the event time (`Collections.<name>.Time`); omitted if the role is null.',
      },
      access: object({
        schemes: { type: 'array', items: { enum: ['token', 'basic', 'apikey'] }, description: 'None: it is off.' },
        actor: { type: ['string', 'null'], description: 'The authenticated client; null if unauthenticated.' },
        role: { enum: ['reader', 'writer', 'admin', null] },
      }),
    },
    ['status', 'position', 'uptime', 'version'],
  ),
  DataFile: object(
    {
      state: { enum: ['current', 'behind', 'merging', 'edited', 'invalid', 'failing'] },
      position: { ...position, description: 'The position whose state the file shows.' },
      detail: { ...text, description: 'The error, for admins.' },
      behind: object({
        events: { type: 'integer', minimum: 0, description: 'Number of events that the file does not show yet.' },
        bytes: { type: 'integer', minimum: 0, description: 'Approximate bytes of these events in the journal.' },
      }),
      nextWrite: {
        description: 'When the file will be written; null if unknown, or if it is current.',
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
      dryRun: { type: 'boolean', description: 'Only report what would change.' },
    },
    examples: [{ to: 42, collection: 'sensors', dryRun: true }],
  },
  Restored: object({
    position: { ...position, description: 'Of the last event.' },
    dryRun: { type: 'boolean' },
    events: { type: 'integer', minimum: 0, description: 'Number of events, also for a dry run.' },
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
      position: { ...position, description: 'Everything up to this position is intact.' },
      of: { ...position, description: 'The end of the check; not in the last line.' },
      ok: { type: 'boolean', description: 'Only in the last line.' },
      problem: { type: 'string', description: 'The damage and its place.' },
    },
  },
  Snapshot: object({ position: { ...position, description: 'The position whose state the file shows.' } }),
  TakenInEdit: object({
    position: { ...position, description: "Of the edit's last event." },
    events: { type: 'integer', minimum: 0, description: 'Number of events of the edit.' },
    basedOn: { ...position, description: 'Position of the state from which the edit was made.' },
    conflicts: {
      type: 'array',
      description: 'Items that others wrote since the edited content; the edit won, the journal has both.',
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
        description: 'With 422: the errors in the body.',
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
  ETag: header('The entity tag of the response; for an item a hash of its data: equal data has an equal tag.'),
  Location: header('The path of the created resource.'),
  Link: header('The pages `first`, `prev`, `next` and `last` (RFC 8288), as paths; every other parameter is kept.'),
  'Recollect-Hint': header('Fields of the query that no item of the collection has.'),
  'X-Total-Count': header('Number of matching items on all pages.', { type: 'integer', minimum: 0 }),
  'Journal-Position': header(
    'The position of the write (of its last event), or the position that a read reflects. Every response under `/api` has it.',
    position,
  ),
  'X-Request-Id': header('The id of the request in the journal and in the log.'),
  Allow: header('The methods that are allowed here.'),
  'Accept-Patch': header('The media types of PATCH (RFC 5789).'),
  'Retry-After': header('Seconds.', { type: 'integer', minimum: 0 }),
  'Preference-Applied': header('The applied preference of `Prefer`.'),
  Vary: header('`Accept`: the representations have one address.'),
  'Cache-Control': header('How long the response may be cached.'),
} as const satisfies Named

export type HeaderName = keyof typeof headers

/** Descriptions of problems by status. */
const PROBLEMS = {
  400: 'No body, or one that is not well-formed; a malformed query, path, patch or header; an unknown collection above an item that is read.',
  403: 'The request comes from a page of a forbidden origin, or the role of the client does not suffice.',
  404: 'Nothing is there.',
  405: 'A list of items has no such method; `Allow` says which it has.',
  406: 'None of the available formats is acceptable.',
  409: 'The `id` in the body differs from the one in the path; the patch changes it, or one of its tests fails; an item of this `id` exists already; a single object has no items.',
  412: 'The condition of `If-Match` or `If-None-Match` does not hold. Nothing was written.',
  413: 'The body is too large.',
  415: 'The content type is missing or not accepted here, or the content coding is not; `Accept`, `Accept-Patch` or `Accept-Encoding` lists what is accepted.',
  422: 'JSON, but not an item that is accepted, or a patch that cannot be applied; or the `Idempotency-Key` came with another request.',
  429: 'Too many wrong credentials came from this address, or it has too many streams open; or too many whole results are being sent.',
  503: 'Not possible at the moment, and nothing was written: writes are impossible, the journal cannot be read, the server has too many open connections or files, or the position in `Wait-For-Position` is not available yet.',
  504: 'In a cluster: it is unknown whether this was stored. A retry with the same `Idempotency-Key` is stored once.',
  507: 'The disk is full. Nothing was written.',
} as const

/** Additional problems if authentication is on. */
const ACCESS_PROBLEMS = {
  401: 'Credentials are missing, wrong, expired or revoked; `WWW-Authenticate` lists the schemes.',
} as const

export type ProblemStatus = keyof typeof PROBLEMS | keyof typeof ACCESS_PROBLEMS

/** The example is the first refusal with that status. */
function problem(status: number, description: string, names: readonly HeaderName[] = []): JsonObject {
  const [code, answered] = Object.entries(ANSWERS).find(([, answer]) => answer.status === status) ?? []
  const example = {
    type: `urn:recollect:problem:${code}`,
    ...answered,
    detail: 'An explanation for people.',
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

/** Content with one schema for each of the media types. */
export function content(schema: JsonValue, ...types: readonly string[]): JsonObject {
  return Object.fromEntries(types.map((type) => [type, { schema }]))
}
