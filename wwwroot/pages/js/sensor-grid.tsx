// A tile for each sensor: its latest reading, how old that is, and the last day as a small curve.
import { computed, signal } from '@preact/signals'
import {
  observeWindowOffset,
  observeWindowRect,
  type Virtualizer,
  type VirtualizerOptions,
  windowScroll,
} from '@tanstack/virtual-core'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import { flash } from './dom.ts'
import { age, span as lasting, short } from './format.ts'
import {
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
import { type Sparks, sparksOf } from './readings.ts'
import { resource } from './resource.ts'
import { edge, hasReadings, isKnown, isSilent, rereads, sensors, times, today } from './sensor-list.ts'
import { chosen, go, order } from './sensor-view.ts'
import { Spark } from './spark.tsx'
import { asOf, at } from './time.ts'
import { useVirtualRows } from './virtual.ts'

/** Of a tile with the gap, in pixels. */
const [TILE_WIDTH, TILE_HEIGHT, GAP] = [248, 150, 12]
/** Fewer sensors have their curves read together, not only those that are seen. */
const FEW = 60
/** Other values than the first that a tile has room for. */
const OTHERS = 4
const SPARKS_MS = 15_000
const SETTLE_MS = 150
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

/** Becomes another number each second. */
export const second = signal(0)
setInterval(() => {
  if (!document.hidden) second.value++
}, 1000)

/** Where the list is on the page, and how many tiles are beside each other. */
const place = signal({ top: 0, columns: 1 })
const seen = signal<readonly string[]>([])
/** The tile that Tab leads to. */
const current = signal<string>()
let wantsFocus = false
let settling: ReturnType<typeof setTimeout> | undefined

const rereading = rereads(READINGS, SPARKS_MS)
const curves = resource(
  () => {
    const keys = order.value.length <= FEW ? order.value.toSorted() : seen.value
    if (!isKnown.value || !hasReadings.value || keys.length === 0) return undefined
    return {
      keys,
      position: asOf.value,
      ms: at.value?.ms,
      turn: at.value ? 0 : rereading.turn.value,
    }
  },
  ({ keys, position }) => {
    const items = keys.map((key) => sensors.peek()?.get(key)).filter((item) => item !== undefined)
    const to = times.peek().isOld ? (times.peek().newest as number) : edge()
    return rereading.timed(() => sparksOf(items, position, to))
  },
)
/** What was read before is shown until the next is there. */
const shownCurves = computed((): Sparks | undefined => curves.value.value)

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
  useEffect(() => settle(shown))
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
        {shown.map((key, index) => (
          <Tile key={key} sensor={key} index={first + index} isStop={key === stop} />
        ))}
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
  // What is above the list may change its height.
  for (const element of [list, document.querySelector('main') as HTMLElement]) observer.observe(element)
  return () => observer.disconnect()
}

/** Tiles that are passed sooner are not read. */
function settle(keys: readonly string[]): void {
  clearTimeout(settling)
  settling = setTimeout(() => {
    if (JSON.stringify(keys) !== JSON.stringify(seen.peek())) seen.value = keys
  }, SETTLE_MS)
}

function move(event: KeyboardEvent, virtualizer: Virtualizer<HTMLElement, HTMLElement>): void {
  const keys = order.peek()
  const { columns } = place.peek()
  const steps: Readonly<Record<string, number>> = {
    ArrowLeft: -1,
    ArrowRight: 1,
    ArrowUp: -columns,
    ArrowDown: columns,
    Home: Number.NEGATIVE_INFINITY,
    End: Number.POSITIVE_INFINITY,
  }
  const step = steps[event.key]
  if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return
  event.preventDefault()
  const here = keys.indexOf((event.target as HTMLElement).closest('li')?.dataset.sensor ?? '')
  const next = Number.isFinite(step) ? here + step : step < 0 ? 0 : keys.length - 1
  const key = keys[next]
  if (key === undefined) return
  wantsFocus = true
  current.value = key
  virtualizer.scrollToIndex(Math.floor(next / columns), { align: 'auto' })
}

interface TileProperties {
  readonly sensor: string
  readonly index: number
  readonly isStop: boolean
}

