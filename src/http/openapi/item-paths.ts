import type { JsonObject } from '../../json/value.ts'
import type { Method } from '../exchange.ts'
import { JSON_PATCH_TYPE, JSON_TYPE, PATCH_TYPES } from '../media-types.ts'
import {
  create,
  created,
  createEmpty,
  deleteItems,
  EMPTY_LIST,
  list,
  NOT_MODIFIED,
  type SchemaPair,
} from './collection-operations.ts'
import { type Operation, pathItem, type Response } from './operations.ts'
import type { ParameterName } from './parameters.ts'
import { anyObject, content, ref } from './references.ts'

interface ItemPaths extends SchemaPair {
  /** The path of the collection or single object. */
  readonly path: string
  readonly tag: string
  /** A suffix of the operation ids. */
  readonly name: string
  readonly parameters: readonly ParameterName[]
  /** Whether the path may be either of the two. */
  readonly isAny?: true
}

const CONDITIONS = ['If-Match', 'If-None-Match', 'Idempotency-Key'] as const

/** The paths of a collection and of its items. */
export function itemPaths({ path, tag, name, parameters, isAny, ...schemas }: ItemPaths): JsonObject {
  const { item } = schemas
  return {
    [path]: pathItem(path, {
      tag,
      name: `Items${name}`,
      parameters,
      operations: {
        GET: list(item, isAny),
        POST: create(schemas),
        ...(isAny ? anyWrites(item) : { PUT: createEmpty, DELETE: deleteItems }),
      },
    }),
    [`${path}/{id}`]: pathItem(`${path}/{id}`, {
      tag,
      name: `Item${name}`,
      parameters: [...parameters, 'id'],
      operations: {
        GET: { ...read(item), parameters: ['_embed', '_expand', ...READ] },
        PUT: replace(schemas),
        PATCH: patch(item),
        DELETE: { ...remove, parameters: ['_dependent', ...CONDITIONS] },
      },
    }),
  }
}

/** The path of a single object. */
export function objectPaths({ path, tag, name, item: object, parameters }: Omit<ItemPaths, 'sent'>): JsonObject {
  const GET = { ...read(object), summary: 'The object' }
  return {
    [path]: pathItem(path, { tag, name: `Object${name}`, parameters, operations: { GET, ...objectWrites(object) } }),
  }
}

function objectWrites(object: JsonObject) {
  return {
    PUT: ofObject(replace({ item: object, sent: object }), {
      summary: 'Replace a single object',
      description: 'Creates it again after a deletion.',
    }),
    PATCH: ofObject(patch(object), { summary: 'Change parts of a single object' }),
    DELETE: ofObject(remove, {
      summary: 'Delete a single object',
      responses: { 204: { description: 'Deleted. PUT creates it again.' } },
    }),
  }
}

/** Operations for a path that may be a list of items or a single object. */
function anyWrites(item: JsonObject): Readonly<Partial<Record<Method, Operation>>> {
  const { PUT, PATCH, DELETE } = objectWrites(item)
  return {
    PUT: {
      ...either(createEmpty, PUT),
      summary: 'Create the collection, or replace a single object',
      description:
        'Without a body a collection is created, unless it exists. With a body a single object is replaced, or created again after a deletion.',
      requestBody: { ...PUT.requestBody, required: false },
      responses: {
        ...PUT.responses,
        201: {
          description: 'Created. For a collection the body is an empty list.',
          headers: ['Location', 'ETag', 'Preference-Applied'],
          content: content({ anyOf: [EMPTY_LIST, ref('schemas', 'Created'), item] }, JSON_TYPE),
        },
        204: { ...PUT.responses[204], description: 'Replaced; or the collection exists.' },
      },
    },
    PATCH,
    DELETE: {
      ...either(deleteItems, DELETE),
      summary: 'Delete the matching items, the collection, or a single object',
      description: `${deleteItems.description} A single object has no filters.`,
    },
  }
}

function either(one: Operation, other: Operation): Operation {
  const union = <Value>(a: readonly Value[] = [], b: readonly Value[] = []) => [...new Set([...a, ...b])]
  return {
    summary: one.summary,
    parameters: union(one.parameters, other.parameters),
    responses: { ...one.responses, ...other.responses },
    problems: union(one.problems, other.problems),
  }
}

function ofObject(operation: Operation, changes: Partial<Operation>): Operation {
  return { ...operation, ...changes, problems: [...(operation.problems ?? []), 405] }
}

const READ = ['asOf', 'If-None-Match', 'Wait-For-Position'] as const

function read(item: JsonObject): Operation {
  return {
    summary: 'An item',
    parameters: READ,
    responses: {
      200: { description: 'The item.', headers: ['ETag'], content: content(item, JSON_TYPE) },
      304: NOT_MODIFIED,
    },
    problems: [400, 404, 414, 503],
  }
}

