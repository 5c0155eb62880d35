// Small multiples: for each sensor of a collection with an event time its name, its value, and its curve of a day.
import type { Query } from '../../../src/client/index.ts'
import { client, health, now } from './app.ts'
import { DAY } from './counts.ts'
import { count, span as lasting } from './format.ts'
import { type Item, measured, measuresOf, numberOf, SENSORS, timeIn, timeOfReading } from './measures.ts'
import { groupFieldOf, itemCounts, names, sensors, timeFieldOf } from './names.ts'
import { Spark } from './spark.tsx'
import { at, type Span } from './time.ts'

export interface Sensor {
  readonly group: string
  /** Averages of windows, each at its beginning, by milliseconds since 1970. */
  readonly points: readonly { readonly x: number; readonly y: number | undefined }[]
  readonly value: number | undefined
  readonly low: number | undefined
  readonly high: number | undefined
  /** The last window with a reading, or of the last reading, in milliseconds since 1970. */
  readonly ms: number | undefined
}

export interface Tiles {
  readonly span: Span
  readonly measure: string
  readonly windowMs: number
  readonly sensors: readonly Sensor[]
}

const FINE = ['30m', 30 * 60_000] as const
const COARSE = ['1h', 60 * 60_000] as const
/** For readings of a short time. */
const FINEST = ['1m', 60_000] as const
const MOST_ROWS = 5000
const LATEST = 500
/** Fewer windows with a value show no curve. */
const LEAST_WINDOWS = 4
/** Longer without a reading than so many windows: silent. */
const SILENT_WINDOWS = 3
export const AT_MOST = 24
/** The curves of so few sensors are half as coarse. */
const FEW = 12
const NATURAL = new Intl.Collator('en', { numeric: true })

/** The values of a sensor in a window of time, or at a moment. */
interface Row {
  readonly group: string
  readonly ms: number
  readonly average: number | undefined
  readonly low: number | undefined
  readonly high: number | undefined
  readonly last: number | undefined
}

/** Reads a day of a collection up to a moment: the last one with readings. */
export async function readTiles(
  collection: string,
  position: number | undefined,
  until: number,
): Promise<Tiles | undefined> {
  const time = timeFieldOf(collection) ?? ''
  const own = client.collection<Item>(collection)
  const items = position === undefined ? own : own.asOf(position)
  if (health.value?.eventTime?.[collection] === undefined) return readLatest(items, time)
  const known = [...(sensors.value.peek()?.values() ?? [])]
  const sample = known.find((item) => measuresOf(item).length > 0) ?? (await newestOf(collection, time, until))
  const [main] = sample ? measuresOf(sample) : []
  if (!sample || !main) return undefined
  const group = groupFieldOf(sample, time)
  // All of many sensors would be too many rows.
  const shown = group !== undefined && known.length > AT_MOST ? { [group]: groupsInOrder().slice(0, AT_MOST) } : {}
  const times = [sample, ...known].map((item) => timeIn(item, time) ?? 0)
  const newest = Math.min(until, Math.max(...times) || until)
  const to = until - newest > DAY ? newest + 1 : until
  let span = { from: to - DAY, to }
  for (const [window, windowMs] of [known.length > FEW ? COARSE : FINE, FINEST]) {
    const { path } = main
    const { items: windows } = await items
      .where({ ...shown, [`${time}_gte`]: new Date(span.from), [`${time}_lte`]: new Date(span.to) })
      .page(1, MOST_ROWS)
      .aggregate([`avg(${path}) as avg`, `min(${path}) as min`, `max(${path}) as max`, `last(${path}) as last`], {
        window,
        groupBy: group === undefined ? [] : [group],
      })
    const rows = windows.map(
      (row): Row => ({
        group: group === undefined ? '' : String(row[group]),
        ms: Date.parse(String(row.window)),
        average: numberOf(row.avg),
        low: numberOf(row.min),
        high: numberOf(row.max),
        last: numberOf(row.last),
      }),
    )
    const starts = new Set(rows.map(({ ms }) => ms))
    const isShort = starts.size > 0 && starts.size < LEAST_WINDOWS && windowMs > FINEST[1]
    if (!isShort) return { span, measure: main.name, windowMs, sensors: sensorsOf(rows) }
    span = { from: Math.min(...starts), to: Math.min(span.to, newest + FINEST[1]) }
  }
  return undefined
}

/** The newest readings one by one, where the server knows no event time and so has no windows. */
async function readLatest(items: Query<Item>, time: string): Promise<Tiles | undefined> {
  const { items: readings } = await items.sort(`-${time}`).page(1, LATEST).get()
  const [sample] = readings
  const [main] = sample ? measuresOf(sample) : []
  if (!sample || !main) return undefined
  const group = groupFieldOf(sample, time)
  const rows = readings.flatMap((item): readonly Row[] => {
    const ms = timeIn(item, time)
    const value = numberOf(measured(item)[main.name])
    const row = { average: value, low: value, high: value, last: value }
    return ms === undefined ? [] : [{ group: group === undefined ? '' : String(item[group]), ms, ...row }]
  })
  const inOrder = rows.sort((a, b) => a.ms - b.ms)
  const span = { from: inOrder[0]?.ms ?? 0, to: inOrder.at(-1)?.ms ?? 0 }
  return { span, measure: main.name, windowMs: FINEST[1], sensors: sensorsOf(inOrder) }
}

