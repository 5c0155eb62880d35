// A tile of a sensor: its name, its value, and the curve of a day.
import '../css/tile.css'
import type { ComponentChildren, ComponentProps } from 'preact'
import type { Point } from './readings.ts'
import { Spark } from './spark.tsx'
import type { Span } from './time.ts'

type TileProperties = Omit<ComponentProps<'a'>, 'name'> & {
  readonly name: string
  readonly value: string
  readonly unit: string
  /** Today's value, where a moment of the past is shown and it differs. */
  readonly today: string | undefined
  readonly measure: string
  readonly points: readonly Point[] | undefined
  /** The time of the curve. */
  readonly span: Span | undefined
  /** A moment of the past: what comes after it is drawn in grey. */
  readonly then?: number | undefined
  /** Beside the name. */
  readonly aside?: ComponentChildren
  /** Beside the unit. */
  readonly label?: string
  /** Below the curve. */
  readonly children: ComponentChildren
}

export function Tile(properties: TileProperties) {
  const {
    name,
    value,
    unit,
    today,
    measure,
    points = [],
    span = { from: 0, to: 1 },
    then,
    aside,
    label,
    children,
    ...rest
  } = properties
  return (
    <a class={`tile card${today === undefined ? '' : ' differs'}`} {...(rest as object)}>
      <span class="tile-line">
        <h2>{name}</h2>
        {aside}
      </span>
      <span class="main number">
        <strong>{value}</strong>
        <span class="unit">{unit}</span>
        {label && <span class="quiet">{label}</span>}
        {today !== undefined && <span class="today">now {today}</span>}
      </span>
      <Spark points={points} measure={measure} span={span} then={then} />
      <span class="tile-line">{children}</span>
    </a>
  )
}
