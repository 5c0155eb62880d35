// The rows of the query as a grid: arrow keys move between its cells, of which one is a tab stop. Only rows in view are
// in the document.

import { computed, effect, signal } from '@preact/signals'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { formatPath } from '../../../src/json/paths.ts'
import type { JsonObject, JsonValue } from '../../../src/json/value.ts'
import { may } from './app.ts'
import { CellEditor } from './cell-editor.tsx'
import { flash } from './dom.ts'
import { kindOf, short } from './format.ts'
import { classOf } from './json-view.tsx'
import { Link } from './link.tsx'
import { go, parse, place, rowName, sortingOf, withParameters, write } from './query.ts'
import { referenceOf } from './relations.ts'
import {
  columns,
  firstInView,
  idField,
  isItem,
  keyOf,
  pathOfColumn,
  type Rows,
  rows,
  shownRows,
  today,
  valueAt,
} from './rows.ts'
import { asOf } from './time.ts'
import { useVirtualRows } from './virtual.ts'

const CHARACTERS = 120
/** Of a column, in characters. */
const [LEAST_WIDTH, MOST_WIDTH, SELECT_WIDTH] = [6, 34, 5]
/** Rows that are measured for the widths of columns. */
const MEASURED = 100
const MOVES: Readonly<Record<string, readonly [rows: number, columns: number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  PageUp: [-20, 0],
  PageDown: [20, 0],
  Home: [0, -1000],
  End: [0, 1000],
}

/** The cell that is the tab stop; row -1 has the headings. */
const active = signal({ row: 0, column: 0 })
const editing = signal<{ readonly key: string; readonly column: string }>()
/** The ids of the selected rows, by their keys. */
export const selected = signal<ReadonlyMap<string, string | number>>(new Map())
let focusWanted = false

/** Whether items can be written here. */
export const mayWrite = computed(() => asOf.value === undefined && may('writer'))
const isEditable = computed(() => {
  const { query = '' } = place.value
  return mayWrite.value && rowName(parse(query)) === 'item' && !/_embed|_expand/.test(query)
})
/** Only items can be selected. */
const canSelect = computed(() => isEditable.value && shownRows.value?.items.some(isItem) === true)

let shownQuestion: string | undefined
effect(() => {
  const question = shownRows.value?.question
  if (question === shownQuestion) return
  shownQuestion = question
  selected.value = new Map()
  editing.value = undefined
})

/** Focuses the cell that is the tab stop, once it is rendered. */
export function focusTable(): void {
  focusWanted = true
  requestAnimationFrame(takeFocus)
}

function takeFocus(): void {
  if (!focusWanted || editing.peek()) return
  const cell = document.querySelector<HTMLElement>('#table [tabindex="0"]')
  if (!cell) return
  focusWanted = false
  cell.focus()
}

export function Table() {
  const scroller = useRef<HTMLDivElement>(null)
  const loaded = shownRows.value
  const items = loaded?.items ?? []
  const size = 2 * Number.parseFloat(getComputedStyle(document.documentElement).fontSize)
  const {
    rows: inView,
    height,
    virtualizer,
  } = useVirtualRows(scroller, {
    count: items.length,
    size,
    paddingStart: size,
    scrollPaddingStart: size,
    getItemKey: (index) => keyOf(items[index] as JsonObject, index),
  })
  const first = inView[0]?.index ?? 0
  const question = JSON.stringify([loaded?.collection, loaded?.parameters])
  // biome-ignore lint/correctness/useExhaustiveDependencies: another result begins at its top.
  useLayoutEffect(() => virtualizer.scrollToOffset(0), [question])
  useLayoutEffect(() => {
    firstInView.value = first
  }, [first])
  const { row, column } = active.value
  useLayoutEffect(takeFocus)
  const move = (event: KeyboardEvent): void => {
    const moves = MOVES[event.key]
    if (!moves || event.altKey || editing.value) return
    event.preventDefault()
    const next = Math.max(-1, Math.min(items.length - 1, row + moves[0]))
    const last = columns.value.length - (canSelect.value ? 0 : 1)
    if (next >= 0) virtualizer.scrollToIndex(next)
    focusWanted = true
    active.value = { row: next, column: Math.max(0, Math.min(last, column + moves[1])) }
  }
  // A row that is scrolled out of view is no tab stop.
  const activeRow = row === -1 || inView.some(({ index }) => index === row) ? row : first
  const widths = widthsOf(loaded)
  const width = columns.value.reduce(
    (sum, name) => sum + (widths.get(name)?.width ?? LEAST_WIDTH),
    canSelect.value ? SELECT_WIDTH : 0,
  )
  return (
    <div class="table" id="table" ref={scroller} aria-busy={rows.isReading.value}>
      <div style={{ height: `${height}px`, paddingTop: `${(inView[0]?.start ?? size) - size}px` }}>
        <table
          // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: its cells can be edited.
          role="grid"
          aria-labelledby="collection"
          aria-rowcount={items.length + 1}
          style={{ width: `max(100%, ${width}ch)` }}
          onKeyDown={move}
          onFocusIn={rememberFocus}
        >
          <colgroup>
            {canSelect.value && <col style={{ width: `${SELECT_WIDTH}ch` }} />}
            {columns.value.map((name) => (
              <col key={name} style={{ width: `${widths.get(name)?.width ?? LEAST_WIDTH}ch` }} />
            ))}
          </colgroup>
          <Head items={items} activeColumn={activeRow === -1 ? column : undefined} />
          <tbody>
            {loaded &&
              inView.map(({ index, key }) => (
                <Row key={key} loaded={loaded} index={index} activeColumn={activeRow === index ? column : undefined} />
              ))}
          </tbody>
        </table>
      </div>
      {loaded && items.length === 0 && <p class="quiet part">Nothing matches.</p>}
    </div>
  )
}

