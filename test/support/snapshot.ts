import type { JsonObject } from '../../src/json/value.ts'
import type { Views } from '../../src/projections/views.ts'

/** The items of every collection, in order, parsed. */
export type Snapshot = ReadonlyMap<string, readonly JsonObject[]>

export function snapshotOf(views: Pick<Views, 'names' | 'find'>): Snapshot {
  return new Map(views.names().map((name) => [name, Array.from(views.find(name)?.items() ?? [], (item) => item.value)]))
}
