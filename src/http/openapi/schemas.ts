import { EVENT_TYPES } from '../../events/event.ts'
import type { JsonObject } from '../../json/value.ts'
import { OAUTH_ERRORS, PROBLEMS } from '../problems.ts'
import { RESET_SCHEMA, RESTORE_SCHEMA } from '../restoration.ts'
import { anyObject, type Components, idSchema, ref } from './references.ts'

const position = { type: 'integer', minimum: 0 }
const text = { type: 'string' }

function object(properties: Components, required: readonly string[] = Object.keys(properties), rest?: JsonObject) {
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
  id: { ...idSchema, description: 'Empty for a single object.' },
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
      ...anyObject,
      description: `A JSON object with any members besides the \`${idField}\`, which a single object need not have.`,
      properties: { [idField]: { ...idSchema, description } },
      examples: [{ [idField]: 1, name: 'Ada' }],
    },
    Created: object({ [idField]: idSchema }),
  }
}

/** An item that was stored: it has an id. */
export function withId(item: JsonObject, idField: string): JsonObject {
  return { allOf: [item, object({ [idField]: idSchema })] }
}

/** Schemas of operations on many items. */
const bulkSchemas = {
  NotApplied: {
    type: 'object',
    required: ['applied'],
    properties: { applied: { type: 'boolean', const: false } },
  },
  CreatedItems: {
    type: 'object',
    required: ['ids'],
    properties: { ids: { type: 'array', items: idSchema, description: 'In the order of the batch.' } },
  },
  BatchResults: {
    type: 'object',
    required: ['results'],
    properties: {
      results: {
        type: 'array',
        description: 'One for each item of the batch, in order.',
        items: {
          type: 'object',
          required: ['status'],
          properties: {
            status: { type: 'string', enum: ['created', 'replaced', 'duplicate', 'rejected'] },
            line: { type: 'integer', minimum: 1, description: 'For NDJSON and CSV: the line of the item.' },
            id: {
              ...idSchema,
              description: 'Of an item that was not rejected: a duplicate has that of the item that is there.',
            },
            problem: { ...anyObject, description: 'For a rejected item: a problem as in a response.' },
          },
        },
      },
    },
  },
  Replaced: {
    type: 'object',
    required: ['position', 'dryRun', 'events', 'created', 'replaced', 'deleted'],
    properties: {
      position: { type: 'integer', minimum: 0 },
      dryRun: { type: 'boolean' },
      events: { type: 'integer', minimum: 0 },
      created: { type: 'integer', minimum: 0, description: 'Items and single objects.' },
      replaced: { type: 'integer', minimum: 0 },
      deleted: { type: 'integer', minimum: 0 },
    },
  },
  Deleted: {
    type: 'object',
    required: ['deleted', 'dryRun', 'ids'],
    properties: {
      deleted: { type: 'integer', minimum: 0, description: 'Number of items, also for a dry run.' },
      dryRun: { type: 'boolean' },
      ids: { type: 'array', items: idSchema, description: 'The first 1000.' },
    },
  },
} as const

