// A chart of one or several fields over time: the average as a line, the least and the greatest as a band around it, and
// the same fields of other lines without bands.
import { signal } from '@preact/signals'
import { useLayoutEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import { DAY } from './counts.ts'
import type { Limits } from './measures.ts'
import type { Point } from './readings.ts'
import type { Span } from './time.ts'

/** One sensor in one time. */
export interface Line {
  readonly key: string
  readonly label: string
  /** Ascending. */
  readonly points: readonly Point[]
}

interface PlotProperties {
  readonly fields: readonly string[]
  readonly lines: readonly Line[]
  readonly span: Span
  readonly limits: Limits
  /** In pixels, without the axis. */
  readonly height: number
  readonly hasTimes: boolean
  readonly onZoom: (span: Span) => void
  readonly onBack: () => void
}

/** Where the pointer is, in milliseconds since 1970. */
export const pointed = signal<number>()
/** Becomes another number when the colours of the canvas have changed. */
const theme = signal(0)
for (const query of ['(prefers-color-scheme: dark)', '(forced-colors: active)']) {
  matchMedia(query).addEventListener('change', () => theme.value++)
}
const SYNC = uPlot.sync('readings')
const AXIS_HEIGHT = 36
const DAY_S = DAY / 1000
const STROKES = ['--accent', '--number', '--string', '--word', '--good'] as const
/** Lines are told apart without colours, too. */
const DASHES: readonly number[][] = [[], [6, 4], [2, 3], [9, 3, 2, 3], [14, 4]]
/** A shorter drag is a click, in pixels. */
const LEAST_DRAG = 8
/** Fewer points are joined by a line, however far apart they are. */
const FEW = 30
/** A gap is a distance of so many times the median. */
const GAP_TIMES = 5

/** The colour of a field of a line, as the name of a property. */
export function strokeOf(fields: number, field: number, line: number): string {
  return STROKES[(fields > 1 ? field : line) % STROKES.length] as string
}

export function Plot(properties: PlotProperties) {
  const { fields, lines, hasTimes } = properties
  // For other series uPlot is made anew.
  return <Canvas key={JSON.stringify([fields, lines.length, hasTimes, theme.value])} {...properties} />
}

function Canvas(properties: PlotProperties) {
  const { fields, lines, span, height, hasTimes } = properties
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(undefined)
  const latest = useRef(properties)
  latest.current = properties
  const full = height + (hasTimes ? AXIS_HEIGHT : 0)
  useLayoutEffect(() => {
    const element = place.current as HTMLElement
    const made = new uPlot(optionsOf(latest, element.clientWidth), emptyOf(latest.current), element)
    plot.current = made
    const observer = new ResizeObserver(() => {
      if (element.clientWidth !== made.width) made.setSize({ width: element.clientWidth, height: made.height })
    })
    observer.observe(element)
    return () => {
      observer.disconnect()
      made.destroy()
    }
  }, [])
  useLayoutEffect(() => {
    const made = plot.current as uPlot
    if (made.height !== full) made.setSize({ width: made.width, height: full })
    made.batch(() => {
      const tables = lines.map(({ points }, line) => columnsOf(points, fields, line === 0))
      made.setData(tables.length > 1 ? uPlot.join(tables) : (tables[0] as uPlot.AlignedData), false)
      made.setScale('x', { min: span.from / 1000, max: span.to / 1000 })
    })
  })
  return <div ref={place} style={{ height: `${full}px` }} />
}

function emptyOf({ fields, lines }: PlotProperties): uPlot.AlignedData {
  return [[], ...Array.from({ length: fields.length * (lines.length + 2) }, () => [])]
}

function optionsOf(latest: { readonly current: PlotProperties }, width: number): uPlot.Options {
  const { fields, lines, height, hasTimes } = latest.current
  const style = getComputedStyle(document.documentElement)
  const colour = (name: string): string => style.getPropertyValue(name).trim()
  const axis = {
    stroke: colour('--quiet'),
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
    font: '11px sans-serif',
  }
  const hidden: uPlot.Series = { stroke: 'transparent', points: { show: false } }
  const series = lines.flatMap((_, line) =>
    fields.flatMap((field, index): uPlot.Series[] => {
      const stroke = colour(strokeOf(fields.length, index, line))
      const dash = DASHES[line % DASHES.length] as number[]
      const own: uPlot.Series = { label: field, stroke, width: 1.5, dash, points: { size: 4, filter: alone } }
      return line === 0 ? [own, hidden, hidden] : [own]
    }),
  )
  const bands = fields.map((_, index): uPlot.Band => {
    const stroke = colour(strokeOf(fields.length, index, 0))
    return { series: [index * 3 + 3, index * 3 + 2], fill: `color-mix(in srgb, ${stroke} 18%, transparent)` }
  })
  return {
    width,
    height: height + (hasTimes ? AXIS_HEIGHT : 0),
    padding: [6, 20, hasTimes ? 0 : 6, 0],
    legend: { show: false },
    cursor: {
      sync: { key: SYNC.key },
      y: false,
      drag: { x: true, y: false, setScale: false, dist: LEAST_DRAG },
      points: { size: 6 },
      bind: {
        dblclick: () => () => {
          latest.current.onBack()
          return null
        },
      },
    },
    scales: { x: { time: true }, y: { range: (_plot, min, max) => padded(min, max, latest.current.limits) } },
    axes: [
      { ...axis, size: hasTimes ? AXIS_HEIGHT : 0, values: hasTimes ? dates : () => [], space: 64 },
      { ...axis, size: 52, space: 22, values: (_plot, splits) => splits.map((one) => String(Number(one.toFixed(6)))) },
    ],
    series: [{}, ...series],
    bands,
    hooks: {
      setCursor: [point],
      draw: [(plot) => drawLimits(plot, latest.current.limits, colour('--warn'))],
      setSelect: [(plot) => zoom(plot, latest.current.onZoom)],
    },
  }
}

function zoom(plot: uPlot, onZoom: PlotProperties['onZoom']): void {
  const { left, width } = plot.select
  if (width < LEAST_DRAG) return
  const [from, to] = [plot.posToVal(left, 'x') * 1000, plot.posToVal(left + width, 'x') * 1000]
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
  onZoom({ from, to })
}

function point(plot: uPlot): void {
  const { left } = plot.cursor
  pointed.value = left === undefined || left < 0 ? undefined : plot.posToVal(left, 'x') * 1000
}

function drawLimits(plot: uPlot, { low, high }: Limits, stroke: string): void {
  const { ctx, bbox } = plot
  ctx.save()
  ctx.strokeStyle = stroke
  ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio])
  ctx.lineWidth = devicePixelRatio
  for (const value of [low, high]) {
    if (value === undefined) continue
    const y = plot.valToPos(value, 'y', true)
    ctx.beginPath()
    ctx.moveTo(bbox.left, y)
    ctx.lineTo(bbox.left + bbox.width, y)
    ctx.stroke()
  }
  ctx.restore()
}

