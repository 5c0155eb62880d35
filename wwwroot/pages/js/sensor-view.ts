// Which sensor the page shows, over which time, and beside what. All of it is in the address.
import { computed, signal } from '@preact/signals'
import { address } from './address.ts'
import { DAY } from './counts.ts'
import { edge } from './curves.ts'
import { type Item, macOf, mainValue, measured, nameOf, numberOf, timeOfReading } from './measures.ts'
import { sortable } from './names.ts'
import { calm } from './resource.ts'
import { sensors } from './sensor-list.ts'
import { at } from './time.ts'

const HOUR = DAY / 24
/** By name: what it is called, and how long it is in milliseconds; undefined for all there is. */
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
/** Tiles change their places at most so often. */
const ORDER_MS = 2000
/** Between ids in the address. */
const SEPARATOR = '\n'
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
    others: (address.get('with') ?? '').split(SEPARATOR).filter(Boolean).slice(0, MOST_OTHERS),
    withBefore: address.get('before') === 'true',
  }
}

/** isStep: Back leads to what was before. */
export function go(changes: Partial<View>, { isStep = true } = {}): void {
  const { from, to, others, withBefore, ...rest } = { ...view.peek(), ...changes }
  const instant = (ms: number | undefined): string | undefined =>
    ms === undefined ? undefined : new Date(Math.round(ms)).toISOString()
  const times = { from: instant(from), to: instant(to) }
  const compared = { with: others.join(SEPARATOR), before: withBefore ? 'true' : undefined }
  address.set({ ...rest, ...times, ...compared }, { isStep })
  view.value = read()
}

type Sort = readonly [label: string, rank: (item: Item) => number | undefined]

const BY_ORDER: Sort = ['Order, then name', ({ order }) => numberOf(order)]
/** The orders of the tiles: what they are called, and what they sort by, the least first. */
export const SORTS: Readonly<Record<string, Sort>> = {
  order: BY_ORDER,
  latest: ['Latest first', (item) => negative(timeOfReading(item))],
  silent: ['Silent longest first', (item) => timeOfReading(item) ?? Number.NEGATIVE_INFINITY],
  high: ['Highest first', (item) => negative(mainValue(item))],
  low: ['Lowest first', mainValue],
  battery: ['Battery lowest first', (item) => numberOf(measured(item).battery)],
}

function negative(value: number | undefined): number | undefined {
  return value === undefined ? undefined : -value
}

const calmSensors = calm(sensors, ORDER_MS)
/** The sensors that the search leaves, in their order. */
export const order = computed((): readonly string[] => {
  const { q, sort } = view.value
  const [, rankOf] = (Object.hasOwn(SORTS, sort) ? SORTS[sort] : undefined) ?? BY_ORDER
  const wanted = q.trim().toLowerCase()
  return [...(calmSensors.value ?? [])]
    .filter(([key, item]) => `${nameOf(item)}\n${macOf(item)}\n${key}`.toLowerCase().includes(wanted))
    .map(([key, item]) => ({
      key,
      rank: rankOf(item) ?? Number.POSITIVE_INFINITY,
      name: sortable(String(nameOf(item))),
    }))
    .sort((a, b) => (a.rank === b.rank ? Number(a.name > b.name) - Number(a.name < b.name) : a.rank < b.rank ? -1 : 1))
    .map(({ key }) => key)
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
  /** In milliseconds since 1970; undefined: all there is. */
  readonly from: number | undefined
  /** Undefined: it ends now, and new readings come in. */
  readonly to: number | undefined
  /** `to`, or now. */
  readonly end: number
}

/** The right edge of what is shown. In the present a reading may be stamped later than that. */
export function endOf(item: Item): number {
  return at.value ? edge() : Math.max(edge(), timeOfReading(item) ?? 0)
}

/** The time over which a sensor is shown; where its last reading is older, the time that ends with that millisecond. */
export function periodOf({ range = USUAL, from, to }: Pick<View, 'range' | 'from' | 'to'>, item: Item): Period {
  const end = endOf(item)
  if (from !== undefined && to !== undefined) return { from, to, end: to }
  const ms = RANGES[range]?.[1]
  if (ms === undefined) return { from: undefined, to: undefined, end }
  const latest = timeOfReading(item)
  const last = to ?? (latest !== undefined && latest < end - ms ? latest + 1 : undefined)
  return { from: (last ?? end) - ms, to: last, end: last ?? end }
}
