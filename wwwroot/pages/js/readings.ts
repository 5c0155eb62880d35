// The readings of sensors over time: few as they are, many as averages of windows of time. Where there are none, what
// the history of the sensor's item has. However many there are, a bounded number is read.
import { Problem, type Query } from '../../../src/client/index.ts'
import type { JsonObject } from '../../../src/json/value.ts'
import { client } from './app.ts'
import { DAY } from './counts.ts'
import {
  eventTimeField,
  type Item,
  type Measure,
  macOf,
  measured,
  measuresOf,
  numberOf,
  READINGS,
  SENSORS,
  timeField,
  timeIn,
  timeOfReading,
} from './measures.ts'
import { hasReadings } from './names.ts'

type Values = readonly [average: number, least: number, greatest: number, last: number]

/** A reading, or all of a window of time. */
export interface Point {
  /** In milliseconds since 1970; equal for a single reading. */
  readonly from: number
  readonly to: number
  /** The times of its first and its last reading, where they were asked for; `from` and `to` otherwise. */
  readonly first: number
  readonly last: number
  readonly count: number
  readonly values: ReadonlyMap<string, Values>
}

export interface Series {
  /** Ascending. */
  readonly points: readonly Point[]
  readonly total: number
  /** Nothing was left out. */
  readonly isWhole: boolean
  readonly kind: 'readings' | 'windows' | 'history'
}

/** The time of which readings are asked for; `from`: undefined for all, `to`: undefined for all that came since. */
interface Asked {
  readonly key: string
  readonly item: Item
  readonly position: number | undefined
  readonly from: number | undefined
  readonly to: number | undefined
  /** The right edge of the chart. */
  readonly end: number
}

/** Up to so many readings are read one by one. */
const FEW = 500
const EVENTS = 1000
/** Fewer points are joined by a line, however far apart they are. */
const JOINED = 30
/** A gap is a distance of so many times the usual one, which is the median of so many distances on either side. */
const GAP_TIMES = 5
const NEIGHBOURS = 5
const WINDOWS = 300
const FUNCTIONS = ['avg', 'min', 'max', 'last'] as const
/** A request has room for 32 aggregates: the count, four for each measurement, and two for times. */
const AT_ONCE = 7
const MOST_MEASURES = 28
type Width = readonly [text: string, ms: number]
const WIDTHS: readonly Width[] = [
  ...[1, 5, 10, 30].map((count) => [`${count}s`, count * 1000] as const),
  ...[1, 2, 5, 10, 15, 30].map((count) => [`${count}m`, count * 60_000] as const),
  ...[1, 2, 3, 6, 12].map((count) => [`${count}h`, count * 3_600_000] as const),
  ...[1, 2, 7, 28, 91, 364].map((count) => [`${count}d`, count * DAY] as const),
]
const LAST_WIDTH = ['3640d', 3640 * DAY] as const
/** Days begin at midnight where the reader is. */
const TZ = Intl.DateTimeFormat().resolvedOptions().timeZone

/** The filter of the readings that are asked for, as parameters of a query. */
export function filterOf({ item, from, to }: Pick<Asked, 'item' | 'from' | 'to'>): Readonly<Record<string, string>> {
  return {
    mac: String(macOf(item)),
    ...(from !== undefined && { [`${timeField()}_gte`]: new Date(from).toISOString() }),
    ...(to !== undefined && { [`${timeField()}_lte`]: new Date(to).toISOString() }),
  }
}

function readingsOf(asked: Pick<Asked, 'item' | 'from' | 'to' | 'position'>): Query<JsonObject> {
  const all = client.collection<JsonObject>(READINGS).where(filterOf(asked))
  return asked.position === undefined ? all : all.asOf(asked.position)
}

export async function seriesOf(asked: Asked): Promise<Series> {
  if (!hasReadings.value) return history(asked)
  try {
    const found = await stored(asked)
    if (found.total > 0) return found
    const ever = readingsOf({ ...asked, from: undefined, to: undefined }).page(1, 1)
    return (await ever.get()).total === 0 ? history(asked) : found
  } catch (error) {
    // At that moment there was no collection of readings.
    if (error instanceof Problem && error.status === 404) return history(asked)
    throw error
  }
}

async function stored(asked: Asked): Promise<Series> {
  const { item, from, end } = asked
  const readings = readingsOf(asked)
  const { items, total } = await readings.sort(`-${timeField()}`).page(1, FEW).get()
  const isWhole = total <= FEW
  if (isWhole || eventTimeField() === undefined) {
    return { points: pointsOf(items, undefined, readingOf).get('') ?? [], total, isWhole, kind: 'readings' }
  }
  const [first] = from === undefined ? (await readings.sort(timeField()).page(1, 1).get()).items : []
  const begin = from ?? timeOfReading(first ?? {}) ?? end - DAY
  const windows = await windowsOf(readings, measuresOf(item).slice(0, MOST_MEASURES), widthFor(end - begin))
  const points = windows.get('') ?? []
  return { points, total: points.reduce((sum, { count }) => sum + count, 0), isWhole: true, kind: 'windows' }
}

function widthFor(ms: number): Width {
  return WIDTHS.find(([, width]) => ms / width <= WINDOWS) ?? LAST_WIDTH
}

