// The chosen sensor: what it measured over a time, as charts and as a table, to be compared and downloaded.
import { computed, effect, signal } from '@preact/signals'
import { health, may, now, state } from './app.ts'
import { DAY } from './counts.ts'
import { count, counted, dateTime, moment, short, time, visible } from './format.ts'
import {
  type Item,
  limitsOf,
  macOf,
  measured,
  measuresOf,
  nameOf,
  READINGS,
  SENSORS,
  timeField,
  timeOfReading,
  unitOf,
} from './measures.ts'
import { type Line, nearest, Plot, pointed, strokeOf } from './plot.tsx'
import { type Point, pointOf, readingsOf, type Series, seriesOf } from './readings.ts'
import { calm, type Resource, resource } from './resource.ts'
import { Compare } from './sensor-compare.tsx'
import { second, showTiles } from './sensor-grid.tsx'
import { edge, hasItem, isKnown, rereads, sensors } from './sensor-list.ts'
import { SettingsDialog } from './sensor-settings.tsx'
import { chosen, endOf, go, type Period, periodOf, RANGES, USUAL, type View, view } from './sensor-view.ts'
import { showProblem, subject } from './shell.tsx'
import { asOf, at, type Span } from './time.ts'

const REREAD_MS = 2000
const SAID_MS = 1000
/** Readings in a smaller part of the time that the page chose are shown alone. */
const LEAST_PART = 0.05
const LEAST_SPAN = 60_000
const ROWS = 50
/** Charts in the order in which people look at them. */
const ORDER = ['temperature', 'humidity', 'pressure', 'battery', 'acceleration']

/** The readings that the charts draw, of one sensor or of several. */
interface Loaded {
  /** What was asked for, without the moment: while that alone is another, nothing is said. */
  readonly what: string
  readonly sensor: string
  readonly period: Period
  /** No time was asked for: it may be shown in part. */
  readonly isUsual: boolean
  readonly series: Series
  readonly lines: readonly Line[]
}

const isEditing = signal(false)
const rereading = rereads(READINGS, REREAD_MS)
const rereadingItems = rereads(SENSORS, REREAD_MS)
const what = computed(() => {
  const { range, from, to, others, withBefore } = view.value
  return JSON.stringify([chosen.value, range, from, to, others, withBefore])
})

const loading: Resource<Loaded> = resource(
  () => {
    const item = sensors.value?.get(chosen.value ?? '')
    if (!item || !isKnown.value) return undefined
    const isHistory = loading.value.peek()?.series.kind === 'history'
    const turn = [rereading.turn.value, isHistory && rereadingItems.turn.value]
    return { what: what.value, to: periodOf(view.value, item).to, moment: at.value, turn: at.value ? 0 : turn }
  },
  (key) => rereadingItems.timed(() => rereading.timed(() => load(key.what))),
)
/** Its id alone, where there is no such sensor. */
const chosenItem = computed(() => sensors.value?.get(chosen.value ?? '') ?? itemOf(chosen.value ?? ''))
/** What is drawn; of another sensor nothing is, until it is read. */
const loaded = computed(() => (loading.value.value?.sensor === chosen.value ? loading.value.value : undefined))
effect(() => {
  if (loading.error.value) showProblem(loading.error.value)
})
effect(() => {
  const item = chosen.value === undefined ? undefined : sensors.value?.get(chosen.value)
  subject.value = item ? short(nameOf(item), 80) : ''
})

async function load(asked: string): Promise<Loaded> {
  const sensor = chosen.peek() as string
  const { others, withBefore, range, to } = view.peek()
  const item = itemOf(sensor)
  const period = periodOf(view.peek(), item)
  const position = asOf.peek()
  const read = async (key: string, shift = 0): Promise<Line & { readonly series: Series }> => {
    const from = period.from === undefined ? undefined : period.from - shift
    const to = shift > 0 ? period.end - shift : period.to
    const series = await seriesOf({ key, item: itemOf(key), position, from, to, end: period.end - shift })
    const points = shift === 0 ? series.points : series.points.map((one) => shifted(one, shift))
    return { key: `${shift} ${key}`, label: shift > 0 ? 'before' : titleOf(itemOf(key)), points, series }
  }
  const among = others.filter((key) => key !== sensor && sensors.peek()?.has(key))
  const lines = await Promise.all([
    read(sensor),
    ...(withBefore && period.from !== undefined ? [read(sensor, period.end - period.from)] : []),
    ...among.map((key) => read(key)),
  ])
  const isUsual = range === undefined && to === undefined
  return { what: asked, sensor, period, isUsual, lines, series: (lines[0] as (typeof lines)[number]).series }
}

