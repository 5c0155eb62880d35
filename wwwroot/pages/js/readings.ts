// The readings of sensors over time: those of `sensordatas`, few as they are, many as averages of windows of time. Where
// there are none, what the history of the sensor's item has. However many there are, a bounded number is read.
import { type Aggregate, Problem, type Query } from '../../../src/client/index.ts'
import { firstAt, parsePath } from '../../../src/json/paths.ts'
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
  timeLike,
  timeOfReading,
} from './measures.ts'
import { hasReadings } from './sensor-list.ts'
import type { Point as SparkPoint } from './spark.tsx'
import type { Span } from './time.ts'

type Three = readonly [average: number, least: number, greatest: number]

/** A reading, or all of a window of time. */
export interface Point {
  /** In milliseconds since 1970; equal for a single reading. */
  readonly from: number
  readonly to: number
  readonly count: number
  readonly values: ReadonlyMap<string, Three>
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
export interface Asked {
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
/** Longer times than this are asked for as windows at first. */
const SHORT = 2 * DAY
const EVENTS = 1000
const EVENTS_PAGE = 500
const WINDOWS = 300
/** Aggregates of one request: three a field, and the count. */
const FIELDS = 10
const MOST_FIELDS = 30
const SPARK_FIELDS = 10
const SPARK_WINDOWS = [
  ['30m', 1_800_000],
  ['1m', 60_000],
] as const
/** Fewer windows with a value show no curve. */
const LEAST_WINDOWS = 4
const SPARK_ROWS = 5000
const WIDTHS: readonly (readonly [text: string, ms: number])[] = [
  ...[1, 5, 10, 30].map((count) => [`${count}s`, count * 1000] as const),
  ...[1, 2, 5, 10, 15, 30].map((count) => [`${count}m`, count * 60_000] as const),
  ...[1, 2, 3, 6, 12].map((count) => [`${count}h`, count * 3_600_000] as const),
  ...[1, 2, 7, 28, 91, 364, 3640].map((count) => [`${count}d`, count * DAY] as const),
]
const LAST_WIDTH = ['36400d', 36_400 * DAY] as const
/** Days begin at midnight where the reader is. */
const TZ = Intl.DateTimeFormat().resolvedOptions().timeZone

type Readings = Query<JsonObject>

/** The readings in a time that are asked for. */
export function readingsOf({ item, position, from, to }: Omit<Asked, 'key' | 'end'>): Readings {
  const all = client.collection<JsonObject>(READINGS).where({
    mac: macOf(item) as string,
    ...(from !== undefined && { [`${timeField()}_gte`]: timeLike(from, item) }),
    ...(to !== undefined && { [`${timeField()}_lte`]: timeLike(to, item) }),
  })
  return position === undefined ? all : all.asOf(position)
}

export async function seriesOf(asked: Asked): Promise<Series> {
  if (!hasReadings.value) return history(asked)
  try {
    const found = await stored(asked)
    if (found.total > 0) return found
    const all = { ...asked, from: undefined, to: undefined }
    const isNone = asked.from === undefined || (await readingsOf(all).page(1, 1).get()).total === 0
    return isNone ? history(asked) : found
  } catch (error) {
    // At that moment there was no collection of readings.
    if (error instanceof Problem && error.status === 404) return history(asked)
    throw error
  }
}

async function stored(asked: Asked): Promise<Series> {
  const { item, from, end } = asked
  const readings = readingsOf(asked)
  const canAggregate = eventTimeField() !== undefined
  if (!canAggregate || (from !== undefined && end - from <= SHORT)) {
    const { items, total } = await readings.sort(`-${timeField()}`).page(1, FEW).get()
    if (total <= FEW || !canAggregate) {
      return { points: pointsOf(items), total, isWhole: total <= FEW, kind: 'readings' }
    }
  }
  const begin = from ?? timeOfReading((await readings.sort(timeField()).page(1, 1).get()).items[0] ?? {})
  if (begin === undefined) return { points: [], total: 0, isWhole: true, kind: 'readings' }
  const points = await windows(readings, measuresOf(item).slice(0, MOST_FIELDS), widthFor(end - begin))
  const total = points.reduce((sum, { count }) => sum + count, 0)
  if (total > FEW || total === 0) return { points, total, isWhole: true, kind: 'windows' }
  const { items } = await readings.sort(`-${timeField()}`).page(1, FEW).get()
  return { points: pointsOf(items), total, isWhole: true, kind: 'readings' }
}

function widthFor(ms: number): readonly [text: string, ms: number] {
  return WIDTHS.find(([, width]) => ms / width <= WINDOWS) ?? LAST_WIDTH
}

async function windows(
  readings: Readings,
  fields: readonly Measure[],
  [window, ms]: readonly [text: string, ms: number],
): Promise<readonly Point[]> {
  const points = new Map<number, Point & { readonly values: Map<string, Three> }>()
  for (let first = 0; first < Math.max(1, fields.length); first += FIELDS) {
    const part = fields.slice(first, first + FIELDS)
    const columns = part.flatMap(({ path }) => ['avg', 'min', 'max'].map((name) => `${name}(${path})` as 'count'))
    const { items } = await readings.aggregate(['count', ...columns], { window, ...(ms >= DAY && { tz: TZ }) })
    for (const row of items as readonly Item[]) {
      const from = Date.parse(String(row.window))
      const point = points.get(from) ?? { from, to: from + ms, count: Number(row.count), values: new Map() }
      for (const { name, path } of part) {
        const [average, ...others] = ['avg', 'min', 'max'].map((one) => numberOf(row[`${one}(${path})`]))
        // Text has a least and a greatest, but no average.
        if (average !== undefined) point.values.set(name, [average, ...others] as unknown as Three)
      }
      points.set(from, point)
    }
  }
  return [...points.values()].sort(byTime)
}

/** The states of a sensor's item, from its events. */
async function history({ key, from, to, position }: Asked): Promise<Series> {
  const found: Point[] = []
  let next = position
  let isWhole = false
  while (!isWhole && found.length < EVENTS) {
    const page = await client.eventPage<JsonObject>({
      collection: SENSORS,
      id: key,
      order: 'desc',
      limit: EVENTS_PAGE,
      ...(next !== undefined && { from: next }),
    })
    for (const event of page.events) {
      if ('item' in event)
        found.push(pointOf(timeOfReading(event.item) ?? Date.parse(event.time), measured(event.item)))
    }
    const last = page.events.at(-1)
    isWhole = page.next === undefined || !last || Date.parse(last.time) < (from ?? 0)
    next = page.next
  }
  const isWithin = (point: Point): boolean => point.from >= (from ?? -Infinity) && point.from <= (to ?? Infinity)
  const points = found.filter(isWithin).sort(byTime)
  return { points, total: points.length, isWhole, kind: 'history' }
}

function pointsOf(items: readonly Item[]): readonly Point[] {
  const points = items.flatMap((item) => {
    const time = timeOfReading(item)
    return time === undefined ? [] : [pointOf(time, measured(item))]
  })
  return points.sort(byTime)
}

/** A single reading, of whose values the numbers are kept. */
export function pointOf(time: number, values: Item): Point {
  const numbers = Object.entries(values).flatMap(([name, value]) =>
    typeof value === 'number' ? [[name, [value, value, value]] as const] : [],
  )
  return { from: time, to: time, count: 1, values: new Map(numbers) }
}

function byTime(a: Point, b: Point): number {
  return a.from - b.from
}

/** The curves of tiles, by mac. */
export interface Sparks {
  readonly span: Span
  readonly byMac: ReadonlyMap<string, readonly SparkPoint[]>
}

/**
 * The main measurement of sensors over a day, by one request: averages of half hours. Where these are too few for a
 * curve, averages of minutes over the time that there is.
 */
export async function sparksOf(items: readonly Item[], position: number | undefined, to: number): Promise<Sparks> {
  let span = { from: to - DAY, to }
  const [sample] = items
  if (!sample || !hasReadings.value) return { span, byMac: new Map() }
  const paths = [...new Set(items.flatMap((item) => measuresOf(item)[0]?.path ?? []))].slice(0, SPARK_FIELDS)
  const macs = items.map((item) => macOf(item) as string)
  const among = (): Readings => {
    const all = client.collection<JsonObject>(READINGS).where({
      mac: macs,
      [`${timeField()}_gte`]: timeLike(span.from, sample),
      [`${timeField()}_lte`]: timeLike(span.to, sample),
    })
    return (position === undefined ? all : all.asOf(position)).page(1, SPARK_ROWS)
  }
  if (eventTimeField() === undefined) {
    const page = await among()
      .sort(`-${timeField()}`)
      .page(1, FEW)
      .fields('mac', timeField(), ...paths)
      .get()
    const points = page.items.flatMap((item) => {
      const x = timeOfReading(item as Item)
      return x === undefined
        ? []
        : [{ mac: String(item.mac), x, y: paths.map((path) => numberOf(firstAt(item as Item, parsePath(path)))) }]
    })
    return { span, byMac: byMacOf(points.reverse(), paths, items) }
  }
  for (const [window, windowMs] of SPARK_WINDOWS) {
    const columns = paths.map((path) => `avg(${path})` as Aggregate<JsonObject>)
    const rows = await among().aggregate(columns.length > 0 ? columns : ['count'], { window, groupBy: ['mac'] })
    const points = (rows.items as readonly Item[]).map((row) => ({
      mac: String(row.mac),
      x: Date.parse(String(row.window)),
      y: columns.map((column) => numberOf(row[column])),
    }))
    const starts = points.map(({ x }) => x)
    const isEnough = new Set(starts).size >= LEAST_WINDOWS || starts.length === 0 || windowMs === SPARK_WINDOWS[1][1]
    if (isEnough) return { span, byMac: byMacOf(points, paths, items) }
    span = { from: Math.min(...starts), to: Math.min(to, Math.max(...starts) + windowMs) }
  }
  return { span, byMac: new Map() }
}

function byMacOf(
  points: readonly { readonly mac: string; readonly x: number; readonly y: readonly (number | undefined)[] }[],
  paths: readonly string[],
  items: readonly Item[],
): Sparks['byMac'] {
  const columns = new Map(items.map((item) => [String(macOf(item)), paths.indexOf(measuresOf(item)[0]?.path ?? '')]))
  const found = new Map<string, SparkPoint[]>()
  for (const { mac, x, y } of points) {
    const known = found.get(mac) ?? []
    known.push({ x, y: y[columns.get(mac) ?? -1] })
    found.set(mac, known)
  }
  return found
}