/**
 * Windows of readings by the sensor that the field `group` names; '' without it. Those without readings are left out.
 * `time` names the field that has the times of their first and last readings.
 */
export async function windowsOf(
  readings: Query<JsonObject>,
  measures: readonly Measure[],
  [window, ms]: Width,
  { group, time }: { readonly group?: string | undefined; readonly time?: string } = {},
): Promise<ReadonlyMap<string, readonly Point[]>> {
  const rows = new Map<string, Item>()
  const times = time === undefined ? [] : ([`min(${time}) as first`, `max(${time}) as last`] as const)
  const options = { window, groupBy: group === undefined ? [] : [group], ...(ms >= DAY && { tz: TZ }) }
  for (let first = 0; first === 0 || first < measures.length; first += AT_ONCE) {
    const part = measures.slice(first, first + AT_ONCE)
    const columns = part.flatMap(({ path }, index) =>
      FUNCTIONS.map((name) => `${name}(${path}) as ${name}${first + index}` as const),
    )
    const { items } = await readings.aggregate(['count', ...times, ...columns], options)
    for (const row of items as readonly Item[]) {
      const key = JSON.stringify([row.window, sensorOf(row, group)])
      rows.set(key, { ...rows.get(key), ...row })
    }
  }
  return pointsOf([...rows.values()], group, (row) => {
    const from = Date.parse(String(row.window))
    const values = measures.flatMap(({ name }, index) => {
      const all = FUNCTIONS.map((one) => numberOf(row[`${one}${index}`]))
      // Text has a least and a greatest, but no average.
      return all[0] === undefined ? [] : [[name, all as unknown as Values] as const]
    })
    const [first = from, last = from + ms] = [timeIn(row, 'first'), timeIn(row, 'last')]
    return { from, to: from + ms, first, last, count: Number(row.count), values: new Map(values) }
  })
}

function sensorOf(row: Item, group: string | undefined): string {
  return group === undefined ? '' : String(row[group])
}

/** Points in the order of time, by the sensor that the field `group` names. */
export function pointsOf(
  items: readonly Item[],
  group: string | undefined,
  pointOf: (item: Item) => Point | undefined,
): ReadonlyMap<string, readonly Point[]> {
  const found = new Map<string, Point[]>()
  for (const item of items) {
    const point = pointOf(item)
    const known = found.get(sensorOf(item, group)) ?? []
    if (point) found.set(sensorOf(item, group), known)
    if (point) known.push(point)
  }
  for (const points of found.values()) points.sort(byTime)
  return found
}

/** Whether there is a gap before each point. A sensor that begins to send more often, or less often, leaves none. */
export function gapsOf(points: readonly { readonly from: number }[]): readonly boolean[] {
  const distances = points.map(({ from }, index) => from - (points[index - 1]?.from ?? from))
  const usual = (first: number, end: number): number => {
    const near = distances.slice(Math.max(1, first), end).sort((a, b) => a - b)
    return near[near.length >> 1] ?? 1
  }
  return distances.map((distance, index) => {
    if (points.length < JOINED) return false
    const [before, after] = [usual(index - NEIGHBOURS, index), usual(index + 1, index + 1 + NEIGHBOURS)]
    return distance > GAP_TIMES * Math.max(1, before, after)
  })
}

/** The least, the average and the greatest of the points that have a field. */
export function extentOf(points: readonly Point[], field: string): readonly [number, number, number] | undefined {
  let [least, greatest, sum, number] = [Infinity, -Infinity, 0, 0]
  for (const { values, count } of points) {
    const [average = 0, low = Infinity, high = -Infinity] = values.get(field) ?? []
    least = Math.min(least, low)
    greatest = Math.max(greatest, high)
    sum += average * count
    if (values.has(field)) number += count
  }
  return number > 0 ? [least, sum / number, greatest] : undefined
}

/** The states of a sensor's item, from its events. */
async function history({ key, from, to, position }: Asked): Promise<Series> {
  const moment = position === undefined ? {} : { from: position }
  const asked = { collection: SENSORS, id: key, order: 'desc', limit: EVENTS, ...moment } as const
  const { events, next } = await client.eventPage<JsonObject>(asked)
  const states = events.flatMap((event) =>
    'item' in event ? (readingOf(event.item, Date.parse(event.time)) ?? []) : [],
  )
  const isWithin = (point: Point): boolean => point.from >= (from ?? -Infinity) && point.from <= (to ?? Infinity)
  const points = states.filter(isWithin).sort(byTime)
  const isWhole = next === undefined || (states.at(-1)?.from ?? 0) < (from ?? 0)
  return { points, total: points.length, isWhole, kind: 'history' }
}

/** A single reading; undefined without a time. */
export function readingOf(item: Item, otherwise?: number): Point | undefined {
  const time = timeOfReading(item) ?? otherwise
  const numbers = Object.entries(measured(item)).flatMap(([name, value]) =>
    typeof value === 'number' ? [[name, [value, value, value, value]] as const] : [],
  )
  return time === undefined
    ? undefined
    : { from: time, to: time, first: time, last: time, count: 1, values: new Map(numbers) }
}

function byTime(a: Point, b: Point): number {
  return a.from - b.from
}