function shifted(one: Point, ms: number): Point {
  return { ...one, from: one.from + ms, to: one.to + ms }
}

function itemOf(key: string): Item {
  return sensors.peek()?.get(key) ?? { [health.value?.idField ?? 'id']: key }
}

function titleOf(item: Item): string {
  return visible(short(nameOf(item), 200)) || '""'
}

/** The time over which the charts are drawn: it moves while one watches, and while the past is played. */
function spanOf({ period, isUsual, series: { points } }: Loaded): Span {
  const [first, last] = [points[0], points.at(-1)]
  const latest = last?.to ?? 0
  const end = period.to ?? endOf(chosenItem.value)
  const from = period.ms === undefined ? period.from : end - period.ms
  if (!first || !last) return { from: from ?? end - DAY, to: end }
  if (from === undefined) return { from: Math.min(first.from, latest - LEAST_SPAN), to: Math.max(latest, first.from) }
  if (!isUsual || latest - first.from > LEAST_PART * (end - from)) return { from, to: end }
  const isCurrent = end - latest < LEAST_PART * (end - from)
  const room = Math.max(LEAST_SPAN / 2, (latest - first.from) / 20)
  return { from: first.from - room, to: isCurrent ? end : latest + room }
}

const span = computed((): Span | undefined => {
  void second.value
  return loaded.value && spanOf(loaded.value)
})
/** The lines without what is later than the moment that is shown. */
const lines = computed((): readonly Line[] => {
  const found = loaded.value?.lines ?? []
  if (!at.value || loaded.value?.period.to !== undefined) return found
  const end = endOf(chosenItem.value)
  return found.map((line) =>
    (line.points.at(-1)?.from ?? 0) > end ? { ...line, points: line.points.filter(({ from }) => from <= end) } : line,
  )
})

export function Chart() {
  const key = chosen.value
  const item = chosenItem.value
  if (key === undefined || !sensors.value) return <section class="card series" hidden={key === undefined} />
  const [title, mac] = [titleOf(item), visible(short(macOf(item), 200))]
  const isPicked = view.value.sensor !== undefined
  const onKeyDown = (event: KeyboardEvent): void => {
    const isTyping = (event.target as HTMLElement).matches('input:not([type=radio])')
    if (event.key === 'Escape' && isPicked && !isEditing.value && !isTyping) showTiles()
  }
  return (
    <section
      id="series"
      class={`card series${isPicked ? ' is-picked' : ''}`}
      aria-labelledby="chosen"
      {...{ onKeyDown }}
    >
      <div class="row series-head">
        <h2 id="chosen" class="break">
          {title}
        </h2>
        {mac !== title && <p class="quiet mono break">{mac}</p>}
        <p id="state-of-series" class="quiet number push" role="status">
          {said}
        </p>
        <button type="button" class="plain" onClick={() => (isEditing.value = true)}>
          Settings…
        </button>
        {isPicked && (
          <button type="button" class="plain" aria-label="Back to all sensors" onClick={showTiles}>
            ✕
          </button>
        )}
      </div>
      <Times />
      <div class="row">
        <When />
        <Compare />
      </div>
      <Charts />
      {loaded.value && loaded.value.series.kind !== 'history' && <Downloads />}
      <details onToggle={({ currentTarget }) => (isTableOpen.value = currentTarget.open)}>
        <summary>The latest readings as a table</summary>
        {isTableOpen.value && <Rows />}
      </details>
      {isEditing.value && (
        <SettingsDialog
          sensor={key}
          item={item}
          isWriter={may('writer') && hasItem(key) && !at.value}
          onClose={() => (isEditing.value = false)}
        />
      )}
    </section>
  )
}

