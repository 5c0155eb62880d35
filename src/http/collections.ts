import type { BulkCommand, OnItem } from '../commands/command.ts'
import type { BulkOutcome } from '../commands/outcome.ts'
import { type ItemId, isItemEvent } from '../events/event.ts'
import { collectionPath } from '../projections/address.ts'
import { foreignKeyOf } from '../query/embedding.ts'
import { parseFlag } from '../query/parameter.ts'
import { AS_OF, type Parameter, parseQuery, WITHOUT_FILTERS } from '../query/query.ts'
import { Refusal } from '../runtime/errors.ts'
import type { ApiRequest, Reply } from './api.ts'
import type { ApiOptions } from './api-options.ts'
import {
  apiSegments,
  DRY_RUN,
  originOf,
  parametersOf,
  refuseMisspelt,
  refuseParameters,
  refuseUnheeded,
} from './requests.ts'

/** Highest number of ids in the response; the journal has all of them. */
const LISTED_IDS = 1000
const MOST_DEPENDENTS = 8

/** PUT of a collection: creates it if it does not exist. */
export async function createCollection(
  request: ApiRequest,
  reply: Reply,
  handler: ApiOptions['handler'],
): Promise<void> {
  const [collection] = apiSegments(request.path) as [string]
  const { headers } = request
  if (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0) {
    throw new Refusal('Invalid', 'A PUT that creates a collection has no body. Items are sent by POST, also as a list.')
  }
  refuseConditions(request)
  refuseUnheeded(request)
  if (request.querystring !== '') throw new Refusal('Invalid', 'A PUT that creates a collection has no query.')
  const command = { type: 'CreateCollection', collection } as const
  const { position, events } = await handler.bulk(command, originOf(request))
  reply.position = position
  reply.status = 204
  if (events.length === 0) return
  reply.set('Location', collectionPath(collection))
  reply.json('[]', 201)
}

/** DELETE of a collection: deletes the items that match the filters; without filters, the collection. */
export async function deleteItems(
  request: ApiRequest,
  reply: Reply,
  { handler, views, hints, queries, now, limits }: ApiOptions,
): Promise<void> {
  const [collection] = apiSegments(request.path) as [string]
  refuseConditions(request)
  refuseUnheeded(request)
  const isAdmin = request.principal.role === 'admin'
  const { filters, isDryRun } = parseDeletion(parametersOf(request, limits))
  const query = parseQuery(filters, limits, { time: queries.timeOf(collection), now: now().getTime() })
  if (filters.length === 0 && !isAdmin) {
    throw new Refusal('Forbidden', 'Without filters a DELETE removes the whole collection; the role admin is needed.')
  }
  const present = views.find(collection)
  if (present) await hints.check(reply, present, query)
  const seconds = isAdmin ? {} : { seconds: limits.scanSeconds }
  const command: BulkCommand =
    filters.length === 0
      ? { type: 'RemoveCollection', collection }
      : { type: 'DeleteItems', collection, filters: filters.map(({ raw }) => raw).join('&'), ...seconds }
  const outcome = await handler.bulk(command, originOf(request), isDryRun)
  reply.position = outcome.position
  reply.json(JSON.stringify({ deleted: deletedIn(outcome), dryRun: isDryRun, ids: firstIds(outcome) }))
}

/** DELETE of an item with `_dependent`: also of the items that refer to it. */
export async function deleteWithDependents(
  request: ApiRequest,
  item: OnItem,
  names: readonly string[],
  { handler, views, limits }: ApiOptions,
): Promise<BulkOutcome> {
  refuseUnheeded(request)
  refuseParameters(request)
  const field = foreignKeyOf(item.collection)
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
  const command = { type: 'DeleteItemWithDependents', ...item, dependents, ...seconds } as const
  return handler.bulk(command, originOf(request))
}

function parseDeletion(parameters: readonly Parameter[]) {
  const filters: Parameter[] = []
  refuseMisspelt(parameters, [DRY_RUN])
  for (const parameter of parameters) {
    const { name } = parameter
    if (name === DRY_RUN) continue
    if (WITHOUT_FILTERS.has(name)) {
      const why = name === AS_OF ? 'the past cannot be changed' : 'it takes filters, q and dryRun'
      throw new Refusal(
        'Invalid',
        `DELETE of items does not accept ${name}: ${why}. Use ${name}_eq for a field of that name.`,
      )
    } else filters.push(parameter)
  }
  return { filters, isDryRun: parseFlag(parameters, DRY_RUN) }
}

/** Entity tags of collections do not cover items written since, so conditions are rejected. */
export function refuseConditions({ headers }: ApiRequest): void {
  for (const name of ['if-match', 'if-none-match'] as const) {
    if (headers[name] === undefined) continue
    throw new Refusal(
      'Invalid',
      `Conditions such as ${name} are for single items; a collection is written without them.`,
    )
  }
}

function deletedIn({ events }: BulkOutcome): number {
  return events.length - (events.at(-1)?.type === 'CollectionRemoved' ? 1 : 0)
}

function firstIds({ events }: BulkOutcome): readonly ItemId[] {
  return events.slice(0, LISTED_IDS).flatMap((event) => (isItemEvent(event) ? [event.id] : []))
}