function rememberFocus(event: FocusEvent): void {
  const { row, column } = (event.target as HTMLElement).dataset
  if (row === undefined) return
  if (active.peek().row === Number(row) && active.peek().column === Number(column)) return
  active.value = { row: Number(row), column: Number(column) }
}

/** What a cell that takes the focus needs. */
function stop(row: number, column: number, isActive: boolean) {
  return { 'data-row': row, 'data-column': column, tabIndex: isActive ? 0 : -1 }
}

let measuredFor = ''
let widths = new Map<string, Width>()

interface Width {
  /** In characters. */
  readonly width: number
  /** Headings of numbers stand above them. */
  readonly isNumber: boolean
}

/** A column keeps its width while the same is asked for. */
function widthsOf(loaded: Rows | undefined): ReadonlyMap<string, Width> {
  if (!loaded) return widths
  const question = JSON.stringify([loaded.collection, loaded.parameters])
  if (question !== measuredFor) widths = new Map()
  measuredFor = question
  for (const name of columns.value) {
    if (widths.has(name)) continue
    const path = pathOfColumn(name)
    const values = loaded.items.slice(0, MEASURED).map((item) => valueAt(item, path))
    const longest = Math.max(LEAST_WIDTH, name.length + 2, ...values.map((value) => short(value, MOST_WIDTH).length))
    const isNumber = values.every((value) => value === undefined || typeof value === 'number')
    // Ids have wide characters.
    const width = Math.min(MOST_WIDTH, classOfColumn(name) === '' ? longest : 1.2 * longest) + 3
    widths.set(name, { width, isNumber })
  }
  return widths
}

function Head({
  items,
  activeColumn,
}: {
  readonly items: readonly JsonObject[]
  readonly activeColumn: number | undefined
}) {
  const parameters = parse(place.value.query ?? '')
  const sorting = sortingOf(parameters)
  const offset = canSelect.value ? 1 : 0
  const keys = items.map(keyOf)
  const areAll = items.length > 0 && keys.every((key) => selected.value.has(key))
  const sort = (name: string): void => {
    const isDown = sorting?.field === name && !sorting.isDown
    go({ query: write(withParameters(parameters, [['sort', isDown ? `-${name}` : `${name}_asc`]])) })
  }
  const selectAll = (): void => {
    selected.value = new Map(areAll ? [] : items.filter(isItem).map((item) => [keyOf(item, 0), idOf(item)]))
  }
  return (
    <thead>
      <tr aria-rowindex={1}>
        {canSelect.value && (
          <th scope="col" class="select">
            <input
              type="checkbox"
              aria-label="Select all rows of this page"
              checked={areAll}
              onClick={selectAll}
              {...stop(-1, 0, activeColumn === 0)}
            />
          </th>
        )}
        {columns.value.map((name, index) => {
          const order = sorting?.field === name ? (sorting.isDown ? 'descending' : 'ascending') : undefined
          return (
            <th
              key={name}
              scope="col"
              class={`${classOfColumn(name)}${widths.get(name)?.isNumber ? ' right' : ''}`}
              aria-sort={order}
            >
              <button
                type="button"
                class="plain"
                title={name.length > 20 ? short(name, 400) : undefined}
                onClick={() => sort(name)}
                {...stop(-1, index + offset, activeColumn === index + offset)}
              >
                {short(name, 60)}
              </button>
            </th>
          )
        })}
      </tr>
    </thead>
  )
}

function classOfColumn(name: string): string {
  return name === formatPath([idField()]) ? 'id' : ''
}

function idOf(item: JsonObject): string | number {
  return item[idField()] as string | number
}

interface RowProperties {
  readonly loaded: Rows
  readonly index: number
  readonly activeColumn: number | undefined
}

