import type { Deletion, OnItem } from '../commands/command.ts'
import type { DeletionOutcome } from '../commands/deletions.ts'
import type { RestoredCollection } from '../commands/restore.ts'
import { readDataFileBody } from '../data-file/file-reader.ts'
import type { DomainEvent } from '../events/event.ts'
import { refuseNul } from '../json/parse.ts'
import { formatPath } from '../json/paths.ts'
import { collectionPath } from '../projections/address.ts'
import { foreignKeyOf } from '../query/embedding.ts'
import type { Operator } from '../query/filter.ts'
import { IGNORED, parseFlag } from '../query/parameter.ts'
import { ALL, AS_OF, type Parameter, parseQuery, type Query, WITHOUT_FILTERS } from '../query/query.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Turn } from '../runtime/turns.ts'
import type { ApiOptions } from './api-options.ts'
import { gatherBody, hasBody, readBytes } from './bodies.ts'
import type { HttpRequest, Reply } from './exchange.ts'
import { JSON_TYPE } from './media-types.ts'
import {
  apiSegments,
  BULK_PARAMETERS,
  DRY_RUN,
  originOf,
  parametersOf,
  prefers,
  refuseIgnored,
  refuseIgnoredHeaders,
  refuseMisspelt,
  refuseUnknown,
  UNCHANGED_SINCE,
} from './requests.ts'

const MOST_DEPENDENTS = 8

/** PUT of a collection: creates it if it does not exist. */
export async function createCollection(
  request: HttpRequest,
  reply: Reply,
  handler: ApiOptions['handler'],
): Promise<void> {
  const [collection] = apiSegments(request.path) as [string]
  if (hasBody(request.headers)) {
    throw new Refusal('Invalid', 'A PUT that creates a collection has no body. Items are sent by POST, also as a list.')
  }
  refuseHeaders(request)
  if (request.querystring !== '') throw new Refusal('Invalid', 'A PUT that creates a collection has no query.')
  const command = { type: 'CreateCollection', collection } as const
  const { position, events } = await handler.bulk(command, originOf(request))
  reply.position = position
  reply.status = 204
  if (events.length === 0) return
  reply.set('Location', collectionPath(collection))
  reply.json('[]', 201)
}

/** DELETE of a collection: deletes the items that match the filters; with `all=true`, the collection. */
export async function deleteItems(
  request: HttpRequest,
  reply: Reply,
  { handler, views, hints, queries, now, limits, idField }: ApiOptions,
): Promise<void> {
  const [collection] = apiSegments(request.path) as [string]
  refuseHeaders(request)
  refuseUnclear(request, idField)
  const isAdmin = request.principal.role === 'admin'
  const { filters, isWhole, isDryRun } = parseDeletion(parametersOf(request, limits), idField)
  const query = parseQuery(filters, limits, { time: queries.timeOf(collection), now: now().getTime() })
  checkFilters(query)
  if (isWhole && !isAdmin) {
    throw new Refusal('Forbidden', 'DELETE with all=true removes the whole collection; the role admin is needed.')
  }
  const present = views.find(collection)
  if (present) await hints.check(reply, present, query)
  const seconds = isAdmin ? {} : { seconds: limits.scanSeconds }
  const deletion: Deletion = isWhole
    ? { type: 'RemoveCollection', collection }
    : { type: 'DeleteItems', collection, filters: filters.map(({ raw }) => raw).join('&'), ...seconds }
  const isAtomic = prefersAtomic(request, reply)
  const outcome = await handler.delete(deletion, originOf(request), { isDryRun, isAtomic })
  const { position, deleted, writes, isRemoved, ids } = outcome
  reply.position = position
  reply.json(JSON.stringify({ deleted, dryRun: isDryRun, writes, ...(isWhole && { removed: isRemoved }), ids }))
}

/** DELETE of an item with `_dependent`: also of the items that refer to it. */
export async function deleteWithDependents(
  request: HttpRequest,
  reply: Reply,
  item: OnItem,
  names: readonly string[],
  { handler, views, limits, foreignKeySuffix }: ApiOptions,
): Promise<DeletionOutcome> {
  refuseIgnored(request)
  const field = foreignKeyOf(item.collection, foreignKeySuffix)
  const dependents = names.map((collection) => {
    if (views.find(collection)?.isObject === false) return { collection, field }
    throw new Refusal(
      'Invalid',
      `The parameter _dependent names ${JSON.stringify(collection)}, which is no collection.`,
    )
  })
  if (dependents.length > MOST_DEPENDENTS) {
    throw new Refusal('Invalid', `The parameter _dependent names more than ${MOST_DEPENDENTS} collections.`)
  }
  const seconds = request.principal.role === 'admin' ? {} : { seconds: limits.scanSeconds }
  const deletion = { type: 'DeleteItemWithDependents', ...item, dependents, ...seconds } as const
  return handler.delete(deletion, originOf(request), { isAtomic: prefersAtomic(request, reply) })
}

/** Whether the client wants one write, of any size. */
function prefersAtomic({ headers }: HttpRequest, reply: Reply): boolean {
  const isAtomic = prefers(headers, 'atomic')
  if (isAtomic) reply.set('Preference-Applied', 'atomic')
  return isAtomic
}