/** A reading, which tells the fields of the others. */
async function newestOf(collection: string, time: string, until: number): Promise<Item | undefined> {
  const items = client.collection(collection).where({ [`${time}_lte`]: new Date(until) })
  const page = await items.sort(`-${time}`).page(1, 1).get()
  return page.items[0] as Item | undefined
}

function sensorsOf(rows: readonly Row[]): readonly Sensor[] {
  const groups = new Map<string, Row[]>()
  for (const row of rows) {
    const own = groups.get(row.group)
    if (own) own.push(row)
    else groups.set(row.group, [row])
  }
  return [...groups].map(([group, own]) => ({
    group,
    points: own.map(({ ms, average }) => ({ x: ms, y: average })),
    value: own.at(-1)?.last,
    low: least(
      own.map(({ low }) => low),
      Math.min,
    ),
    high: least(
      own.map(({ high }) => high),
      Math.max,
    ),
    ms: own.at(-1)?.ms,
  }))
}

function least(values: readonly (number | undefined)[], choose: (...values: number[]) => number): number | undefined {
  const found = values.filter((one) => one !== undefined)
  return found.length > 0 ? choose(...found) : undefined
}

function compareGroups(a: string, b: string): number {
  const orderOf = (group: string): number =>
    numberOf(sensors.value.peek()?.get(group)?.order) ?? Number.MAX_SAFE_INTEGER
  const { nameOf } = names.peek()
  return orderOf(a) - orderOf(b) || NATURAL.compare(nameOf(a), nameOf(b))
}

function groupsInOrder(): readonly string[] {
  return [...(sensors.value.peek()?.keys() ?? [])].sort(compareGroups)
}

/** Those that are known, with those that have readings. */
function inOrder(shown: readonly Sensor[], measure: string): readonly Sensor[] {
  const known = [...(sensors.value.value ?? [])].filter(([group]) => !shown.some((one) => one.group === group))
  const silent = known.map(([group, item]): Sensor => {
    // The items are those of the present.
    const last = at.value ? {} : { value: numberOf(measured(item)[measure]), ms: timeOfReading(item) }
    return { group, points: [], value: undefined, low: undefined, high: undefined, ms: undefined, ...last }
  })
  return [...shown, ...silent].sort((a, b) => compareGroups(a.group, b.group))
}

/** `today`: the present, behind that of the past while it is shown. */
export function TileList({ past, today }: { readonly past: Tiles | undefined; readonly today: Tiles | undefined }) {
  const shown = at.value ? past : today
  if (!shown) return null
  const all = inOrder(shown.sensors, shown.measure)
  const total = Math.max(all.length, itemCounts.value.value?.[SENSORS] ?? 0)
  const current = new Map(today?.sensors.map((one) => [one.group, one]))
  const isSameDay = today && Math.abs(today.span.from - shown.span.from) < shown.windowMs
  return (
    <>
      <ul class="multiples">
        {all.slice(0, AT_MOST).map((one) => (
          <Tile
            key={one.group}
            one={one}
            tiles={shown}
            today={at.value && current.get(one.group)}
            curve={(isSameDay ? current.get(one.group)?.points : undefined) ?? one.points}
          />
        ))}
      </ul>
      {total > AT_MOST && (
        <p class="quiet part">
          {count(total - AT_MOST)} more are on the page <a href="sensors.html">Sensors</a>.
        </p>
      )}
    </>
  )
}

interface TileProperties {
  readonly one: Sensor
  readonly tiles: Tiles
  readonly today: Sensor | undefined
  readonly curve: Sensor['points']
}

function Tile({ one: { group, value, low, high, ms }, tiles, today, curve }: TileProperties) {
  const { span, measure, windowMs } = tiles
  const unit = names.value.unitOf(group, measure)
  const end = Math.min(span.to, at.value?.ms ?? span.to)
  const isSilent = ms !== undefined && end - ms > SILENT_WINDOWS * windowMs && windowMs > FINEST[1]
  const differs = today !== undefined && today.value !== value
  return (
    <li class={`multiple${differs ? ' differs' : ''}`}>
      <a href={`sensors.html?sensor=${encodeURIComponent(group)}`} title={group}>
        {names.value.nameOf(group)}
      </a>
      <p class="value number">
        {textOf(value)} <span class="unit">{unit}</span>
        {differs && <span class="today"> now {textOf(today.value)}</span>}
      </p>
      <Spark points={curve} from={span.from} to={span.to} then={at.value?.ms} />
      <p class="quiet number range">
        {isSilent && <span class="warn-text">silent for {lasting(((at.value?.ms ?? now()) - ms) / 1000)}</span>}
        {!isSilent && low !== undefined && `${textOf(low)} to ${textOf(high)}`}
      </p>
    </li>
  )
}

function textOf(value: number | undefined): string {
  if (value === undefined) return '–'
  return Math.abs(value) >= 1000 ? count(Math.round(value)) : String(Math.round(value * 10) / 10)
}