function Tile({ sensor, index, isStop }: TileProperties) {
  const item = sensors.value?.get(sensor)
  const link = useRef<HTMLAnchorElement>(null)
  const known = useRef(item)
  useEffect(() => {
    const isNew = known.current && item && !at.value && timeOfReading(known.current) !== timeOfReading(item)
    known.current = item
    if (isNew && link.current) flash(link.current)
  }, [item])
  if (!item) return null
  const name = short(nameOf(item), 80) || '""'
  const then = at.value && today.value?.get(sensor)
  const differs = then !== undefined && mainValue(then) !== mainValue(item)
  const pick = (event: MouseEvent): void => {
    current.value = sensor
    if (event.ctrlKey || event.metaKey || event.shiftKey) return
    event.preventDefault()
    go({ sensor })
    showCharts()
  }
  return (
    <li data-sensor={sensor} aria-posinset={index + 1} aria-setsize={order.value.length}>
      <a
        ref={link}
        title={short(macOf(item), 80)}
        class={`tile card fades${differs ? ' differs' : ''}`}
        href={`?${new URLSearchParams({ sensor, ...(at.value && { at: String(at.value.position) }) })}`}
        aria-current={chosen.value === sensor ? 'true' : undefined}
        tabIndex={isStop ? 0 : -1}
        onClick={pick}
        onFocus={() => {
          current.value = sensor
        }}
      >
        <span class="tile-head">
          <h2>{name}</h2>
          <Age item={item} />
        </span>
        <Values item={item} then={differs ? then : undefined} />
        <Curve mac={String(macOf(item))} />
        <span class="tile-head">
          <span class="rest quiet">{othersOf(item)}</span>
          <Badge item={item} />
        </span>
      </a>
    </li>
  )
}

function Values({ item, then }: { readonly item: Item; readonly then: Item | undefined }) {
  const all = Object.entries(measured(item))
  const name = measuresOf(item)[0]?.name ?? all[0]?.[0] ?? ''
  const unit = short(unitOf(item, name), 12)
  const value = measured(item)[name]
  return (
    <span class="main number">
      <strong>{value === undefined ? '–' : short(value, 40)}</strong>
      <span class="unit">{unit}</span>
      <span class="quiet">{short(name.replaceAll('_', ' '), 40)}</span>
      {then && <span class="today"> now {short(mainValue(then) ?? '–', 40)}</span>}
    </span>
  )
}

function Badge({ item }: { readonly item: Item }) {
  const beyond = measuresOf(item).flatMap(({ name }) => {
    const value = measured(item)[name] as number
    const { low, high } = limitsOf(item, name)
    if (low !== undefined && value < low) return `${name} below ${low}`
    return high !== undefined && value > high ? `${name} above ${high}` : []
  })
  const text = beyond[0] ?? (hasLowBattery(item) ? 'Low battery' : undefined)
  return text === undefined ? null : <span class="badge">{short(text.replaceAll('_', ' '), 40)}</span>
}

/** The parts of what is there as a whole are seen when the sensor is charted. */
function othersOf(item: Item): string {
  const main = measuresOf(item)[0]?.name ?? Object.keys(measured(item))[0]
  return Object.entries(measured(item))
    .filter(([name, value]) => name !== main && value !== null && !/_[xyz]$/.test(name))
    .slice(0, OTHERS)
    .map(([name, value]) => `${short(name.replaceAll('_', ' '), 40)} ${short(value, 40)} ${unitOf(item, name)}`.trim())
    .join(', ')
}

function Age({ item }: { readonly item: Item }) {
  void second.value
  const time = timeOfReading(item)
  if (time === undefined) return <span class="age silent">{short(item.timestamp, 40) || 'no reading'}</span>
  const ms = edge() - time
  if (!isSilent(time)) return <span class="age number">{age(ms)}</span>
  return <span class="age number silent">silent for {lasting(ms / 1000)}</span>
}

function Curve({ mac }: { readonly mac: string }) {
  const loaded = shownCurves.value
  return <Spark points={loaded?.byMac.get(mac) ?? []} from={loaded?.span.from ?? 0} to={loaded?.span.to ?? 1} />
}

/** Where the charts are above the tiles. */
const NARROW = matchMedia('(max-width: 60rem)')
let scrolled: number | undefined

function showCharts(): void {
  if (!NARROW.matches) return
  scrolled = scrollY
  const behavior = matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth'
  document.getElementById('series')?.scrollIntoView({ block: 'start', behavior })
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
