import type { RestoredCollection } from '../commands/restore.ts'
import { readDataFileBody } from '../data-file/file-reader.ts'
import type { DomainEvent } from '../events/event.ts'
import { refuseNul } from '../json/parse.ts'
import { parseFlag } from '../query/parameter.ts'
import type { Turn } from '../runtime/turns.ts'
import type { ApiRequest, Reply } from './api.ts'
import { gatherBody } from './batch-body.ts'
import { readBytes } from './bodies.ts'
import { refuseConditions } from './collections.ts'
import { JSON_TYPE } from './media-types.ts'
import {
  type ApiOptions,
  BULK_PARAMETERS,
  DRY_RUN,
  originOf,
  parametersOf,
  refuseUnheeded,
  refuseUnknown,
} from './requests.ts'

/** POST of a data file to `/api`: its collections and objects in place of all that there are, in one write. */
export async function replaceAll(request: ApiRequest, reply: Reply, options: ApiOptions): Promise<void> {
  const { handler, views, turns, idField, limits } = options
  const { batchBytes } = limits
  refuseConditions(request)
  refuseUnheeded(request)
  const parameters = parametersOf(request, limits)
  refuseUnknown(parameters, BULK_PARAMETERS)
  const isDryRun = parseFlag(parameters, DRY_RUN)
  const source = {
    headers: request.headers,
    bytes: () => gatherBody(request.incoming, { bytes: batchBytes, listBytes: batchBytes }),
  }
  const { bytes } = await readBytes(source, [JSON_TYPE])
  refuseNul(bytes)
  const file = await turns.run((turn) =>
    readDataFileBody(bytes as Buffer, { idField, mostValues: limits.itemValues }, turn),
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
