import { randomBytes } from 'node:crypto'
import type { KeyFields } from '../collections/natural-keys.ts'
import type { ItemSchemas } from '../commands/item-schemas.ts'
import type { ExpiryRule, Rules } from '../commands/rules.ts'
import { formatPath, type Path } from '../json/paths.ts'
import { eventTimesOf } from '../settings/collections.ts'
import type { Settings } from '../settings/settings.ts'
import type { EngineDependencies } from './dependencies.ts'

/** The random bytes of an id like those of json-server 1.0. */
const ID_BYTES = 8

/** The rules of the settings for writes. */
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
    ...(api.compatibility === 'json-server' && {
      jsonServer: { newTextId: () => randomBytes(ID_BYTES).toString('base64url') },
    }),
    itemBytes: limits.bodyBytes,
    itemValues: limits.itemValues,
    patchOperations: limits.patchOperations,
    keyFields: keyFieldsOf(collections),
    replacing: new Set(all.filter(([, { isReplacing }]) => isReplacing).map(([name]) => name)),
    times: eventTimesOf(collections),
    nowMs: () => now().getTime(),
    received: () => now().toISOString(),
    latest: new Map(all.flatMap(([name, { latest }]) => (latest ? [[name, latest]] : []))),
    expiry: expiryRulesOf(collections),
    horizonMs: () => undefined,
    hasSchema: (collection) => schemas.has(collection),
    faultsOf: (collection, item) => schemas.faultsOf(collection, item),
  }
}

/** The natural keys that the settings name, each with the index of the settings that begins with its fields. */
function keyFieldsOf(collections: Settings['collections']): KeyFields {
  const keyed = Object.entries(collections).flatMap(([name, { key, time, indexes }]) => {
    if (!key) return []
    const index = indexes.find((paths) => isOfSame(key, paths.slice(0, key.length)))
    const fields = index?.slice(0, key.length) ?? key
    const timePart = time ? fields.map(formatPath).indexOf(formatPath(time.path)) : -1
    return [[name, { fields, timePart, ...(index && { index }) }] as const]
  })
  return new Map(keyed)
}

/** Whether two lists have the same paths in any order. */
function isOfSame(one: readonly Path[], other: readonly Path[]): boolean {
  const [names, others] = [one, other].map((paths) => paths.map(formatPath).sort())
  return JSON.stringify(names) === JSON.stringify(others)
}

/** The rules by which items expire, by collection. */
export function expiryRulesOf(collections: Settings['collections']): ReadonlyMap<string, ExpiryRule> {
  const rules = new Map<string, ExpiryRule>()
  for (const [collection, { keep, keepItems, time }] of Object.entries(collections)) {
    if (keep === undefined && keepItems === undefined) continue
    const texts = [keep?.text, keepItems !== undefined ? `${keepItems} items` : undefined]
    rules.set(collection, {
      collection,
      text: texts.filter((text) => text !== undefined).join(', '),
      keep: keep?.text,
      keepMs: keep?.ms,
      keepItems,
      time: { path: time?.path, maxAheadMs: time?.maxAheadMs ?? 0 },
    })
  }
  return rules
}

/** The fields of the event times that the settings name. */
export function timesOf(collections: Settings['collections']): ReadonlyMap<string, Path> {
  return new Map(Array.from(eventTimesOf(collections), ([name, { path }]) => [name, path]))
}