/** Rejects what suggests that less is meant than the address says: a body with ids, or an empty id in a template. */
function refuseUnclear(request: HttpRequest, idField: string): void {
  if (hasBody(request.headers)) {
    throw new Refusal(
      'Invalid',
      `A DELETE of a list has no body: filters in the address select the items, for example ?${idField}_in=3,5.`,
    )
  }
  if (request.path.endsWith('/')) {
    throw new Refusal(
      'Invalid',
      'A DELETE of a list has no slash at its end, as that of an item with an empty id would have. DELETE /api/<collection>/<id> deletes an item, /api/<collection>?<filters> those that match.',
    )
  }
}

function parseDeletion(parameters: readonly Parameter[], idField: string) {
  const filters: Parameter[] = []
  refuseMisspelt(parameters, [DRY_RUN])
  for (const parameter of parameters) {
    const { name } = parameter
    if (name === DRY_RUN || name === ALL) continue
    if (WITHOUT_FILTERS.has(name)) {
      const isIgnored = IGNORED.includes(name)
      const other = isIgnored ? 'only reads ignore it' : 'it takes filters, q, all and dryRun'
      const why = name === AS_OF ? 'the past cannot be changed' : other
      throw new Refusal(
        'Invalid',
        `DELETE of items does not accept ${name}: ${why}. Use ${name}_eq for a field of that name.`,
      )
    }
    if (isEmptyList(parameter)) {
      throw new Refusal(
        'Invalid',
        `The parameter ${name}[] of a DELETE is a list without values, so it is unclear what it selects.`,
      )
    }
    filters.push(parameter)
  }
  const isWhole = parseFlag(parameters, ALL)
  if (isWhole && filters.length > 0) {
    throw new Refusal('Invalid', 'DELETE with all=true removes the whole collection, so it takes no filters and no q.')
  }
  if (!isWhole && filters.length === 0) {
    throw new Refusal(
      'Invalid',
      `A DELETE of a list needs filters, for example ?${idField}_in=3,5. With ?all=true it removes the whole collection, which takes the role admin.`,
    )
  }
  return { filters, isWhole, isDryRun: parseFlag(parameters, DRY_RUN) }
}

/** Whether the client sent an array without elements, as `id[]=`. */
function isEmptyList({ raw, value }: Parameter): boolean {
  return value === '' && /%5b\d*%5d=?$/i.test(raw)
}

/** The operators by which the empty text selects every text. */
const MATCHING_EMPTY: readonly Operator[] = [
  'contains',
  'startswith',
  'endswith',
  'like',
  'istartswith',
  'iendswith',
  'gt',
  'gte',
]

/** Rejects filters that select far more than was meant. */
function checkFilters({ filters, others }: Query): void {
  if (others.some((other) => 'mentions' in other && other.mentions.includes(''))) throw emptyFilter('q')
  for (const { path, operator, operands } of filters) {
    if (MATCHING_EMPTY.includes(operator) && operands.some(({ text }) => text === '')) {
      throw emptyFilter(`${formatPath(path)}_${operator}`)
    }
  }
}

function emptyFilter(name: string): Refusal {
  return new Refusal('Invalid', `The filter ${name} of a DELETE is empty, so it would match any text.`)
}

/** Rejects ignored headers, and conditions: the entity tag of a collection does not cover items written since. */
function refuseHeaders(request: HttpRequest): void {
  const { headers } = request
  for (const name of ['if-match', 'if-none-match', UNCHANGED_SINCE] as const) {
    if (headers[name] === undefined) continue
    throw new Refusal(
      'Invalid',
      `Conditions such as ${name} are for single items; a collection is written without them.`,
    )
  }
  refuseIgnoredHeaders(request)
}

/** POST of a data file to `/api`: its collections and objects in place of all that there are, in one write. */
export async function replaceAll(request: HttpRequest, reply: Reply, options: ApiOptions): Promise<void> {
  const { handler, views, turns, idField, limits } = options
  const { batchBytes } = limits
  refuseHeaders(request)
  const parameters = parametersOf(request, limits)
  refuseUnknown(parameters, BULK_PARAMETERS)
  const isDryRun = parseFlag(parameters, DRY_RUN)
  const source = {
    headers: request.headers,
    bytes: () => gatherBody(request, { bytes: batchBytes, listBytes: batchBytes }),
  }
  const { bytes } = await readBytes(source, [JSON_TYPE])
  refuseNul(bytes)
  const file = await turns.run(
    (turn) => readDataFileBody(bytes as Buffer, { idField, mostValues: limits.itemValues }, turn),
    { isGone: () => request.isGone(), memory: request.memoryFor('bodies') },
  )
  const collections = new Map<string, RestoredCollection | undefined>(views.names().map((name) => [name, undefined]))
  for (const [name, items] of file) collections.set(name, { items: () => items })
  const { actor, requestId } = originOf(request)
  const { position, events } = await handler.restore(
    { type: 'collections', collections },
    { actor, requestId },
    isDryRun,
  )
  reply.position = position
  const counts = await turns.run((turn) => countsOf(events, turn))
  reply.json(JSON.stringify({ position, dryRun: isDryRun, events: events.length, ...counts }))
}

/** Items and single objects. */
async function countsOf(events: Iterable<DomainEvent>, turn: Turn): Promise<Readonly<Record<string, number>>> {
  const counts = { created: 0, replaced: 0, deleted: 0 }
  for (const { type } of events) {
    if (turn.isOver) await turn.next()
    if (type === 'ItemCreated' || type === 'ObjectCreated') counts.created++
    else if (type === 'ItemReplaced') counts.replaced++
    else if (type === 'ItemDeleted' || type === 'ObjectDeleted') counts.deleted++
  }
  return counts
}
