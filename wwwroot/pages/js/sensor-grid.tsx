// A tile for each sensor: its latest reading, how old that is, and the last day as a small curve.
import { signal } from '@preact/signals'
import {
  observeWindowOffset,
  observeWindowRect,
  type Virtualizer,
  type VirtualizerOptions,
  windowScroll,
} from '@tanstack/virtual-core'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { address } from './address.ts'
import { set } from './controls.tsx'
import { edge, isSilence, readCurves } from './curves.ts'
import { following } from './following.ts'
import { age, span as lasting, short } from './format.ts'
import {
  distinct,
  hasLowBattery,
  type Item,
  limitsOf,
  macOf,
  mainValue,
  measured,
  measuresOf,
  nameOf,
  READINGS,
  timeOfReading,
  unitOf,
} from './measures.ts'
import { hasReadings, isKnown } from './names.ts'
import type { Point } from './readings.ts'
import { calm } from './resource.ts'
import { second, sensors, times, today } from './sensor-list.ts'
import { chosen, go, order } from './sensor-view.ts'
import { Tile } from './tile.tsx'
import { asOf, at } from './time.ts'
import { useVirtualRows } from './virtual.ts'

/** The size of a tile, and the gap between two, in pixels. */
const [TILE_WIDTH, TILE_HEIGHT, GAP] = [248, 150, 12]
/** Other values than the first that a tile has room for. */
const OTHERS = 4
const CURVES_MS = 15_000
const SETTLE_MS = 300
/** The page scrolls, not the list. */
const SCROLLER = {
  getScrollElement: () => window,
  observeElementRect: observeWindowRect,
  observeElementOffset: observeWindowOffset,
  scrollToFn: windowScroll,
} as unknown as Pick<
  VirtualizerOptions<HTMLElement, HTMLElement>,
  'getScrollElement' | 'observeElementRect' | 'observeElementOffset' | 'scrollToFn'
>

/** Where the list is on the page, and how many tiles are beside each other. */
const place = signal({ top: 0, columns: 1 })
const seen = signal<readonly string[]>([])
/** While one scrolls, few of the tiles that pass are read. */
const calmSeen = calm(seen, SETTLE_MS)
/** The tile that Tab leads to. */
const current = signal<string>()
let wantsFocus = false

/** The curves of the tiles in view. The ones before are shown until the next are read. */
const curves = following(
  (collection) => collection === READINGS && !at.value,
  CURVES_MS,
  () => {
    const isReady = isKnown.value && hasReadings.value && calmSeen.value.length > 0
    return isReady ? { keys: calmSeen.value, position: asOf.value, ms: at.value?.ms } : undefined
  },
  ({ keys, position }) => {
    const items = keys.map((key) => sensors.peek()?.get(key) ?? {})
    return readCurves({
      collection: READINGS,
      position,
      to: times.peek().isOld ? times.peek().newest : edge(),
      group: 'mac',
      sensors: items.map((item) => String(macOf(item))),
      measures: distinct(items.flatMap((item) => measuresOf(item).slice(0, 1))),
    })
  },
)

function pointsOf(item: Item): readonly Point[] | undefined {
  return curves.value.value?.bySensor.get(String(macOf(item)))
}

/** Whether a sensor sends no more. Where all readings are old, whether it did not at the time of the last one. */
export function isSilent(item: Item): boolean {
  const { newest, isOld } = times.value
  const time = timeOfReading(item)
  return time === undefined || isSilence((isOld ? newest : edge()) - time, pointsOf(item))
}

export function Grid() {
  const list = useRef<HTMLDivElement | null>(null)
  const { top, columns } = place.value
  const keys = order.value
  const { rows, height, virtualizer } = useVirtualRows(list as { current: HTMLElement }, {
    ...SCROLLER,
    count: Math.ceil(keys.length / columns),
    size: TILE_HEIGHT + GAP,
    overscan: 2,
    scrollMargin: top,
  })
  useLayoutEffect(() => observe(list.current as HTMLElement), [])
  const first = (rows[0]?.index ?? 0) * columns
  const shown = keys.slice(first, ((rows.at(-1)?.index ?? -1) + 1) * columns)
  useEffect(() => {
    if (shown.length > 0) seen.value = shown
  })
  useLayoutEffect(focusTile)
  const isShown = current.value !== undefined && shown.includes(current.value)
  const stop = isShown || wantsFocus ? current.value : (shown.find((key) => key === chosen.value) ?? shown[0])
  return (
    <div id="tile-place" ref={list} style={{ height: `${Math.max(0, height - GAP)}px` }}>
      <ul
        id="tiles"
        aria-label="Latest readings"
        style={{
          gridTemplateColumns: `repeat(${columns}, minmax(0, 1fr))`,
          transform: `translateY(${(rows[0]?.start ?? top) - top}px)`,
        }}
        onKeyDown={(event) => move(event, virtualizer)}
      >
        {shown.map((key, index) => {
          const item = sensors.value?.get(key)
          return (
            <li key={key} data-sensor={key} aria-posinset={first + index + 1} aria-setsize={keys.length}>
              {item && <SensorTile sensor={key} item={item} isStop={key === stop} />}
            </li>
          )
        })}
      </ul>
    </div>
  )
}

