// Small multiples: a tile for each sensor of a collection with an event time.
import { client } from './app.ts'
import { DAY, itemCounts, shownCounts } from './counts.ts'
import { type Curves, edge, isSilence, readCurves } from './curves.ts'
import { count, span as lasting } from './format.ts'
import {
  distinct,
  type Item,
  type Measure,
  measured,
  measuresOf,
  numberOf,
  SENSORS,
  timeIn,
  timeOfReading,
} from './measures.ts'
import { groupFieldOf, itemsByMac, names, sensorsByMac, sortable, timeFieldOf } from './names.ts'
import { extentOf } from './readings.ts'
import { resource } from './resource.ts'
import { Tile } from './tile.tsx'
import { asOf, at } from './time.ts'

export interface Tiles {
  readonly curves: Curves
  /** The measurement of sensors whose items have none. */
  readonly main: Measure
}

export const AT_MOST = 24
/** Days that were read shortly after each other show the same windows. */
const SAME_MS = 60_000

/** Reads a day of a collection up to a moment: the last one with readings. */
export async function readTiles(
  collection: string,
  position: number | undefined,
  until: number,
): Promise<Tiles | undefined> {
  const time = timeFieldOf(collection) ?? ''
  const known = sensorsByMac.peek()
  const sample = [...known.values()].find((item) => measuresOf(item).length > 0) ?? (await newestOf(collection, time))
  const [main] = sample ? measuresOf(sample) : []
  if (!sample || !main) return undefined
  const times = [sample, ...known.values()].map((item) => timeIn(item, time) ?? 0)
  const newest = Math.min(until, Math.max(...times) || until)
  const curves = await readCurves({
    collection,
    position,
    to: until - newest > DAY ? newest + 1 : until,
    group: groupFieldOf(sample, time),
    // All of many sensors would be too many rows.
    sensors: known.size > AT_MOST ? [...known.keys()].sort(compare).slice(0, AT_MOST) : undefined,
    measures: distinct([main, ...[...known.keys()].map((sensor) => mainOf(sensor, main))]),
  })
  return { curves, main }
}

/** The first sensors as they were at the moment that is shown, by their mac. */
const sensorsThen = resource(
  () => (typeof shownCounts.value?.[SENSORS] === 'number' ? asOf.value : undefined),
  async (position) => itemsByMac(await client.collection<Item>(SENSORS).asOf(position).page(1, AT_MOST).get()),
)

/** A reading, which tells the fields of the others. */
async function newestOf(collection: string, time: string): Promise<Item | undefined> {
  const { items } = await client.collection<Item>(collection).sort(`-${time}`).page(1, 1).get()
  return items[0]
}

function mainOf(sensor: string, main: Measure): Measure {
  return measuresOf(sensorsByMac.value.get(sensor) ?? {})[0] ?? main
}

function compare(a: string, b: string): number {
  const orderOf = (sensor: string): number => numberOf(sensorsByMac.value.get(sensor)?.order) ?? Number.MAX_SAFE_INTEGER
  const { nameOf } = names.value
  return orderOf(a) - orderOf(b) || (sortable(nameOf(a)) < sortable(nameOf(b)) ? -1 : 1)
}

/** `today`: the present, behind that of the past while it is shown. */
export function TileList({ past, today }: { readonly past: Tiles | undefined; readonly today: Tiles | undefined }) {
  const shown = at.value ? past : today
  if (!shown) return null
  const all = [...new Set([...shown.curves.bySensor.keys(), ...sensorsByMac.value.keys()])].sort(compare)
  const total = Math.max(all.length, itemCounts.value.value?.[SENSORS] ?? 0)
  return (
    <>
      <ul class="multiples">
        {all.slice(0, AT_MOST).map((sensor) => (
          <li key={sensor} class="multiple">
            <SensorTile sensor={sensor} shown={shown} today={today} />
          </li>
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

interface SensorTileProperties {
  readonly sensor: string
  readonly shown: Tiles
  readonly today: Tiles | undefined
}

function SensorTile({ sensor, shown: { curves, main }, today }: SensorTileProperties) {
  const { name: measure } = mainOf(sensor, main)
  const [points, current] = [curves.bySensor.get(sensor), today?.curves.bySensor.get(sensor)]
  const itemNow = sensorsByMac.value.get(sensor) ?? {}
  const item = at.value ? (sensorsThen.value.value?.get(sensor) ?? {}) : itemNow
  // A sensor that was silent all day has its last value in its item.
  const textOfLast = (all: typeof points, own: Item): string =>
    textOf(all ? all.at(-1)?.values.get(measure)?.[3] : numberOf(measured(own)[measure]))
  const [value, valueNow] = [textOfLast(points, item), textOfLast(current, itemNow)]
  const differs = at.value !== undefined && today !== undefined && valueNow !== value
  const isSameDay = today && Math.abs(today.curves.span.from - curves.span.from) < SAME_MS
  const latest = points?.at(-1)?.last ?? timeOfReading(item)
  const isSilent = latest !== undefined && isSilence(Math.min(curves.span.to, edge()) - latest, points)
  const [least, , greatest] = extentOf(points ?? [], measure) ?? []
  return (
    <Tile
      href={`sensors.html?sensor=${encodeURIComponent(sensor)}`}
      title={sensor}
      name={names.value.nameOf(sensor)}
      value={value}
      unit={names.value.unitOf(sensor, measure)}
      today={differs ? valueNow : undefined}
      measure={measure}
      points={(isSameDay ? current : undefined) ?? points}
      span={curves.span}
      then={at.value?.ms}
    >
      {isSilent && <span class="silent number">silent for {lasting((edge() - latest) / 1000)}</span>}
      {!isSilent && least !== undefined && (
        <span class="quiet number">
          {textOf(least)} to {textOf(greatest)}
        </span>
      )}
    </Tile>
  )
}

function textOf(value: number | undefined): string {
  if (value === undefined) return '–'
  return Math.abs(value) >= 1000 ? count(Math.round(value)) : String(Math.round(value * 10) / 10)
}
