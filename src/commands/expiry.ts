import { expiryTimeOf } from '../collections/least-times.ts'
import type { AcceptedState } from '../collections/overlay.ts'
import type { ExpiredItem, ExpiredRun, ItemsExpired } from '../events/event.ts'
import type { JsonObject } from '../json/value.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Turn } from '../runtime/turns.ts'
import type { Rules } from './rules.ts'

/** Items to expire. Plain data, so that it can be sent to the leader of a cluster. */
export interface Expiration {
  readonly collection: string
  /** The text of the rule. */
  readonly rule: string
  /** Those that were found, which stay if they were changed since; none to confirm the rule. */
  readonly items: readonly FoundItem[]
}

/** An item as it was found: its place, and the position of its last event. */
export type FoundItem = Pick<ExpiredItem, 'place' | 'position'>

/** Decides which of the items expire. The accepted state must have no write in flight, whose items have no places yet. */
export async function decideExpiry(
  { collection: name, rule, items }: Expiration,
  accepted: AcceptedState,
  rules: Rules,
  turn: Turn,
): Promise<readonly ItemsExpired[]> {
  const wanted = rules.expiry.get(name)
  const collection = accepted.collection(name)
  if (!wanted || wanted.text !== rule || !collection.exists || collection.isObject) return []
  const { stored } = collection
  const expired: ExpiredItem[] = []
  for (const { place, position } of items) {
    if (turn.isOver) await turn.next()
    const item = stored.itemAt(place)
    // It was changed, is gone, or has another place now.
    if (item?.position !== position) continue
    expired.push({ id: item.id, place, revision: item.revision, position })
  }
  if (expired.length === 0 && items.length > 0) return []
  expired.sort((a, b) => a.place - b.place)
  return [{ type: 'ItemsExpired', collection: name, rule, runs: runsOf(expired) }]
}

/** Joins items that follow each other, in the order of their places. */
export function runsOf(items: readonly ExpiredItem[]): readonly ExpiredRun[] {
  const runs: { -readonly [Name in keyof ExpiredRun]: ExpiredRun[Name] }[] = []
  for (const { id, place, revision, position } of items) {
    const last = runs.at(-1)
    const isNext =
      last?.revision === revision &&
      typeof last.id === 'number' &&
      Number.isSafeInteger(last.id) &&
      id === last.id + last.count &&
      place === last.place + last.count
    const step = last && isNext && last.count === 1 ? position - last.position : last?.step
    if (last && isNext && step !== undefined && position === last.position + last.count * step) {
      last.step = step
      last.count++
    } else runs.push({ id, count: 1, place, revision, position, step: 0 })
  }
  return runs
}

/**
 * Refuses a new item that has expired already.
 * @throws {Refusal} `Unprocessable`
 */
export function checkNotExpired(item: () => JsonObject, collection: string, rules: Rules): void {
  const rule = rules.expiry.get(collection)
  if (!rule || !hasExpired(item, collection, rules)) return
  const time = new Date(expiryTimeOf(item, rules.nowMs(), rule.time)).toISOString()
  const horizon = new Date(rules.horizonMs(collection) as number).toISOString()
  const why = `its event time, ${time}, is before ${horizon}`
  throw new Refusal('Unprocessable', `The item has expired: ${why} (Collections.${collection}.Keep is ${rule.keep}).`)
}

/** Whether a new item would expire at once. */
export function hasExpired(item: () => JsonObject, collection: string, rules: Rules): boolean {
  const rule = rules.expiry.get(collection)
  const horizonMs = rules.horizonMs(collection)
  return rule !== undefined && horizonMs !== undefined && expiryTimeOf(item, rules.nowMs(), rule.time) < horizonMs
}
