// A chart of one or several fields over time: the average as a line, the least and the greatest as a band around it, and
// the same fields of other lines without bands.
import { signal } from '@preact/signals'
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks'
import type uPlot from 'uplot'
import type { Limits } from './measures.ts'
import { gapsOf, type Point } from './readings.ts'
import { resource } from './resource.ts'
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
/** The address of uPlot, which the build sets. */
declare const UPLOT: string
const isWanted = signal(false)
/** Loaded with the first chart: the tiles need none of it. */
const library = resource(
  () => isWanted.value || undefined,
  async (): Promise<typeof uPlot> => (await import(UPLOT)).default,
)
/** The charts whose pointers move together. */
const SYNC = 'readings'
const AXIS_HEIGHT = 36
/** The least distance of two values on an axis, in pixels; a fourth of a low chart, so that there are always two. */
const LEAST_STEP = 22
/** Clock times, with the date below where another day begins; days, with the year; years. As uPlot takes them. */
const [YEAR, MONTH, DAY, MINUTE, SECOND] = [365 * 86_400, 28 * 86_400, 86_400, 60, 0.001]
const DATES: uPlot.Axis.Values = [
  [YEAR, '{YYYY}', null, null, null, null, null, null, 1],
  [MONTH, '{MMM}', '\n{YYYY}', null, null, null, null, null, 1],
  [DAY, '{D} {MMM}', '\n{YYYY}', null, null, null, null, null, 1],
  [MINUTE, '{HH}:{mm}', '\n{D} {MMM}', null, '\n{D} {MMM}', null, null, null, 1],
  [SECOND, '{HH}:{mm}:{ss}', '\n{D} {MMM}', null, '\n{D} {MMM}', null, null, null, 1],
]
const STROKES = ['--accent', '--number', '--string', '--word', '--good'] as const
/** Lines are told apart without colours, too. */
const DASHES: readonly number[][] = [[], [6, 4], [2, 3], [9, 3, 2, 3], [14, 4]]
/** A shorter drag is a click, in pixels. */
const LEAST_DRAG = 8

/** The colour of a field of a line, as the name of a property. */
export function strokeOf(fields: number, field: number, line: number): string {
  return STROKES[(fields > 1 ? field : line) % STROKES.length] as string
}

/** It fills its place, which has a height of its own. */
export function Plot(properties: PlotProperties) {
  const { fields, lines, limits, hasTimes } = properties
  useEffect(() => {
    isWanted.value = true
  }, [])
  // For other series uPlot is made anew.
  const key = JSON.stringify([fields, lines.length, limits, hasTimes, theme.value])
  return (
    <div class={`plot${hasTimes ? ' has-times' : ''}`}>
      {library.value.value && <Canvas key={key} {...properties} />}
    </div>
  )
}

function Canvas(properties: PlotProperties) {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(undefined)
  const latest = useRef(properties)
  latest.current = properties
  useLayoutEffect(() => {
    const element = place.current as HTMLElement
    const made = new (chart())(optionsOf(latest, element), dataOf(latest.current), element)
    plot.current = made
    const observer = new ResizeObserver(() => {
      const { clientWidth: width, clientHeight: height } = element
      if (width !== made.width || height !== made.height) made.setSize({ width, height })
    })
    observer.observe(element)
    return () => {
      observer.disconnect()
      made.destroy()
    }
  }, [])
  useLayoutEffect(() => plot.current?.setData(dataOf(properties)))
  return <div ref={place} class="plot-place" />
}

function chart(): typeof uPlot {
  return library.value.peek() as typeof uPlot
}

function dataOf({ lines, fields, limits }: PlotProperties): uPlot.AlignedData {
  const [first, ...others] = lines.map(({ points }, line) => columnsOf(points, fields, line === 0))
  const [times, ...columns] =
    others.length > 0 ? chart().join([first, ...others] as uPlot.AlignedData[]) : (first as uPlot.AlignedData)
  return [times, ...columns, ...valuesOf(limits).map((limit) => Array.from(times, () => limit))]
}

function valuesOf({ low, high }: Limits): readonly number[] {
  return [low, high].filter((limit) => limit !== undefined)
}

function optionsOf(latest: { readonly current: PlotProperties }, place: HTMLElement): uPlot.Options {
  const { fields, lines, limits, hasTimes } = latest.current
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
    width: place.clientWidth,
    height: place.clientHeight,
    padding: [6, 20, hasTimes ? 0 : 6, 0],
    legend: { show: false },
    cursor: {
      sync: { key: SYNC },
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
    scales: {
      x: { time: true, range: () => [latest.current.span.from / 1000, latest.current.span.to / 1000] },
      y: { range: (_plot, min, max) => padded(min, max) },
    },
    axes: [
      { ...axis, size: hasTimes ? AXIS_HEIGHT : 0, values: hasTimes ? DATES : () => [], space: 64 },
      {
        ...axis,
        size: 52,
        space: (_plot, _axis, _min, _max, height) => Math.min(LEAST_STEP, height / 4),
        values: (_plot, splits) => splits.map((one) => String(Number(one.toFixed(6)))),
      },
    ],
    series: [{}, ...series, ...valuesOf(limits).map(() => ({ ...hidden, stroke: colour('--warn'), dash: [4, 3] }))],
    bands,
    hooks: {
      setCursor: [point],
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

/**
 * The columns that uPlot draws: times in seconds, then of each field the average and, for bands, the least and the
 * greatest; null where there is a gap.
 */
function columnsOf(points: readonly Point[], fields: readonly string[], hasBands: boolean): uPlot.AlignedData {
  const kinds = hasBands ? [0, 1, 2] : [0]
  const times: number[] = []
  const columns = fields.flatMap(() => kinds.map((): (number | null | undefined)[] => []))
  const gaps = gapsOf(points)
  for (const [at, one] of points.entries()) {
    if (gaps[at]) {
      times.push(((points[at - 1] as Point).from + one.from) / 2000)
      for (const column of columns) column.push(null)
    }
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

function padded(min: number | null, max: number | null): [number, number] {
  if (min === null || max === null) return [0, 1]
  const room = max > min ? (max - min) * 0.08 : Math.max(Math.abs(max) * 0.01, 0.5)
  return [min - room, max + room]
}
