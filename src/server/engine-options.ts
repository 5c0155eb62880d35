import { randomBytes } from 'node:crypto'
import { getHeapStatistics } from 'node:v8'
import type { ItemSchemas } from '../commands/item-schemas.ts'
import type { Rules } from '../commands/rules.ts'
import type { CompressionOptions } from '../events/compression.ts'
import { eventTimesOf } from '../settings/collections.ts'
import type { Settings } from '../settings/settings.ts'
import type { EngineDependencies } from './dependencies.ts'
import { keyFieldsOf } from './durable-projections.ts'

/** The random bytes of an id like those of json-server 1.0. */
const ID_BYTES = 8

/** The share of V8's heap that the events of a restore, or of an edit of the data file, may take. */
const HELD_SHARE = 0.25

export function heldCharacters(): number {
  return getHeapStatistics().heap_size_limit * HELD_SHARE
}

export function rulesOf(
  { api, dataStore, limits, collections }: Settings,
  schemas: ItemSchemas,
  { now }: Pick<EngineDependencies, 'now'>,
): Rules {
  const all = Object.entries(collections)
  return {
    idField: dataStore.idField,
    upsertOnPut: api.upsertOnPut,
    clientIdsOnPost: api.clientIdsOnPost,
    ...(api.compatibility === 'json-server' && { newId: () => randomBytes(ID_BYTES).toString('base64url') }),
    itemBytes: limits.bodyBytes,
    itemValues: limits.itemValues,
    patchOperations: limits.patchOperations,
    heldCharacters: heldCharacters(),
    keyFields: keyFieldsOf(collections),
    replacing: new Set(all.filter(([, { isReplacing }]) => isReplacing).map(([name]) => name)),
    times: eventTimesOf(collections),
    nowMs: () => now().getTime(),
    received: () => now().toISOString(),
    latest: new Map(all.flatMap(([name, { latest }]) => (latest ? [[name, latest]] : []))),
    hasSchema: (collection) => schemas.has(collection),
    faultsOf: (collection, item) => schemas.faultsOf(collection, item),
  }
}

/** The compression of full segments. */
export function compressionOf(
  { compressAfter }: Pick<Settings, 'compressAfter'>,
  { schedule, log }: Pick<EngineDependencies, 'schedule' | 'log'>,
): { readonly compress?: Omit<CompressionOptions, 'files'> } {
  return compressAfter === 'off' ? {} : { compress: { afterMs: 1000 * compressAfter, schedule, log } }
}
