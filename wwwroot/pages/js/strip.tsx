// The time strip: how much changed when, over the time of the journal. Dragging it shows the past.
import { signal } from '@preact/signals'
import { client, head, now } from './app.ts'
import { barsPath, mostOf } from './bars.ts'
import { Button } from './controls.tsx'
import { type Counts, counts, DAY, zoom, zoomBy } from './counts.ts'
import { counted, moment } from './format.ts'
import { resource } from './resource.ts'
import {
  at,
  here,
  pausePlaying,
  play,
  type Span,
  showNow,
  showPosition,
  showTime,
  speed,
  step,
  stepTime,
} from './time.ts'

const HOUR = DAY / 24
const TICKS = [1 / 12, 1 / 4, 1, 3, 6, 12, 24, 48, 168, 672, 2184, 8760].map((hours) => hours * HOUR)
/** Fewer windows without a change are no quiet time. */
const QUIET_WINDOWS = 4
/** The size of the drawing, which is stretched to the strip. */
const [WIDTH, HEIGHT] = [1000, 40]
/** The room for a label, in pixels. */
const TICK_WIDTH = 84
/** From this share of the strip on the hand means the present. */
const END = 0.995

/** The width of the strip in pixels. */
const width = signal(1000)
const observer = new ResizeObserver(([entry]) => {
  width.value = entry?.contentRect.width ?? 0
})
/** Where the pointer is, in milliseconds since 1970. */
const hovered = signal<number>()
/** The actors of the changes in the window of time under the pointer. */
const actors = resource(
  () => binAt(hovered.value)?.from,
  async (from) => {
    const { windowMs = 0 } = counts.value.peek() ?? {}
    const rows = await client.eventCounts({
      groupBy: ['actor'],
      since: new Date(from),
      until: new Date(from + windowMs - 1),
    })
    return { from, names: rows.map(({ actor }) => actor ?? 'others') }
  },
  150,
)

export function Strip() {
  const loaded = counts.value.value
  const span = loaded?.span ?? { from: now() - DAY, to: now() }
  const place = (ms: number): string =>
    `${(100 * Math.min(1, Math.max(0, (ms - span.from) / (span.to - span.from)))).toFixed(2)}%`
  const shown = at.value
  const text = shown
    ? `${moment(shown.ms, now(), { withSeconds: true })}, position ${shown.position} of ${head.value}`
    : `Now, position ${head.value}`
  const pointer = {
    onPointerDown: (event: PointerEvent) => {
      if (event.button !== 0) return
      ;(event.currentTarget as Element).setPointerCapture(event.pointerId)
      travel(event, span)
    },
    onPointerMove: (event: PointerEvent) => {
      hovered.value = msAt(event, span)
      if (event.buttons === 1) travel(event, span)
    },
    onPointerLeave: () => {
      hovered.value = undefined
    },
    onDblClick: () => {
      zoom.value = undefined
    },
  }
  return (
    <div class="strip" data-state={shown ? 'past' : 'now'}>
      <Player loaded={loaded} />
      <div
        class="strip-time"
        ref={observe}
        role="slider"
        tabIndex={0}
        aria-label="Moment"
        aria-valuemin={Math.round(span.from)}
        aria-valuemax={Math.round(span.to)}
        aria-valuenow={Math.round(Math.min(span.to, Math.max(span.from, shown?.ms ?? span.to)))}
        aria-valuetext={text}
        aria-describedby="strip-keys"
        onKeyDown={onKey}
        {...pointer}
      >
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          <defs>
            <pattern id="quiet" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <path d="M0 0V6" />
            </pattern>
          </defs>
          {loaded && <Bars {...loaded} />}
        </svg>
        {loaded && <Marks {...loaded} place={place} />}
        <Hover place={place} />
      </div>
      <span class="strip-zoom">
        <Button text="+" label="Zoom in" title="Zoom in ( [ )" class="plain" run={ACTIONS['[']} />
        <Button text="−" label="Zoom out" title="Zoom out ( ] )" class="plain" run={ACTIONS[']']} />
      </span>
      <span id="strip-keys" hidden>
        Arrow keys: one change. With Shift: one hour. Page Up and Page Down: one day. Square brackets: zoom in and out.
        End: now.
      </span>
    </div>
  )
}

function observe(element: Element | null): void {
  observer.disconnect()
  if (element) observer.observe(element)
}

function Player({ loaded }: { readonly loaded: Counts | undefined }) {
  const isPlaying = speed.value !== undefined
  const played = playedOf(loaded)
  const what = played.to - played.from < DAY * 0.99 ? 'this period' : 'the last day'
  return (
    <Button class="play" disabled={!loaded?.bins.length} run={playOrPause}>
      <span aria-hidden="true">{isPlaying ? '❚❚' : '▶'}</span>
      <span class="play-name">
        {isPlaying ? 'Pause' : `Replay ${what} `}
        {!isPlaying && <span class="quiet">in 20 seconds</span>}
      </span>
    </Button>
  )
}

/** The last day that is shown, with what happened in it; a young journal is played from its first change. */
function playedOf(loaded: Counts | undefined): Span {
  const { span = { from: now() - DAY, to: now() }, windowMs = 0, bins = [] } = loaded ?? {}
  const last = Math.min(span.to, (bins.at(-1)?.from ?? span.to) + windowMs)
  const isCurrent = span.to - last < DAY
  const to = isCurrent ? span.to : last
  const first = bins.find(({ from }) => from + windowMs > to - DAY)?.from ?? span.from
  return { from: Math.max(to - DAY, first), to }
}