/** The one place that says what is happening. */
const said = calm(computed(statusOf), SAID_MS)

function statusOf(): string {
  const own = loaded.value
  if (!own || own.what !== what.value) return state.value === 'gone' ? 'The server cannot be reached' : 'Reading…'
  const { total, isWhole, kind, points } = own.series
  const latest = timeOfReading(itemOf(own.sensor))
  if (total === 0 && latest === undefined) return 'No readings'
  if (total === 0) return `None in this time; the last one was ${dateTime(latest as number)}`
  const isOld = own.period.ms !== undefined && own.period.to !== undefined && view.value.to === undefined
  const until = isOld && latest !== undefined ? `until ${dateTime(latest)}, ` : ''
  const readings = points.reduce((sum, point) => sum + point.count, 0)
  if (!isWhole) return `${until}the newest ${count(readings)} of ${counted(total, 'reading')}`
  return `${until}${counted(readings, 'reading')}${kind === 'windows' ? ', averages' : ''}`
}

/** The time before a zoom, for a double click. */
let beforeZoom: Partial<Pick<View, 'range' | 'to'>> = {}

function zoomTo({ from, to }: Span): void {
  const { range, from: zoomed, to: before } = view.peek()
  if (zoomed === undefined) beforeZoom = { range, to: before }
  go({ from, to })
}

function zoomBack(): void {
  if (view.peek().from !== undefined) go({ to: undefined, ...beforeZoom, from: undefined })
}

function Times() {
  const shown = span.value
  const { range, from, to } = view.value
  const period = loaded.value?.period
  const isAll = period !== undefined && period.from === undefined
  const isNarrow = period?.ms !== undefined && shown !== undefined && Math.abs(shown.to - shown.from - period.ms) > 1000
  const current = from !== undefined || isNarrow ? undefined : (range ?? USUAL)
  const move = (direction: number): void => {
    if (!shown || !period) return
    const ms = period.ms ?? shown.to - shown.from
    const end = (period.to ?? shown.to) + direction * ms
    const isPast = end < edge() - ms / 20
    go({ from: isPast && from !== undefined ? end - ms : undefined, to: isPast ? end : undefined })
  }
  const goTo = ({ currentTarget }: { readonly currentTarget: HTMLInputElement }): void => {
    const day = new Date(`${currentTarget.value}T00:00`)
    const end = new Date(day).setDate(day.getDate() + 1)
    const isShort = (period?.ms ?? 0) < DAY
    if (Number.isNaN(end)) return
    go({ from: undefined, to: end < edge() ? end : undefined, range: isShort ? USUAL : range })
  }
  const isNow = to === undefined && period?.to === undefined
  const arrow = (name: string, text: string, direction: number, disabled: boolean) => (
    <button type="button" class="plain" aria-label={name} disabled={disabled} onClick={() => move(direction)}>
      {text}
    </button>
  )
  return (
    <div class="row times">
      <fieldset id="ranges" class="choices">
        <legend class="hidden-text">Time shown</legend>
        {Object.entries(RANGES).map(([name, [label]]) => {
          const choose = (): void => go({ range: name, from: undefined, to: undefined })
          return (
            <label key={name}>
              <input type="radio" name="range" value={name} checked={name === current} onChange={choose} />
              <span>{label}</span>
            </label>
          )
        })}
      </fieldset>
      <span class="row period">
        {arrow('Earlier', '‹', -1, !shown || isAll)}
        <input type="date" aria-label="Day shown" value={shown && localDay(shown.to - 1)} onChange={goTo} />
        {arrow('Later', '›', 1, isAll || isNow)}
      </span>
    </div>
  )
}

function localDay(ms: number): string {
  const date = new Date(ms)
  return new Date(ms - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 10)
}

/** Of what time the numbers beside the names of the charts are. */
function When() {
  const one = pointOfValues(lines.value[0])
  const shown = span.value
  return (
    <p class="quiet number when">
      {shown && `${moment(shown.from, now())} – ${moment(shown.to, now())}. `}
      {one && `${pointed.value === undefined ? 'Latest' : 'At the pointer'}: ${textOf(one)}`}
    </p>
  )
}

