import type { Position } from '../events/event.ts'
import { mergeSort } from '../json/merge-sort.ts'
import { orderKey } from '../json/order-key.ts'
import type { JsonObject } from '../json/value.ts'
import { tooManyRows } from '../query/aggregate/rows.ts'
import type { Window } from '../query/aggregate/window.ts'
import type { Turn } from '../runtime/turns.ts'
import { BUCKETS, type Bucket, type EventCount, startOf } from './event-counts.ts'
import type { EventFilter } from './event-search.ts'
import type { Views } from './views.ts'

export const EVENT_GROUPS = ['type', 'collection', 'actor'] as const
export type EventGroup = (typeof EVENT_GROUPS)[number]

/** A question for numbers of events. */
export interface EventAggregation {
  readonly groupBy: readonly EventGroup[]
  /** Undefined: one row for each group. */
  readonly window: Window | undefined
  readonly filter: Pick<EventFilter, 'collection' | 'type' | 'actor' | 'since' | 'until'>
  /** Highest number of rows. */
  readonly most: number
}

/** Approximate memory of a row. */
const ROW_BYTES = 400

interface Row {
  readonly values: readonly string[]
  readonly startMs: number
  count: number
}

/**
 * The rows in the order of their groups, then of time, at the position that readers see. `since` and `until` select the
 * windows, without windows the minutes, that they are in.
 * @throws {Refusal} `Invalid` when there are too many.
 */
export async function eventRows(
  views: Views,
  aggregation: EventAggregation,
  turn: Turn,
): Promise<{ readonly rows: readonly JsonObject[]; readonly position: Position }> {
  const { groupBy, window } = aggregation
  const rows = new Map<string, Row>()
  // Without groups and windows there is one row, also of no events.
  if (groupBy.length === 0 && !window) rows.set('0', { values: [], startMs: 0, count: 0 })
  const pin = views.store.pin(views.position)
  const { position } = pin
  try {
    await visitMatches(views, aggregation, position, turn, (one) => add(rows, one, views, aggregation, turn))
  } finally {
    pin.release()
  }
  const sorted = await mergeSort(Array.from(rows.values(), withKeys), turn, compareRows)
  const objects = sorted.map(({ row: { values, startMs, count } }) => ({
    ...Object.fromEntries(groupBy.map((group, index) => [group, values[index] as string])),
    ...(window && { window: window.text(startMs) }),
    count,
  }))
  return { rows: objects, position }
}

/** Calls back with the matching counts, each of a bucket within one window. */
async function visitMatches(
  views: Views,
  { window, filter }: EventAggregation,
  at: Position,
  turn: Turn,
  visit: (one: EventCount) => void,
): Promise<void> {
  const { quarter, minute } = BUCKETS
  const { since, until } = filter
  const unit: Pick<Window, 'start' | 'until'> = window ?? {
    start: (ms) => startOf(minute, ms),
    until: (ms) => startOf(minute, ms) + minute.ms,
  }
  const fromMs = since ? unit.start(since.ms) : 0
  const toMs = until ? unit.until(until.ms) : Number.POSITIVE_INFINITY
  const number = filter.collection === undefined ? undefined : views.numberOf(filter.collection)
  if (filter.collection !== undefined && number === undefined) return
  const wanted = { ...filter, collection: number }
  const between = (bucket: Bucket, from: number, to: number) => views.eventCounts.between(bucket, from, to, at)
  /** The quarter of an hour whose minutes were read last. */
  let readMs = -1
  for (const one of between(quarter, startOf(quarter, fromMs), toMs)) {
    if (turn.isOver) await turn.next()
    const { startMs } = one
    if (startMs === readMs || !isMatch(one, wanted)) continue
    const endMs = startMs + quarter.ms
    if (startMs >= fromMs && endMs <= toMs && (!window || window.until(startMs) >= endMs)) {
      visit(one)
      continue
    }
    readMs = startMs
    for (const part of between(minute, Math.max(startMs, fromMs), Math.min(endMs, toMs))) {
      if (turn.isOver) await turn.next()
      if (isMatch(part, wanted)) visit(part)
    }
  }
}

interface Wanted {
  readonly collection?: number | undefined
  readonly type?: string
  readonly actor?: string
}

function isMatch(one: EventCount, { collection, type, actor }: Wanted): boolean {
  return (
    (collection === undefined || one.collection === collection) &&
    (type === undefined || one.type === type) &&
    (actor === undefined || one.actor === actor)
  )
}

function add(
  rows: Map<string, Row>,
  one: EventCount,
  views: Views,
  { groupBy, window, most }: EventAggregation,
  turn: Turn,
): void {
  const startMs = window ? window.start(one.startMs) : 0
  const key = [startMs, ...groupBy.map((group) => one[group])].join(' ')
  const known = rows.get(key)
  if (known) {
    known.count += one.count
    return
  }
  const texts = {
    collection: (): string => views.nameOf(one.collection) as string,
    type: () => one.type,
    actor: () => one.actor,
  }
  turn.hold(ROW_BYTES)
  rows.set(key, { values: groupBy.map((group) => texts[group]()), startMs, count: one.count })
  if (rows.size > most) throw tooManyRows(most)
}

interface KeyedRow {
  readonly row: Row
  readonly keys: readonly string[]
}

function withKeys(row: Row): KeyedRow {
  return { row, keys: row.values.map((value) => orderKey(value)) }
}

function compareRows(a: KeyedRow, b: KeyedRow): number {
  for (const [index, key] of a.keys.entries()) {
    const other = b.keys[index] as string
    if (key !== other) return key < other ? -1 : 1
  }
  return a.row.startMs - b.row.startMs
}