export const schemas = {
  ...itemSchemasWith('id'),
  ...bulkSchemas,
  MergePatch: {
    ...anyObject,
    description: 'RFC 7396: its members replace those of the item, `null` removes one.',
    minProperties: 1,
    examples: [{ name: 'Grace' }],
  },
  JsonPatch: {
    type: 'array',
    description: 'RFC 6902: all operations are applied, or none.',
    minItems: 1,
    items: {
      oneOf: [
        object({ op: { type: 'string', enum: ['add', 'replace', 'test'] }, path: text, value: {} }),
        object({ op: { type: 'string', const: 'remove' }, path: text }),
        object({ op: { type: 'string', enum: ['move', 'copy'] }, path: text, from: text }),
      ],
    },
    examples: [[{ op: 'replace', path: '/name', value: 'Grace' }]],
  },
  Event: {
    description: 'An event of the journal. It holds the resulting item.',
    oneOf: [
      object({
        type: { type: 'string', enum: ['ItemCreated', 'ItemReplaced', 'ItemPatched', 'ObjectCreated'] },
        ...OF_ITEM,
        item: ref('schemas', 'Item'),
      }),
      object({ type: { type: 'string', enum: ['ItemDeleted', 'ObjectDeleted'] }, ...OF_ITEM }),
      object({ type: { type: 'string', enum: ['CollectionCreated', 'CollectionRemoved'] }, ...ITEM_EVENT }),
      object({
        type: { type: 'string', const: 'CollectionOrdered' },
        ...ITEM_EVENT,
        ids: { type: 'array', items: idSchema },
      }),
      object({
        type: { type: 'string', const: 'IdsReset' },
        ...ITEM_EVENT,
        nextId: { type: 'integer', minimum: 0, description: 'The id that the next POST gets.' },
      }),
    ],
  },
  Health: object(
    {
      status: { type: 'string', enum: ['ok', 'degraded', 'unavailable'] },
      position: { ...position, description: 'Position of the last visible event.' },
      uptime: { type: 'integer', minimum: 0, description: 'Seconds.' },
      version: text,
      readOnly: { type: 'boolean', description: 'Nothing can be written to it.' },
      idField: { ...text, description: 'The field of an item that is its id.' },
      journal: anyObject,
      cluster: { ...anyObject, description: 'In a cluster: the role of the node, its lag and its peers.' },
      dataFile: ref('schemas', 'DataFile'),
      store: anyObject,
      replay: { ...anyObject, description: 'Only for a replay server.' },
      clock: object({ at: { type: 'string', format: 'date-time' }, seconds: { type: 'integer' } }, ['at', 'seconds']),
      eventTime: {
        type: 'object',
        additionalProperties: text,
        description:
          'Per collection, the field of the event time (`Collections.<name>.Time`); omitted if the role is null.',
      },
      access: object({
        schemes: {
          type: 'array',
          items: { type: 'string', enum: ['token', 'basic', 'apikey'] },
          description: 'None: it is off.',
        },
        actor: { type: ['string', 'null'], description: 'The authenticated client; null if unauthenticated.' },
        role: { oneOf: [{ type: 'string', enum: ['reader', 'writer', 'admin'] }, { type: 'null' }] },
      }),
    },
    ['status', 'position', 'uptime', 'version'],
  ),
  DataFile: object(
    {
      state: { type: 'string', enum: ['current', 'behind', 'merging', 'edited', 'invalid', 'failing'] },
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
  Restore: RESTORE_SCHEMA,
  Reset: RESET_SCHEMA,
  Restored: object({
    position: { ...position, description: 'Of the last event.' },
    dryRun: { type: 'boolean' },
    events: { type: 'integer', minimum: 0, description: 'Number of events, also for a dry run.' },
    changes: {
      type: 'array',
      description: 'The first of them.',
      items: object({ type: { type: 'string', enum: [...EVENT_TYPES] }, collection: text, id: idSchema }, [
        'type',
        'collection',
      ]),
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
  ReloadedSettings: object({
    users: { type: 'integer', minimum: 0 },
    apiKeys: { type: 'integer', minimum: 0 },
    schemas: { type: 'array', items: text, description: 'The collections that have a schema.' },
    restartRequired: { type: 'array', items: text, description: 'Other settings that have changed.' },
  }),
  TakenInEdit: object({
    position: { ...position, description: "Of the edit's last event." },
    events: { type: 'integer', minimum: 0, description: 'Number of events of the edit.' },
    basedOn: { ...position, description: 'Position of the state from which the edit was made.' },
    conflicts: {
      type: 'array',
      description: 'Items that others wrote since the edited content; the edit won, the journal has both.',
      items: object({ collection: text, id: idSchema }),
    },
  }),
  Problem: object(
    {
      type: {
        type: 'string',
        enum: [...Object.keys(PROBLEMS), 'Malformed', 'Unexpected'].map((code) => `urn:recollect:problem:${code}`),
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
      error: {
        type: 'string',
        enum: [...OAUTH_ERRORS],
        description: 'Of `/token`: the error code of OAuth 2.',
      },
    },
    ['type', 'title', 'status', 'detail'],
  ),
} as const satisfies Components