function replace({ item, sent }: SchemaPair): Operation {
  return {
    summary: 'Replace an item',
    description:
      'With `Api.UpsertOnPut` an item (and a collection) that does not exist is created; otherwise the response is 404.',
    parameters: [...CONDITIONS, 'PreferOnPut'],
    requestBody: { required: true, content: content(sent, JSON_TYPE) },
    responses: {
      200: {
        ...representation({ anyOf: [ref('schemas', 'NotApplied'), item] }),
        description:
          'With `Prefer: return=representation`: the item as it is now. With `Prefer: only-if-newer`, where the item has the same event time or a later one: it stays as it is.',
      },
      201: created(item),
      204: written('Replaced.'),
    },
    problems: [400, 404, 409, 412, 413, 415, 422, 503, 504, 507],
  }
}

function patch(item: JsonObject, merge: JsonObject = ref('schemas', 'MergePatch')): Operation {
  const merges = PATCH_TYPES.filter((type) => type !== JSON_PATCH_TYPE)
  return {
    summary: 'Change parts of an item',
    parameters: [...CONDITIONS, 'Prefer'],
    requestBody: {
      required: true,
      content: {
        ...content(merge, ...merges),
        ...content(ref('schemas', 'JsonPatch'), JSON_PATCH_TYPE),
      },
    },
    responses: { 200: representation(item), 204: written('Changed.') },
    problems: [400, 404, 409, 412, 413, 415, 422, 503, 504, 507],
  }
}

function representation(item: JsonObject): Response {
  return {
    description: 'With `Prefer: return=representation`: the item after the write.',
    headers: ['ETag', 'Preference-Applied', 'Recollect-Hint'],
    content: content(item, JSON_TYPE),
  }
}

function written(description: string): Response {
  return { description, headers: ['ETag', 'Recollect-Hint'] }
}

const remove: Operation = {
  summary: 'Delete an item',
  parameters: CONDITIONS,
  responses: { 204: { description: 'Deleted. Its `id` is never assigned again.' } },
  problems: [400, 404, 412, 414, 422, 503, 504, 507],
}

export const namesPath = pathItem('/api', {
  tag: 'Any collection',
  name: 'Collections',
  operations: {
    GET: {
      summary: 'The names of the collections',
      parameters: ['asOf', 'If-None-Match', 'Wait-For-Position'],
      responses: {
        200: {
          description: 'In the order of their creation.',
          headers: ['ETag'],
          content: content({ type: 'array', items: { type: 'string' } }, JSON_TYPE),
        },
        304: NOT_MODIFIED,
      },
      problems: [400, 414, 503],
    },
    POST: {
      summary: 'Replace everything',
      description:
        'The body is a data file: lists of items and single objects by their names. They take the place of all that there are, in one write, which `/admin/restore` can undo.',
      parameters: ['dryRun'],
      requestBody: {
        required: true,
        content: content(
          { type: 'object', additionalProperties: { anyOf: [{ type: 'array', items: anyObject }, anyObject] } },
          JSON_TYPE,
        ),
      },
      responses: {
        200: { description: 'What was changed, or would be.', content: content(ref('schemas', 'Replaced'), JSON_TYPE) },
      },
      problems: [400, 413, 415, 422, 503, 504, 507],
    },
  },
})

export const valuePath = pathItem('/api/{collection}/{id}/{rest}', {
  tag: 'Any collection',
  name: 'Value',
  parameters: ['collection', 'id', 'rest'],
  operations: {
    GET: {
      summary: 'A value inside an item',
      description: 'An unknown collection or item is 400; a missing value is 404.',
      parameters: ['asOf', 'If-None-Match', 'Wait-For-Position'],
      responses: {
        200: { description: 'Any JSON value.', headers: ['ETag'], content: content({}, JSON_TYPE) },
        304: NOT_MODIFIED,
      },
      problems: [400, 404, 414, 503],
    },
    PUT: inside(replace({ item: {}, sent: {} }), {
      parameters: [...CONDITIONS, 'Prefer'],
      summary: 'Replace a value inside an item',
      description:
        'With any JSON value. If-Match may be the entity tag of the value or of the item. What is not there is a 404: a PATCH of the object around it adds a member.',
    }),
    PATCH: inside(patch({}, { anyOf: [ref('schemas', 'MergePatch'), { not: { type: 'object' } }] }), {
      summary: 'Change parts of a value inside an item',
      description: 'A merge patch that is no object replaces the value.',
    }),
  },
})

function inside(operation: Operation, changes: Partial<Operation>): Operation {
  const { 204: done } = operation.responses
  return {
    ...operation,
    ...changes,
    responses: {
      200: { ...representation({}), description: 'With `Prefer: return=representation`: the value as it is now.' },
      ...(done && { 204: done }),
    },
  }
}
