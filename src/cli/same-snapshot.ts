import type { Snapshot } from '../collections/snapshot.ts'
import { equal } from '../json/value.ts'

/** Whether two states have the same collections with the same items in the same order. */
export function sameSnapshot(a: Snapshot, b: Snapshot): boolean {
  if (a.size !== b.size) return false
  for (const [name, items] of a) {
    const others = b.get(name)
    if (!others || items.length !== others.length) return false
    if (!items.every((item, index) => equal(item, others[index]))) return false
  }
  return true
}