/** From which distance on there is a gap between two points, in milliseconds. */
function gapOf(points: readonly Point[]): number {
  if (points.length < FEW) return Number.POSITIVE_INFINITY
  const distances = points.slice(1).map(({ from }, index) => from - (points[index] as Point).from)
  distances.sort((a, b) => a - b)
  return GAP_TIMES * Math.max(1, distances[distances.length >> 1] ?? 0)
}

/**
 * The columns that uPlot draws: times in seconds, then of each field the average and, for bands, the least and the
 * greatest; null where there is a gap.
 */
function columnsOf(points: readonly Point[], fields: readonly string[], hasBands: boolean): uPlot.AlignedData {
  const kinds = hasBands ? [0, 1, 2] : [0]
  const times: number[] = []
  const columns = fields.flatMap(() => kinds.map((): (number | null | undefined)[] => []))
  const gap = gapOf(points)
  let before = Number.POSITIVE_INFINITY
  for (const one of points) {
    if (one.from - before > gap) {
      times.push((before + one.from) / 2000)
      for (const column of columns) column.push(null)
    }
    before = one.from
    times.push(middleOf(one) / 1000)
    fields.forEach((field, index) => {
      const values = one.values.get(field)
      for (const kind of kinds) columns[index * kinds.length + kind]?.push(values?.[kind])
    })
  }
  return [times, ...columns] as uPlot.AlignedData
}

function middleOf({ from, to }: Span): number {
  return (from + to) / 2
}

/** The point nearest to a time. */
export function nearest(points: readonly Point[], time: number): Point | undefined {
  const distance = (one: Point): number => Math.abs(middleOf(one) - time)
  return points.length > 0 ? points.reduce((best, one) => (distance(one) < distance(best) ? one : best)) : undefined
}

/** Points that no line leads to are to be seen, too: their indexes; null for all. Where there is none, lines pass. */
function alone(plot: uPlot, series: number, areFew: boolean): number[] | null {
  if (areFew) return null
  const values = [...(plot.data[series] ?? [])].flatMap((value, index) =>
    value === undefined ? [] : [{ value, index }],
  )
  const isGap = (at: number): boolean => (values[at]?.value ?? null) === null
  return values.flatMap(({ index }, at) => (!isGap(at) && isGap(at - 1) && isGap(at + 1) ? [index] : []))
}

function padded(min: number | null, max: number | null, { low, high }: Limits): [number, number] {
  if (min === null || max === null) return [0, 1]
  const [least, greatest] = [Math.min(min, low ?? min), Math.max(max, high ?? max)]
  const room = greatest > least ? (greatest - least) * 0.08 : Math.max(Math.abs(greatest) * 0.01, 0.5)
  return [least - room, greatest + room]
}

/** Clock times, with the date below the first one and where another day begins; days, with the year; years. */
function dates(_plot: uPlot, splits: number[], _axis: number, _space: number, step: number): string[] {
  let before = ''
  return splits.map((seconds) => {
    const date = new Date(seconds * 1000)
    const written = (options: Intl.DateTimeFormatOptions): string => date.toLocaleString('en-GB', options)
    const year = String(date.getFullYear())
    if (step >= 365 * DAY_S) return year
    const withSeconds = step < 60 ? ({ second: '2-digit' } as const) : {}
    const [text, below] =
      step >= 28 * DAY_S
        ? [written({ month: 'short' }), year]
        : step >= DAY_S
          ? [written({ day: 'numeric', month: 'short' }), year]
          : [
              written({ hour: '2-digit', minute: '2-digit', ...withSeconds }),
              written({ day: 'numeric', month: 'short' }),
            ]
    const isNew = below !== before
    before = below
    return isNew ? `${text}\n${below}` : text
  })
}