/** The point of a line under the pointer, else the latest one: that of the chosen sensor is in its item. */
function pointOfValues(line: Line | undefined): Point | undefined {
  if (pointed.value !== undefined && line) return nearest(line.points, pointed.value)
  const ms = line === lines.value[0] && view.value.to === undefined ? timeOfReading(chosenItem.value) : undefined
  return ms === undefined ? line?.points.at(-1) : pointOf(ms, measured(chosenItem.value))
}

function textOf({ from, to, count: readings }: Point): string {
  if (from === to && readings === 1) return dateTime(from, { withMs: true })
  const isOneDay = new Date(from).toDateString() === new Date(to).toDateString()
  return `${dateTime(from)} – ${isOneDay ? time(to) : dateTime(to)}, ${counted(readings, 'reading')}`
}

function Charts() {
  const item = chosenItem.value
  const all = lines.value.length > 0 ? lines.value : NO_LINES
  const read = (all[0] as Line).points.flatMap(({ values }) => [...values.keys()])
  const groups = groupsOf([...new Set([...measuresOf(item).map(({ name }) => name), ...read])])
  const shown = span.value ?? { from: edge() - DAY, to: edge() }
  const heights = heightsOf(groups.length)
  return (
    <div class="charts" aria-busy={!loaded.value}>
      {groups.map(({ name, fields }, index) => (
        <figure key={name}>
          <figcaption>
            <h3>{visible(name.replaceAll('_', ' '))}</h3>
            <span class="values number">
              {all.map((line, at) => (
                <Values key={line.key} fields={fields} line={line} index={at} isAlone={all.length === 1} />
              ))}
            </span>
          </figcaption>
          <Plot
            fields={fields}
            lines={all}
            span={shown}
            limits={fields.length === 1 ? limitsOf(item, fields[0] as string) : {}}
            height={index === 0 ? heights.first : heights.others}
            hasTimes={index === 0 || index === groups.length - 1}
            onZoom={zoomTo}
            onBack={zoomBack}
          />
          <p class="extent quiet number">
            {fields.map((field) => extentOf(field, fields.length === 1, shown)).join(' ') || ' '}
          </p>
        </figure>
      ))}
    </div>
  )
}

const NO_LINES: readonly Line[] = [{ key: '', label: '', points: [] }]

/** The charts fill the window where it has room for them, in pixels. */
function heightsOf(charts: number): { readonly first: number; readonly others: number } {
  if (innerWidth < 960) return { first: 150, others: 84 }
  const one = (innerHeight - 454 - 46 * charts) / (charts + 0.8)
  const between = (least: number, most: number, value: number) => Math.round(Math.min(most, Math.max(least, value)))
  return { first: between(120, 320, 1.8 * one), others: between(52, 160, one) }
}

interface ValuesProperties {
  readonly fields: readonly string[]
  readonly line: Line
  readonly index: number
  readonly isAlone: boolean
}

/** What a line has at the pointer. */
function Values({ fields, line, index, isAlone }: ValuesProperties) {
  const one = pointOfValues(line)
  return (
    <>
      {fields.map((field, at) => {
        const label = `${isAlone ? '' : line.label} ${fields.length > 1 ? lastPart(field) : ''}`.trim()
        const [average, least, greatest] = one?.values.get(field) ?? []
        const colour = `var(${strokeOf(fields.length, at, index)})`
        return (
          <span key={field}>
            {label !== '' && <span class={`mark line-${index}`} style={{ color: colour }} aria-hidden="true" />}
            {label !== '' && <span class="quiet">{label} </span>}
            <strong>{least === greatest ? withUnit(least ?? '–', field) : withUnit(rounded(average), field)}</strong>
            {least !== greatest && <span class="quiet"> {`${rounded(least)} to ${rounded(greatest)}`}</span>}
          </span>
        )
      })}
    </>
  )
}

function withUnit(value: number | string, field: string): string {
  const unit = unitOf(chosenItem.value, field)
  return unit === '' || value === '–' ? String(value) : `${value} ${unit}`
}

