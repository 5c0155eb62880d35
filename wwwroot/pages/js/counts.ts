// How many items there are, and how many changes there were when, for the time strip and for the lines of activity.
import { computed, signal } from '@preact/signals'
import { type EventCount, Problem } from '../../../src/client/index.ts'
import { changes, client, now } from './app.ts'
import { following } from './following.ts'
import { calm, resource } from './resource.ts'
import { asOf, type Span } from './time.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
export const DAY = 24 * HOUR
const WINDOWS: readonly (readonly [name: string, ms: number])[] = [
  ['1m', MINUTE],
  ['5m', 5 * MINUTE],
  ['15m', 15 * MINUTE],
  ['30m', 30 * MINUTE],
  ['1h', HOUR],
  ['2h', 2 * HOUR],
  ['6h', 6 * HOUR],
  ['12h', 12 * HOUR],
  ['1d', DAY],
  ['1w', 7 * DAY],
]
const LAST_WINDOW = ['1mo', 30 * DAY] as const
const MOST_WINDOWS = 180
const LEAST_SPAN = HOUR
const FIRST_SPAN = 14 * DAY
const REFRESH_MS = 5000
const ITEMS_MS = 1000
const TZ = Intl.DateTimeFormat().resolvedOptions().timeZone

/** The number of items of each collection, now. */
export const itemCounts = following(
  () => true,
  ITEMS_MS,
  () => true,
  () => client.counts(),
)

/** Those at the moment that is shown; undefined: it is the present. */
const itemCountsThen = resource(
  () => asOf.value,
  (position) => client.counts({ asOf: position }),
)

/** By the names of the collections, in their order; null for a single object. */
export const shownCounts = computed(() => itemCountsThen.value.value ?? itemCounts.value.value)
/** The present numbers of items, while the past is shown. */
export const countsToday = computed(() => (asOf.value === undefined ? undefined : itemCounts.value.value))

/** The changes in a window of time, which begins at `from`. */
export interface Bin {
  readonly from: number
  readonly count: number
  readonly created: number
  readonly deleted: number
  /** Whole collections: how many items they had is not known. */
  readonly removed: number
}

export interface Counts {
  readonly span: Span
  /** How long a window is; those of months are about so long. */
  readonly windowMs: number
  readonly bins: readonly Bin[]
  /** Undefined where there are too many collections to count each. */
  readonly byCollection: ReadonlyMap<string, readonly Bin[]> | undefined
}

/** The time that is asked for; undefined: that of the journal, at most the last two weeks. */
export const zoom = signal<Span>()

/** Becomes another number now and then, while nothing happens. */
const tick = signal(0)
setInterval(() => tick.value++, 12 * REFRESH_MS)
const calmChanges = calm(changes, REFRESH_MS)

export const counts = resource(
  () => [zoom.value, calmChanges.value, tick.value] as const,
  async ([asked]) => {
    const to = now()
    if (asked) return countsOf(asked)
    const all = await countsOf({ from: to - FIRST_SPAN, to })
    const first = all.bins[0]?.from ?? to
    // A young journal has more to show of a shorter time.
    const from = Math.min(first, to - LEAST_SPAN)
    return to - from > FIRST_SPAN / 2 ? all : countsOf({ from, to })
  },
  1000,
)

/** Half of the time, or twice it, around a moment. */
export function zoomBy(times: number, around: number): void {
  const span = zoom.peek() ?? counts.value.peek()?.span ?? { from: now() - FIRST_SPAN, to: now() }
  const length = Math.max(LEAST_SPAN, (span.to - span.from) * times)
  const share = (around - span.from) / (span.to - span.from)
  const to = Math.min(now(), around + (1 - share) * length)
  zoom.value = { from: Math.max(0, to - length), to }
}

async function countsOf(span: Span): Promise<Counts> {
  const length = span.to - span.from
  const [window, windowMs] = WINDOWS.find(([, ms]) => length / ms <= MOST_WINDOWS) ?? LAST_WINDOW
  const asked = { window, tz: TZ, since: new Date(span.from), until: new Date(span.to) }
  const [rows, areByCollection] = await client.eventCounts({ ...asked, groupBy: ['collection', 'type'] }).then(
    (found) => [found, true] as const,
    async (error: unknown) => {
      // More rows than an answer may have: there are many collections.
      if (!(error instanceof Problem) || error.status !== 400) throw error
      return [await client.eventCounts({ ...asked, groupBy: ['type'] }), false] as const
    },
  )
  const byCollection = new Map<string, EventCount[]>()
  for (const row of areByCollection ? rows : []) {
    const name = row.collection ?? ''
    byCollection.set(name, [...(byCollection.get(name) ?? []), row])
  }
  return {
    span,
    windowMs,
    bins: binsOf(rows),
    byCollection: areByCollection ? new Map([...byCollection].map(([name, own]) => [name, binsOf(own)])) : undefined,
  }
}

function binsOf(rows: readonly EventCount[]): readonly Bin[] {
  const bins = new Map<number, Bin>()
  for (const { window = '', type = '', count } of rows) {
    const from = Date.parse(window)
    const bin = bins.get(from) ?? { from, count: 0, created: 0, deleted: 0, removed: 0 }
    bins.set(from, {
      from,
      count: bin.count + count,
      created: bin.created + (type === 'ItemCreated' ? count : 0),
      deleted: bin.deleted + (/Deleted|Removed/.test(type) ? count : 0),
      removed: bin.removed + (type === 'CollectionRemoved' ? count : 0),
    })
  }
  return [...bins.values()].sort((a, b) => a.from - b.from)
}
