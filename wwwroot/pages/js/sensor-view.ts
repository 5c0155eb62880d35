// Which sensor the page shows, over which time, and beside what. All of it is in the address.
import { computed, signal } from '@preact/signals'
import { address } from './address.ts'
import { DAY } from './counts.ts'
import { type Item, macOf, mainValue, measured, nameOf, numberOf, timeOfReading } from './measures.ts'
import { calm } from './resource.ts'
import { edge, sensors } from './sensor-list.ts'
import { at } from './time.ts'

const HOUR = DAY / 24
/** By name: what it is called, and how long it is; undefined for all there is. */
export const RANGES: Readonly<Record<string, readonly [label: string, ms: number | undefined]>> = {
  '1h': ['1 h', HOUR],
  '6h': ['6 h', 6 * HOUR],
  '24h': ['24 h', DAY],
  '7d': ['7 days', 7 * DAY],
  '30d': ['30 days', 30 * DAY],
  '1y': ['1 year', 365 * DAY],
  '5y': ['5 years', 5 * 365 * DAY],
  all: ['All', undefined],
}
export const USUAL = '24h'
/** More lines in one chart are not told apart. */
export const MOST_OTHERS = 4

export interface View {
  readonly sensor: string | undefined
  readonly q: string
  readonly sort: string
  /** Undefined: the usual one. */
  readonly range: string | undefined
  /** In milliseconds since 1970. With both the range does not count; without `to` it ends now. */
  readonly from: number | undefined
  readonly to: number | undefined
  /** Other sensors in the same charts. */
  readonly others: readonly string[]
  /** The same time before that, in the same charts. */
  readonly withBefore: boolean
}

export const view = signal(read())
address.onBack(() => {
  view.value = read()
})

function read(): View {
  const time = (name: string): number | undefined => {
    const ms = Date.parse(address.get(name) ?? '')
    return Number.isNaN(ms) ? undefined : ms
  }
  const [from, to, range] = [time('from'), time('to'), address.get('range') ?? '']
  return {
    sensor: address.get('sensor'),
    q: address.get('q') ?? '',
    sort: address.get('sort') ?? '',
    range: Object.hasOwn(RANGES, range) ? range : undefined,
    from: to !== undefined && from !== undefined && from < to ? from : undefined,
    to,
    others: (address.get('with') ?? '').split(',').filter(Boolean).map(decoded).slice(0, MOST_OTHERS),
    withBefore: address.get('before') === 'true',
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** isStep: Back leads to what was before. */
export function go(changes: Partial<View>, options: { readonly isStep?: boolean } = { isStep: true }): void {
  const { sensor, q, sort, range, from, to, others, withBefore } = { ...view.peek(), ...changes }
  const instant = (ms: number | undefined): string | undefined =>
    ms === undefined ? undefined : new Date(Math.round(ms)).toISOString()
  address.set(
    {
      sensor,
      q,
      sort,
      range,
      from: instant(from),
      to: instant(to),
      with: others.map((key) => key.replace(/[%,]/g, encodeURIComponent)).join(','),
      before: withBefore ? 'true' : undefined,
    },
    options,
  )
  view.value = read()
}

/** The orders of the tiles: what they are called, and what they sort by, the least first. */
export const SORTS: Readonly<Record<string, readonly [label: string, rank: (item: Item) => number | undefined]>> = {
  name: ['Name', ({ order }) => (typeof order === 'number' ? order : undefined)],
  latest: ['Latest first', (item) => negative(timeOfReading(item))],
  silent: ['Silent longest first', (item) => timeOfReading(item) ?? Number.NEGATIVE_INFINITY],
  high: ['Highest first', (item) => negative(mainValue(item))],
  low: ['Lowest first', mainValue],
  battery: ['Battery lowest first', (item) => numberOf(measured(item).battery)],
}

function negative(value: number | undefined): number | undefined {
  return value === undefined ? undefined : -value
}

interface Named {
  readonly key: string
  /** Lower case; numbers have leading zeros, so that 2 is before 10. */
  readonly name: string
  readonly text: string
}

/** By the object of the item: most stay what they are while others change. */
const named = new WeakMap<Item, Named>()

function namedOf(key: string, item: Item): Named {
  const known = named.get(item)
  if (known) return known
  const isNamed = nameOf(item) !== macOf(item)
  const name = String(nameOf(item)).toLowerCase()
  const sorted = isNamed ? name.replace(/\d+/g, (digits) => digits.padStart(12, '0')) : name
  const made = { key, name: sorted, text: `${name}\n${String(macOf(item)).toLowerCase()}\n${key.toLowerCase()}` }
  named.set(item, made)
  return made
}

/** Tiles do not change their places all the time. */
const calmSensors = { byName: calm(sensors, 1000), byValue: calm(sensors, 10_000) }
const size = computed(() => sensors.value?.size)
/** The sensors that the search leaves, in their order. */
export const order = computed((): readonly string[] => {
  const { q, sort } = view.value
  const isByValue = sort !== 'name' && Object.hasOwn(SORTS, sort)
  const [, rankOf] = SORTS[isByValue ? sort : 'name'] as (typeof SORTS)[string]
  const before = calmSensors[isByValue ? 'byValue' : 'byName'].value
  const all = at.value ? sensors.value : before?.size === size.value ? before : sensors.peek()
  const wanted = q.trim().toLowerCase()
  const found: (Named & { readonly rank: number })[] = []
  for (const [key, item] of all ?? []) {
    const own = namedOf(key, item)
    if (wanted === '' || own.text.includes(wanted)) {
      found.push({ ...own, rank: rankOf(item) ?? Number.POSITIVE_INFINITY })
    }
  }
  found.sort((a, b) => (a.rank < b.rank ? -1 : a.rank > b.rank ? 1 : a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
  return found.map(({ key }) => key)
})

/** The first sensor there was, while the address names none: search and sort do not change what is charted. */
let usual: string | undefined
/** The sensor that is charted. */
export const chosen = computed((): string | undefined => {
  if (view.value.sensor !== undefined) return view.value.sensor
  if (usual === undefined || !sensors.value?.has(usual)) usual = order.value[0]
  return usual
})

export interface Period {
  /** Undefined: all there is. */
  readonly from: number | undefined
  /** Undefined: it ends now, and new readings come in. */
  readonly to: number | undefined
  readonly end: number
  /** Undefined: the part of a chart that was zoomed, or all there is. */
  readonly ms: number | undefined
}

/** The right edge of what is shown; a reading may be stamped later than that. */
export function endOf(item: Item): number {
  return Math.max(edge(), timeOfReading(item) ?? 0)
}

/** The time over which a sensor is shown; where its last reading is older, the time that ends with that millisecond. */
export function periodOf({ range = USUAL, from, to }: Pick<View, 'range' | 'from' | 'to'>, item: Item): Period {
  if (from !== undefined && to !== undefined) return { from, to, end: to, ms: undefined }
  const ms = RANGES[range]?.[1]
  const latest = timeOfReading(item)
  const end = endOf(item)
  if (ms === undefined) return { from: undefined, to: undefined, end, ms }
  const last = to ?? (latest !== undefined && latest < end - ms ? latest + 1 : undefined)
  return { from: (last ?? end) - ms, to: last, end: last ?? end, ms }
}