function Row({ loaded, index, activeColumn }: RowProperties) {
  const line = useRef<HTMLTableRowElement>(null)
  const shown = useRef<JsonObject | undefined>(undefined)
  const item = loaded.items[index] as JsonObject
  const key = keyOf(item, index)
  const now = asOf.value === undefined ? undefined : today.value.value?.get(key)
  useLayoutEffect(() => {
    const { current: before } = shown
    shown.current = item
    if (!loaded.before || !line.current) return
    if (!before && !loaded.before.has(key)) flash(line.current)
    if (before) flashChanges(line.current, before, item)
  }, [item, key, loaded.before])
  const offset = canSelect.value ? 1 : 0
  const isSelected = selected.value.has(key)
  const select = (): void => {
    const next = new Map(selected.value)
    if (!next.delete(key)) next.set(key, idOf(item))
    selected.value = next
  }
  return (
    <tr
      ref={line}
      class={now === null ? 'fades differs' : 'fades'}
      aria-rowindex={index + 2}
      aria-selected={canSelect.value ? isSelected : undefined}
      aria-current={place.value.item === key ? 'true' : undefined}
    >
      {canSelect.value && (
        <td class="select">
          <input
            type="checkbox"
            aria-label={`Select ${short(item[idField()], 60)}`}
            checked={isSelected}
            onClick={select}
            {...stop(index, 0, activeColumn === 0)}
          />
        </td>
      )}
      {columns.value.map((name, at) => (
        <Cell
          key={name}
          loaded={loaded}
          item={item}
          index={index}
          name={name}
          column={at + offset}
          isActive={activeColumn === at + offset}
          now={now}
        />
      ))}
    </tr>
  )
}

function flashChanges(line: HTMLElement, before: JsonObject, item: JsonObject): void {
  for (const name of columns.peek()) {
    const path = pathOfColumn(name)
    const cell = line.querySelector(`[data-name="${CSS.escape(name)}"]`)
    if (cell && textOf(valueAt(before, path)) !== textOf(valueAt(item, path))) flash(cell)
  }
}

function textOf(value: JsonValue | undefined): string {
  return short(value, CHARACTERS)
}

interface CellProperties {
  readonly loaded: Rows
  readonly item: JsonObject
  readonly index: number
  readonly name: string
  readonly column: number
  readonly isActive: boolean
  /** The item today, while the past is shown. Null: it is deleted; undefined: not known. */
  readonly now: JsonObject | null | undefined
}

function Cell({ loaded, item, index, name, column, isActive, now }: CellProperties) {
  const path = pathOfColumn(name)
  const value = valueAt(item, path)
  const key = keyOf(item, index)
  const text = textOf(value)
  const reached = stop(index, column, isActive)
  if (isItem(item) && name === formatPath([idField()])) {
    return (
      <th scope="row" class="id">
        <Link to={{ item: key }} onOpen={focusPanel} {...reached}>
          {text === '' ? '""' : text}
        </Link>
        {now === null && <span class="today"> now gone</span>}
      </th>
    )
  }
  const open = (): void => {
    if (isEditable.value && isItem(item)) editing.value = { key, column: name }
    else if (isItem(item)) {
      focusPanel()
      go({ item: key })
    }
  }
  const done = (): void => {
    editing.value = undefined
    focusTable()
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== 'Enter' && event.key !== 'F2') return
    event.preventDefault()
    open()
  }
  if (editing.value?.key === key && editing.value.column === name) {
    return (
      <td class="edited">
        <CellEditor collection={loaded.collection} item={item} column={name} position={loaded.position} onDone={done} />
      </td>
    )
  }
  const todays = now ? textOf(valueAt(now, path)) : text
  const reference = referenceOf(path.at(-1), value)
  const kind = value === undefined ? '' : classOf(value)
  return (
    <td
      class={`fades ${kind}${kindOf(value) === 'number' ? ' right' : ''}${todays === text ? '' : ' differs'}`}
      data-name={name}
      title={text.length > MOST_WIDTH ? text : undefined}
      onKeyDown={onKeyDown}
      onDblClick={open}
      {...reached}
    >
      {reference ? (
        <Link
          class="chip"
          tabIndex={-1}
          to={{ collection: reference.collection, query: undefined, item: reference.id }}
        >
          {reference.collection}/{text}
        </Link>
      ) : (
        text
      )}
      {todays !== text && <span class="today"> now {todays === '' ? 'nothing' : todays}</span>}
    </td>
  )
}

let opener: HTMLElement | undefined
/** Whether the panel takes the focus when it opens. */
export const panelFocus = { isWanted: false }

function focusPanel(): void {
  opener = document.activeElement as HTMLElement
  panelFocus.isWanted = true
}

/** Returns the focus to what opened the panel. */
export function returnFocus(): void {
  if (opener?.isConnected) opener.focus()
  else focusTable()
  opener = undefined
}
