// The curves of tiles: the readings of many sensors over a day, by one request.
import { client, health, now } from './app.ts'
import { DAY } from './counts.ts'
import type { Item, Measure } from './measures.ts'
import { timeFieldOf } from './names.ts'
import { type Point, pointsOf, readingOf, windowsOf } from './readings.ts'
import { at, type Span } from './time.ts'

export interface Curves {
  readonly span: Span
  /** Windows of time, or single readings. */
  readonly bySensor: ReadonlyMap<string, readonly Point[]>
}

/** The day that is read. */
interface Day {
  readonly collection: string
  /** The moment; undefined: the present. */
  readonly position: number | undefined
  /** The end of the day, in milliseconds since 1970. */
  readonly to: number
  /** The field that names the sensor of a reading; undefined: all are of one, which is named ''. */
  readonly group: string | undefined
  /** Undefined: all. */
  readonly sensors: readonly string[] | undefined
  readonly measures: readonly Measure[]
}

const WINDOWS = [
  ['30m', 30 * 60_000],
  ['1m', 60_000],
] as const
/** Fewer windows with a value show no curve: shorter windows of a shorter time do. */
const LEAST_WINDOWS = 4
const MOST_ROWS = 5000
const NEWEST = 500
/** A sensor is silent when its last reading is so many times as old as its readings are apart, or older than the least. */
const SILENT_TIMES = 5
const LEAST_SILENCE_MS = 15 * 60_000
/** Where it is not known how far its readings are apart. */
const SILENCE_MS = 60 * 60_000

/** The time that ages are counted from, in milliseconds since 1970: the present, or the moment that is shown. */
export function edge(): number {
  return at.value?.ms ?? now()
}

/** Whether a sensor sends no more: `ms` is how long ago its last reading was. */
export function isSilence(ms: number, points: readonly Point[] = []): boolean {
  const distances = points.reduce((sum, { count }) => sum + count, 0) - 1
  if (distances < 1) return ms > SILENCE_MS
  const usual = ((points.at(-1)?.last ?? 0) - (points[0]?.first ?? 0)) / distances
  return ms > Math.max(LEAST_SILENCE_MS, SILENT_TIMES * usual)
}

export async function readCurves({ collection, position, to, group, sensors, measures }: Day): Promise<Curves> {
  const time = timeFieldOf(collection) ?? ''
  const all = client.collection<Item>(collection)
  const among = group === undefined || sensors === undefined ? all : all.where({ [group]: sensors })
  const items = position === undefined ? among : among.asOf(position)
  if (health.value?.eventTime?.[collection] === undefined) {
    // There are no windows.
    const { items: readings } = await items.sort(`-${time}`).page(1, NEWEST).get()
    const bySensor = pointsOf(readings, group, readingOf)
    const times = [...bySensor.values()].flat().map(({ from }) => from)
    const last = Math.max(0, ...times)
    return { span: { from: Math.max(last - DAY, Math.min(last, ...times)), to: last }, bySensor }
  }
  let span = { from: to - DAY, to }
  let bySensor: Curves['bySensor'] = new Map()
  for (const width of WINDOWS) {
    const inSpan = { [`${time}_gte`]: new Date(span.from), [`${time}_lte`]: new Date(span.to) }
    bySensor = await windowsOf(items.where(inSpan).page(1, MOST_ROWS), measures, width, { group, time })
    const windows = [...bySensor.values()].flat()
    const starts = new Set(windows.map(({ from }) => from))
    if (starts.size === 0 || starts.size >= LEAST_WINDOWS) break
    span = { from: Math.min(...starts), to: Math.min(to, Math.max(...windows.map((one) => one.to))) }
  }
  return { span, bySensor }
}