/** The labels, the moment that is shown, and what is later than that. */
function Marks({ span, bins, place }: Counts & { readonly place: (ms: number) => string }) {
  const shown = at.value
  return (
    <>
      {ticksOf(span).map(({ ms, text }) => (
        <span class="strip-tick" style={{ left: place(ms) }} key={ms} aria-hidden="true">
          {text}
        </span>
      ))}
      {bins.length === 0 && <span class="strip-none">Nothing changed in this period</span>}
      {shown && <span class="strip-later" style={{ left: place(shown.ms) }} />}
      <span class="strip-hand" style={{ left: place(shown?.ms ?? span.to) }} />
    </>
  )
}

function Bars({ span, windowMs, bins }: Counts) {
  const size = { width: WIDTH, height: HEIGHT, most: mostOf(bins) }
  return (
    <>
      <path class="quiet" d={quietPath({ span, windowMs, bins })} />
      <path class="changes" d={barsPath(bins, { span, windowMs }, size)} />
      <path class="deletions" d={barsPath(bins, { span, windowMs }, size, 'deleted')} />
    </>
  )
}

/** The times between two changes, and after the last one, in which nothing happened for a while. */
function quietPath({ span, windowMs, bins }: Pick<Counts, 'span' | 'windowMs' | 'bins'>): string {
  const scale = WIDTH / (span.to - span.from)
  let path = ''
  let end = bins[0]?.from ?? span.from
  for (const { from } of [...bins, { from: span.to }]) {
    if (from - end >= QUIET_WINDOWS * windowMs) {
      path += `M${((end - span.from) * scale).toFixed(1)} 0V${HEIGHT}H${((from - span.from) * scale).toFixed(1)}V0z`
    }
    end = from + windowMs
  }
  return path
}

function Hover({ place }: { readonly place: (ms: number) => string }) {
  const ms = hovered.value
  if (ms === undefined) return null
  const bin = binAt(ms)
  const names = bin && actors.value.value?.from === bin.from ? actors.value.value.names : []
  const deleted = bin?.deleted ? `${bin.deleted} of them deletions` : ''
  const parts = [moment(bin?.from ?? ms, now()), counted(bin?.count ?? 0, 'change'), deleted, ...names.slice(0, 3)]
  return (
    <span
      class="strip-hover"
      style={{ left: place(ms) }}
      data-side={Number.parseFloat(place(ms)) > 60 ? 'left' : 'right'}
      aria-hidden="true"
    >
      <span>{parts.filter((part) => part !== '').join(', ')}</span>
    </span>
  )
}

function binAt(ms: number | undefined) {
  const loaded = counts.value.peek()
  if (!loaded || ms === undefined) return undefined
  return loaded.bins.find(({ from }) => ms >= from && ms < from + loaded.windowMs)
}

function msAt({ clientX, currentTarget }: PointerEvent, { from, to }: Span): number {
  const { left, width } = (currentTarget as Element).getBoundingClientRect()
  return from + Math.min(1, Math.max(0, (clientX - left) / width)) * (to - from)
}

function travel(event: PointerEvent, span: Span): void {
  pausePlaying()
  const ms = msAt(event, span)
  const share = (ms - span.from) / (span.to - span.from)
  if (share >= END && zoom.peek() === undefined) showNow()
  else showTime(ms)
}

function aroundOf(span: Span): number {
  const { ms } = at.peek() ?? { ms: span.to }
  return Math.min(span.to, Math.max(span.from, ms))
}

/** By key; with Shift the arrows move by an hour. */
const ACTIONS = {
  ArrowLeft: move(-1),
  ArrowDown: move(-1),
  ArrowRight: move(1),
  ArrowUp: move(1),
  PageUp: () => stepTime(DAY),
  PageDown: () => stepTime(-DAY),
  Home: () => showPosition(0),
  End: showNow,
  Escape: showNow,
  '[': () => zoomBy(0.5, aroundOf(spanShown())),
  ']': () => zoomBy(2, aroundOf(spanShown())),
  ' ': playOrPause,
}

function spanShown(): Span {
  return counts.value.peek()?.span ?? { from: here() - DAY, to: here() }
}

function move(direction: number) {
  return (event?: KeyboardEvent): void => (event?.shiftKey ? stepTime(direction * HOUR) : step(direction))
}

function playOrPause(): void {
  if (speed.peek() === undefined) void play(playedOf(counts.value.peek())).catch(pausePlaying)
  else pausePlaying()
}

function onKey(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey) return
  if (!Object.hasOwn(ACTIONS, event.key)) return
  event.preventDefault()
  if (event.key !== ' ') pausePlaying()
  ACTIONS[event.key as keyof typeof ACTIONS](event)
}

/** Times at which the strip is labelled: at whole hours or days of the reader's clock. */
function ticksOf({ from, to }: Span): readonly { readonly ms: number; readonly text: string }[] {
  const length = TICKS.find((one) => (to - from) / one <= width.value / TICK_WIDTH) ?? (TICKS.at(-1) as number)
  const isDays = length >= DAY
  // A label stands to the right of its line.
  const room = ((to - from) * TICK_WIDTH) / width.value / 2
  const start = new Date(from)
  start.setHours(0, 0, 0, 0)
  const ticks: { ms: number; text: string }[] = []
  for (let n = 0; ticks.length < 24; n++) {
    // Days are counted by the calendar, as some have 23 hours.
    const ms = isDays ? new Date(start).setDate(start.getDate() + (n * length) / DAY) : start.getTime() + n * length
    if (ms > to - room) break
    if (ms < from) continue
    const date = new Date(ms)
    const isMidnight = date.getHours() === 0 && date.getMinutes() === 0
    const clock = date.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' })
    ticks.push({
      ms,
      text: isMidnight ? date.toLocaleDateString('en-GB', { weekday: 'short', day: 'numeric', month: 'short' }) : clock,
    })
  }
  return ticks
}