/** Keeps `place` right. */
function observe(list: HTMLElement): () => void {
  const observer = new ResizeObserver(() => {
    const { top, width } = list.getBoundingClientRect()
    const next = {
      top: Math.round(top + scrollY),
      columns: Math.max(1, Math.floor((width + GAP) / (TILE_WIDTH + GAP))),
    }
    if (next.top !== place.peek().top || next.columns !== place.peek().columns) place.value = next
  })
  // The part above the list may change its height.
  for (const element of [list, document.querySelector('main') as HTMLElement]) observer.observe(element)
  return () => observer.disconnect()
}

function move(event: KeyboardEvent, virtualizer: Virtualizer<HTMLElement, HTMLElement>): void {
  const keys = order.peek()
  const { columns } = place.peek()
  const here = keys.indexOf((event.target as HTMLElement).closest('li')?.dataset.sensor ?? '')
  const places: Readonly<Record<string, number>> = {
    ArrowLeft: here - 1,
    ArrowRight: here + 1,
    ArrowUp: here - columns,
    ArrowDown: here + columns,
    Home: 0,
    End: keys.length - 1,
  }
  const next = places[event.key]
  if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) return
  event.preventDefault()
  if (keys[next] === undefined) return
  wantsFocus = true
  current.value = keys[next]
  virtualizer.scrollToIndex(Math.floor(next / columns), { align: 'auto' })
}

interface SensorTileProperties {
  readonly sensor: string
  readonly item: Item
  readonly isStop: boolean
}

function SensorTile({ sensor, item, isStop }: SensorTileProperties) {
  const then = at.value && today.value?.get(sensor)
  const differs = then !== undefined && mainValue(then) !== mainValue(item)
  const name = mainNameOf(item)
  const value = measured(item)[name]
  const pick = (event: MouseEvent): void => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return
    event.preventDefault()
    current.value = sensor
    go({ sensor })
    showCharts()
  }
  return (
    <Tile
      title={short(macOf(item), 80)}
      href={address.search({ sensor })}
      aria-current={chosen.value === sensor ? 'true' : undefined}
      tabIndex={isStop ? 0 : -1}
      onClick={pick}
      onFocus={set(current, sensor)}
      name={short(nameOf(item), 80) || '""'}
      aside={<Age item={item} />}
      value={value === undefined ? '–' : short(value, 40)}
      unit={short(unitOf(item, name), 12)}
      label={wordsOf(name)}
      today={differs ? short(mainValue(then) ?? '–', 40) : undefined}
      measure={name}
      points={pointsOf(item)}
      span={curves.value.value?.span}
    >
      <span class="rest quiet">{othersOf(item)}</span>
      {badgesOf(item).map((text) => (
        <span key={text} class="badge">
          {text}
        </span>
      ))}
    </Tile>
  )
}

/** The measurement that a tile shows first, or the first text where there are no numbers. */
function mainNameOf(item: Item): string {
  return measuresOf(item)[0]?.name ?? Object.keys(measured(item))[0] ?? ''
}

function wordsOf(name: string): string {
  return short(name.replaceAll('_', ' '), 40)
}

function badgesOf(item: Item): readonly string[] {
  const beyond = measuresOf(item).flatMap(({ name }) => {
    const value = measured(item)[name] as number
    const { low, high } = limitsOf(item, name)
    if (low !== undefined && value < low) return `${wordsOf(name)} below ${low}`
    return high !== undefined && value > high ? `${wordsOf(name)} above ${high}` : []
  })
  return [...(hasLowBattery(item) ? ['Low battery'] : []), ...beyond.slice(0, 1)]
}

/** The parts of what is there as a whole are seen when the sensor is charted. */
function othersOf(item: Item): string {
  return Object.entries(measured(item))
    .filter(([name, value]) => name !== mainNameOf(item) && value !== null && !/_[xyz]$/.test(name))
    .slice(0, OTHERS)
    .map(([name, value]) => `${wordsOf(name)} ${short(value, 40)} ${unitOf(item, name)}`.trim())
    .join(', ')
}

function Age({ item }: { readonly item: Item }) {
  void second.value
  const time = timeOfReading(item)
  if (time === undefined) return <span class="age silent">{short(item.timestamp, 40) || 'no reading'}</span>
  const ms = edge() - time
  if (!isSilent(item)) return <span class="age number">{age(ms)}</span>
  return <span class="age number silent">silent for {lasting(ms / 1000)}</span>
}

/** Where the charts are above the tiles. */
const NARROW = matchMedia('(max-width: 60rem)')
let scrolled: number | undefined

function showCharts(): void {
  if (!NARROW.matches) return
  scrolled = scrollY
  document.getElementById('series')?.scrollIntoView({ block: 'start' })
}

/** Back to the tile that was chosen last. */
export function showTiles(): void {
  go({ sensor: undefined, others: [], withBefore: false })
  wantsFocus = true
  // The charts above the tiles have another height once they are drawn.
  requestAnimationFrame(() => {
    if (scrolled !== undefined) scrollTo(0, scrolled)
    scrolled = undefined
    focusTile()
  })
}

/** Moves the focus to the tile that it is to have, if that is in the document already. */
function focusTile(): void {
  const link = document.querySelector<HTMLElement>('#tiles a[tabindex="0"]')
  if (!wantsFocus || !link) return
  wantsFocus = false
  link.focus({ preventScroll: true })
}
