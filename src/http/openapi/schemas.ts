import { type DomainEvent, EVENT_TYPES } from '../../events/event.ts'
import type { JsonObject } from '../../json/value.ts'
import { OAUTH_ERRORS, PROBLEMS } from '../problems.ts'
import { RESET_SCHEMA, RESTORE_SCHEMA } from '../restoration.ts'
import { CREDENTIALS } from '../tokens.ts'
import { anyObject, anyText, idSchema, ref } from './references.ts'

const position = { type: 'integer', minimum: 0 }
const count = position
const positive = { type: 'integer', minimum: 1 }
const time = { type: 'string', format: 'date-time' }
const flag = { type: 'boolean' }

type Schemas = Readonly<Record<string, JsonObject>>

/** An object that has all of the properties, or the named ones. */
function object(properties: Schemas, required: readonly string[] = Object.keys(properties)) {
  return { type: 'object', required, properties }
}

function described(schema: JsonObject, description: string): JsonObject {
  return { ...schema, description }
}

function list(items: JsonObject, description?: string): JsonObject {
  return { type: 'array', items, ...(description !== undefined && { description }) }
}

function oneOf(values: readonly string[], description?: string): JsonObject {
  return { type: 'string', enum: values, ...(description !== undefined && { description }) }
}

/** The schemas in which items have their id. */
export function itemSchemasWith(idField: string): Schemas {
  const id = described(idSchema, 'Its text identifies the item in the path. It never changes.')
  return {
    Item: {
      ...anyObject,
      description: `A JSON object with any members besides the \`${idField}\`, which a single object need not have.`,
      properties: { [idField]: id },
      examples: [{ [idField]: 1, name: 'Ada' }],
    },
    Created: object({ [idField]: idSchema }),
  }
}

/** An item that was stored: it has an id. */
export function withId(item: JsonObject, idField: string): JsonObject {
  return { allOf: [item, object({ [idField]: idSchema })] }
}

const COLLECTION_EVENT = { position: positive, collection: anyText, time, actor: anyText, requestId: anyText }
const ITEM_EVENT = {
  ...COLLECTION_EVENT,
  id: described(idSchema, 'Empty for a single object.'),
  revision: described(positive, "The number of the item's events; continues after a deletion."),
  prior: described(position, "The position of the item's previous event, 0 for none."),
}

const CHANGES = {
  type: ['array', 'null'],
  items: object({ path: described(anyText, 'A JSON Pointer.'), before: {}, after: {} }, ['path']),
  description:
    'With `changes=true`: the values that differ from the version before. `null`: the journal is damaged there.',
}

function event(types: readonly DomainEvent['type'][], members: Schemas, optional: Schemas = {}) {
  const required = { type: oneOf(types), ...members }
  return object({ ...required, ...optional }, Object.keys(required))
}

function itemEvent(types: readonly DomainEvent['type'][], members: Schemas = {}) {
  return event(types, { ...ITEM_EVENT, ...members }, { changes: CHANGES })
}

