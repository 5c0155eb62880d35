import type { JsonObject } from '../../json/value.ts'
import { GROUPING_PARAMETERS } from '../../query/aggregate/aggregation.ts'
import { LIST_PARAMETERS } from '../../query/query.ts'
import { CSV_TYPE } from '../formats/forms.ts'
import { JSON_TYPE, NDJSON_TYPE } from '../media-types.ts'
import type { Operation, Response } from './operations.ts'
import { content, ref } from './references.ts'

export const NOT_MODIFIED: Response = { description: 'The client has the current version.', headers: ['ETag'] }

export interface SchemaPair {
  /** An item that is read. */
  readonly item: JsonObject
  /** An item in a request, which need not have an id. */
  readonly sent: JsonObject
}

type ListParameter = keyof typeof LIST_PARAMETERS

const LIST_NAMES = Object.keys(LIST_PARAMETERS) as ListParameter[]
/** Parameters with which a list does not hold whole items. */
const SHAPE_PARAMETERS: readonly string[] = [
  'fields',
  ...Object.keys(GROUPING_PARAMETERS).filter((name) => name !== 'newestBy'),
]

/** A header row of dotted paths, then rows. */
const csv = { ...content({ type: 'string' }, CSV_TYPE) }
const lines = { ...content({ type: 'string' }, NDJSON_TYPE) }

export const EMPTY_LIST = { type: 'array', items: {}, maxItems: 0 } as const

const FORMS_OF_ANY =
  'A row of `aggregate` and an item with `fields` may have any members; with `distinct` the list holds values. A single object is answered as it is.'
const FORMS_OF_OTHERS =
  '`fields`, `aggregate`, `distinct`, NDJSON and CSV work here as well, and are described at `/api/{collection}`.'

/** With `isAny` the responses cover rows and values as well; otherwise they have whole items only. */
export function list(item: JsonObject, isAny = false): Operation {
  const items = { type: 'array', items: item }
  const values = { type: 'array', items: { type: ['string', 'number', 'boolean', 'null'] } }
  return {
    summary: 'The items',
    description: `Filters apply first, then the sort, then the page, then the fields. Paging parameters of different kinds cannot be mixed. With \`all=true\` the whole result is sent, as of one position. ${isAny ? FORMS_OF_ANY : FORMS_OF_OTHERS}`,
    parameters: [
      'filters',
      ...LIST_NAMES.filter((name) => isAny || !SHAPE_PARAMETERS.includes(name)),
      'If-None-Match',
      'Wait-For-Position',
    ],
    responses: {
      200: {
        description:
          'A page of the items that match, which past the end is empty, or with `all=true` all of them. `Link` and `X-Total-Count` come with a page.',
        headers: ['ETag', 'Link', 'Recollect-Hint', 'X-Total-Count', 'Vary'],
        content: isAny
          ? { ...content({ anyOf: [items, values, item] }, JSON_TYPE), ...lines, ...csv }
          : content(items, JSON_TYPE),
      },
      304: NOT_MODIFIED,
    },
    problems: [400, 404, 406, 414, 429, 503],
  }
}

export function create({ item, sent }: SchemaPair): Operation {
  return {
    summary: 'Create an item, or a batch of items',
    description:
      'Its `id` is one above the highest that the collection ever had. A collection that does not exist is created. A JSON list, NDJSON and CSV (with a header row of dotted paths, or the parameter header=absent) are a batch: all of its items are created in one write, or none.',
    parameters: ['Idempotency-Key', 'PreferOnPost'],
    requestBody: {
      required: true,
      content: { ...content({ anyOf: [sent, { type: 'array', items: sent }] }, JSON_TYPE), ...lines, ...csv },
    },
    responses: {
      200: {
        description:
          'With `Prefer: handling=lenient`: a result for each item of the batch. Else the item is there already, or took the place of one that has its natural key (`Collections.<name>.Key`): the body is as of 201.',
        headers: ['Location', 'ETag', 'Preference-Applied', 'Recollect-Hint'],
        content: content(
          {
            anyOf: [ref('schemas', 'BatchResults'), ref('schemas', 'Created'), ref('schemas', 'CreatedItems'), item],
          },
          JSON_TYPE,
        ),
      },
      201: {
        ...created(item),
        headers: ['Location', 'ETag', 'Preference-Applied', 'Recollect-Hint'],
        description:
          'Created. The body is the `id`, with `Prefer: return=representation` the item; of a batch the `ids`, without `Location` and `ETag`.',
        content: content({ anyOf: [ref('schemas', 'Created'), ref('schemas', 'CreatedItems'), item] }, JSON_TYPE),
      },
    },
    problems: [400, 409, 413, 415, 422, 503, 504, 507],
  }
}

export function created(item: JsonObject): Response {
  return {
    description: 'Created. The body is its `id`, or with `Prefer: return=representation` the item.',
    headers: ['Location', 'ETag', 'Preference-Applied'],
    content: content({ anyOf: [ref('schemas', 'Created'), item] }, JSON_TYPE),
  }
}

export const createEmpty: Operation = {
  summary: 'Create the collection',
  description: 'Without a body. An existing collection is not changed.',
  parameters: ['Idempotency-Key'],
  responses: {
    201: {
      description: 'Created, without items.',
      headers: ['Location'],
      content: content(EMPTY_LIST, JSON_TYPE),
    },
    204: { description: 'It exists.' },
  },
  problems: [400, 422, 503, 504, 507],
}

export const deleteItems: Operation = {
  summary: 'Delete the matching items, or the collection',
  description:
    'With filters the matching items, in one write. With `all=true` instead, all items and the collection itself; that needs the role `admin`. Without either, with a body, with an empty text to look for, or with a slash at the end of the path: 400.',
  parameters: ['filters', 'q', 'all', 'dryRun', 'Idempotency-Key'],
  responses: {
    200: {
      description: 'Deleted.',
      headers: ['Recollect-Hint'],
      content: content(ref('schemas', 'Deleted'), JSON_TYPE),
    },
  },
  problems: [400, 404, 414, 422, 503, 504, 507],
}