/** The axis of an acceleration. */
function lastPart(field: string): string {
  return field.replace(/^.*_/, '')
}

/** The least, the average and the greatest of a time; '' without readings. */
function extentOf(field: string, isAlone: boolean, { from, to }: Span): string {
  const points = lines.value[0]?.points.filter((one) => one.to >= from && one.from <= to && one.values.has(field)) ?? []
  if (points.length === 0) return ''
  let [least, greatest, sum, number] = [Infinity, -Infinity, 0, 0]
  for (const { values, count: readings } of points) {
    const [average, low, high] = values.get(field) as readonly [number, number, number]
    least = Math.min(least, low)
    greatest = Math.max(greatest, high)
    sum += average * readings
    number += readings
  }
  const text = `min ${rounded(least)} · average ${rounded(sum / number)} · max ${withUnit(rounded(greatest), field)}`
  return isAlone ? text : `${lastPart(field)} ${text}`
}

/** A number with as many decimals as one reads. */
function rounded(value: number | undefined): string {
  if (value === undefined) return '–'
  return String(Math.abs(value) >= 1 ? Number(value.toFixed(2)) : Number(value.toPrecision(3)))
}

/** What belongs into one chart: `acceleration` with `acceleration_x`, and so on. */
function groupsOf(names: readonly string[]): readonly { readonly name: string; readonly fields: readonly string[] }[] {
  const found = new Map<string, string[]>()
  for (const name of names.toSorted()) {
    const group = /^(.+)_[xyz]$/.exec(name)?.[1] ?? name
    found.set(group, [...(found.get(group) ?? []), name])
  }
  const rank = (name: string): number => (ORDER.includes(name) ? ORDER.indexOf(name) : ORDER.length)
  return [...found].map(([name, fields]) => ({ name, fields })).sort((a, b) => rank(a.name) - rank(b.name))
}

function Downloads() {
  const save = async (format: 'csv' | 'ndjson'): Promise<void> => {
    const { period } = loaded.peek() as Loaded
    const item = chosenItem.peek()
    const asked = { item, position: asOf.peek(), from: period.from, to: period.to ?? period.end }
    const { body } = await readingsOf(asked).sort(timeField()).export(format)
    const link = document.createElement('a')
    link.href = URL.createObjectURL(await new Response(body).blob())
    link.download = `${String(macOf(item)).replaceAll(/[^\w.-]+/g, '-')}.${format}`
    link.click()
    URL.revokeObjectURL(link.href)
  }
  return (
    <div class="row downloads">
      <span class="quiet">Download the readings of this time:</span>
      {(['csv', 'ndjson'] as const).map((format) => (
        <button key={format} type="button" onClick={() => void save(format).catch(showProblem)}>
          {format.toUpperCase()}
        </button>
      ))}
    </div>
  )
}

const isTableOpen = signal(false)
/** What scrolls has to be reached by the keyboard. */
const SCROLLS = { tabIndex: 0 }

/** The latest points as text, for readers who cannot see the charts. */
function Rows() {
  const points = (lines.value[0]?.points ?? []).slice(-ROWS).reverse()
  const names = [...new Set(points.flatMap(({ values }) => [...values.keys()]))].sort()
  const isWindows = points.some(({ from, to }) => to > from)
  const cellOf = (point: Point, name: string): string => {
    const [average, least, greatest] = point.values.get(name) ?? []
    return least === greatest ? String(least ?? '') : `${rounded(average)} (${rounded(least)} to ${rounded(greatest)})`
  }
  return (
    <section id="table" {...SCROLLS} aria-label="The latest readings">
      <table>
        <thead>
          <tr>
            {['time', ...names, ...(isWindows ? ['readings'] : [])].map((name) => (
              <th key={name} scope="col">
                {visible(name)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody class="number">
          {points.map((point) => (
            <tr key={point.from}>
              <th scope="row">{dateTime(point.from, { withMs: !isWindows })}</th>
              {names.map((name) => (
                <td key={name}>{cellOf(point, name)}</td>
              ))}
              {isWindows && <td>{count(point.count)}</td>}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}