/** The schemas of bodies, by the names of their components, besides those of items. */
export const schemas: Schemas = {
  NotApplied: object({ applied: { ...flag, const: false } }),
  CreatedItems: object({ ids: list(idSchema, 'In the order of the batch.') }),
  BatchResults: object({
    results: list(
      object(
        {
          status: oneOf(['created', 'replaced', 'duplicate', 'rejected']),
          line: described(positive, 'For NDJSON and CSV: the line of the item.'),
          id: described(idSchema, 'Of an item that was not rejected: a duplicate has that of the item that is there.'),
          problem: described(anyObject, 'For a rejected item: a problem as in a response.'),
        },
        ['status'],
      ),
      'One for each item of the batch, in order.',
    ),
  }),
  Replaced: object({
    position,
    dryRun: flag,
    events: count,
    created: described(count, 'Items and single objects.'),
    replaced: count,
    deleted: count,
  }),
  Deleted: object(
    {
      deleted: described(count, 'Also for a dry run.'),
      dryRun: flag,
      writes: described(count, 'Number of writes; 0 if nothing was written.'),
      removed: described(
        flag,
        'With `all=true`: whether the collection is removed. It stays if others added items between several writes.',
      ),
      ids: list(idSchema, 'The first 1000, of several writes those of the first.'),
    },
    ['deleted', 'dryRun', 'writes', 'ids'],
  ),
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
        object({ op: oneOf(['add', 'replace', 'test']), path: anyText, value: {} }),
        object({ op: { ...anyText, const: 'remove' }, path: anyText }),
        object({ op: oneOf(['move', 'copy']), path: anyText, from: anyText }),
      ],
    },
    examples: [[{ op: 'replace', path: '/name', value: 'Grace' }]],
  },
  Event: {
    description: 'An event of the journal. It holds the resulting item.',
    oneOf: [
      itemEvent(['ItemCreated', 'ItemReplaced', 'ItemPatched', 'ObjectCreated'], { item: ref('Item') }),
      itemEvent(['ItemDeleted', 'ObjectDeleted']),
      event(['CollectionCreated', 'CollectionRemoved'], COLLECTION_EVENT),
      event(['CollectionOrdered'], { ...COLLECTION_EVENT, ids: list(idSchema) }),
      event(['ItemsExpired'], {
        ...COLLECTION_EVENT,
        rule: described(anyText, 'The rule of the settings, such as `90d`.'),
        runs: list(ref('ExpiredRun'), 'None: the rule was confirmed.'),
      }),
      event(['IdsReset'], { ...COLLECTION_EVENT, nextId: described(count, 'The id that the next POST gets.') }),
    ],
  },
  ExpiredRun: {
    description: 'Expired items that follow each other, with the revision and the positions of their last events.',
    ...object({
      id: { ...idSchema, description: 'Of the first one; the next ones have the integers after it.' },
      count: positive,
      place: described(count, 'The place of the first one in the order of the collection.'),
      revision: positive,
      position: described(position, 'Of the last event of the first one.'),
      step: described(count, 'The difference of these positions from one item to the next.'),
    }),
  },
  RetentionStatus: object(
    {
      collection: anyText,
      rule: described(anyText, 'Such as `90d, 100000 items`.'),
      state: {
        ...oneOf(['active', 'waiting', 'stopped']),
        description:
          'waiting: the rule is new or has changed, and begins at `from`. stopped: the time of receipt jumped by more than a day.',
      },
      horizon: { ...time, description: 'Items before this time expire.' },
      from: time,
      items: described(count, 'How many expire now.'),
    },
    ['collection', 'rule', 'state'],
  ),
  Retention: object({
    position: described(position, 'Of the last event.'),
    dryRun: flag,
    collections: list(ref('RetentionStatus')),
  }),
  Health: object(
    {
      status: oneOf(['ok', 'degraded', 'unavailable']),
      position: described(position, 'Position of the last visible event.'),
      uptime: described(count, 'Seconds.'),
      version: anyText,
      readOnly: described(flag, 'Nothing can be written to it.'),
      idField: described(anyText, 'The field of an item that is its id.'),
      journal: anyObject,
      cluster: described(anyObject, 'In a cluster: the role of the node, its lag and its peers.'),
      dataFile: ref('DataFile'),
      store: anyObject,
      replay: described(anyObject, 'Only for a replay server.'),
      retention: { ...list(ref('RetentionStatus')), description: 'The rules by which items expire, for admins.' },
      clock: object({ at: time, seconds: { type: 'integer' } }),
      eventTime: {
        type: 'object',
        additionalProperties: anyText,
        description: 'By collection, the field of the event time; omitted if the role is null.',
      },
      access: object({
        schemes: list(oneOf(['token', 'basic', 'apikey']), 'None: it is off.'),
        actor: { type: ['string', 'null'], description: 'The authenticated client; null if unauthenticated.' },
        role: { oneOf: [oneOf(['reader', 'writer', 'admin']), { type: 'null' }] },
      }),
    },
    ['status', 'position', 'uptime', 'version'],
  ),
  DataFile: object(
    {
      state: oneOf(['current', 'behind', 'merging', 'edited', 'invalid', 'failing']),
      position: described(position, 'The position whose state the file shows.'),
      detail: described(anyText, 'The error, for admins.'),
      behind: object({
        events: described(count, 'Events that the file does not show yet.'),
        bytes: described(count, 'Approximate bytes of these events in the journal.'),
      }),
      nextWrite: {
        description: 'When the file will be written; null if unknown, or if it is current.',
        oneOf: [object({ at: time }), object({ afterJournalBytes: positive }), { type: 'null' }],
      },
    },
    ['state', 'position', 'behind', 'nextWrite'],
  ),
  Credentials: CREDENTIALS,
  Token: object({ access_token: anyText, token_type: oneOf(['Bearer']), expires_in: described(count, 'Seconds.') }),
  Restore: RESTORE_SCHEMA,
  Reset: RESET_SCHEMA,
  Restored: object({
    position: described(position, 'Of the last event.'),
    dryRun: flag,
    events: described(count, 'Also for a dry run.'),
    changes: list(
      object({ type: oneOf([...EVENT_TYPES]), collection: anyText, id: idSchema }, ['type', 'collection']),
      'The first of them.',
    ),
  }),
  Verified: object(
    {
      position: described(position, 'Everything up to this position is intact.'),
      of: described(position, 'The end of the check; not in the last line.'),
      ok: described(flag, 'Only in the last line.'),
      problem: described(anyText, 'The damage and its place.'),
    },
    ['position'],
  ),
  Snapshot: object({ position: described(position, 'The position whose state the file shows.') }),
  ReloadedSettings: object({
    users: count,
    apiKeys: count,
    schemas: list(anyText, 'The collections that have a schema.'),
    restartRequired: list(anyText, 'Other settings that have changed.'),
  }),
  TakenInEdit: object({
    position: described(position, 'Of the last event of the edit.'),
    events: described(count, 'Events of the edit.'),
    basedOn: described(position, 'Of the state from which the edit was made.'),
    conflicts: list(
      object({ collection: anyText, id: idSchema }),
      'Items that others wrote since; the edit won, and the journal has both.',
    ),
  }),
  Problem: object(
    {
      type: oneOf([...Object.keys(PROBLEMS), 'Malformed', 'Unexpected'].map((code) => `urn:recollect:problem:${code}`)),
      title: anyText,
      status: { type: 'integer' },
      detail: anyText,
      instance: described(anyText, "The request's path; left out when it could not be read."),
      errors: list(
        object({ pointer: { ...anyText, format: 'json-pointer' }, message: anyText }),
        'The errors in the body; always with 422.',
      ),
      deleted: described(count, 'Items that the earlier writes of a deletion in several writes have deleted.'),
      writes: described(count, 'The number of these writes.'),
      error: oneOf([...OAUTH_ERRORS], 'Of `/token`: the error code of OAuth 2.'),
      firstUnreadable: described({ type: 'integer' }, 'The position where the journal is damaged.'),
      nextReadable: described({ type: 'integer' }, 'The next position that can be read.'),
    },
    ['type', 'title', 'status', 'detail'],
  ),
}

/** A page of json-server 1.0, which `_page` asks for. */
export function envelope(data: JsonObject): JsonObject {
  const page = { type: 'integer' }
  const pageOrNull = { type: ['integer', 'null'] }
  return object({ first: page, prev: pageOrNull, next: pageOrNull, last: page, pages: page, items: page, data })
}

/** A page with `Api.UseResultObject`; a whole result is still a list. */
export function resultObject(results: JsonObject): JsonObject {
  const link = described(anyText, 'Path and query; empty where there is no such page.')
  return object({
    results,
    link: object({ Prev: link, Next: link, First: link, Last: link }),
    count: described(count, 'Items that match, on all pages.'),
  })
}
