// The rows of the query as a grid: arrow keys move between its cells, of which one is a tab stop. Only rows in view are
// in the document.

import { computed, effect, signal } from '@preact/signals'
import pluralize from 'pluralize'
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { formatPath } from '../../../src/json/paths.ts'
import type { JsonObject, JsonValue } from '../../../src/json/value.ts'
import { may } from './app.ts'
import { CellEditor } from './cell-editor.tsx'
import { Button } from './controls.tsx'
import { shownCounts } from './counts.ts'
import { flash } from './dom.ts'
import { short } from './format.ts'
import { classOf } from './json-view.tsx'
import { Link } from './link.tsx'
import { ask, go, type Place, place, query, rowName, sortingOf, withoutPaging } from './query.ts'
import {
  type Column,
  columns,
  firstInView,
  idOf,
  isIdColumn,
  isItem,
  keyOf,
  type Rows,
  rows,
  shownRows,
  today,
  valueAt,
} from './rows.ts'
import { asOf } from './time.ts'
import { useVirtualRows } from './virtual.ts'

/** The height of a row in pixels. */
const HEIGHT = 2 * Number.parseFloat(getComputedStyle(document.documentElement).fontSize)
const CHARACTERS = 120
const SELECT_WIDTH = 5
/** `postId` of a comment is the id of an item of `posts` (docs/api.md, "Related items"). */
const REFERENCE = /^(.+)Id$/
const MOVES: Readonly<Record<string, readonly [rows: number, columns: number]>> = {
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  PageUp: [-20, 0],
  PageDown: [20, 0],
  Home: [0, Number.NEGATIVE_INFINITY],
  End: [0, Number.POSITIVE_INFINITY],
  'Ctrl+Home': [Number.NEGATIVE_INFINITY, 0],
  'Ctrl+End': [Number.POSITIVE_INFINITY, 0],
}

/** The row and the column of the cell that is the tab stop. Row -1 has the headings, column 0 selects rows. */
const active = signal('0,1')
/** Counts the times that the table is to take the focus. */
const focusTurn = signal(0)
const editing = signal<{ readonly key: string; readonly name: string }>()
const selected = signal<ReadonlySet<string | number>>(new Set())
/** The ids of the selected rows. */
export const selectedIds = computed(() =>
  (shownRows.value?.items ?? [])
    .filter(isItem)
    .map(idOf)
    .filter((id) => selected.value.has(id)),
)

/** Whether items can be written here. */
export const mayWrite = computed(() => asOf.value === undefined && may('writer'))
const isEditable = computed(() => {
  const hasOthers = query.value.has('_embed') || query.value.has('_expand')
  return mayWrite.value && rowName(query.value) === 'item' && !hasOthers
})
/** Only items can be selected. */
const canSelect = computed(() => isEditable.value && shownRows.value?.items.some(isItem) === true)

const question = computed(() => shownRows.value?.question)
effect(() => {
  void question.value
  selected.value = new Set()
  editing.value = undefined
})

/** Focuses the cell that is the tab stop. */
export function focusTable(): void {
  focusTurn.value++
}

/** The attributes of what takes the focus in a cell. */
type Stop = (row: number, column: number) => object

export function Table() {
  const scroller = useRef<HTMLDivElement>(null)
  const focused = useRef(focusTurn.peek())
  const loaded = shownRows.value
  const items = loaded?.items ?? []
  const virtual = useVirtualRows(scroller, {
    count: items.length,
    size: HEIGHT,
    paddingStart: HEIGHT,
    scrollPaddingStart: HEIGHT,
    getItemKey: (index) => keyOf(items[index] as JsonObject, index),
  })
  const { rows: inView, height, virtualizer } = virtual
  const first = inView[0]?.index ?? 0
  // biome-ignore lint/correctness/useExhaustiveDependencies: another result begins at its top.
  useLayoutEffect(() => {
    // To scroll makes the browser lay out the page at once, which takes 20 ms of the start.
    if (virtualizer.scrollOffset) virtualizer.scrollToOffset(0)
  }, [question.value])
  useLayoutEffect(() => {
    firstInView.value = first
  }, [first])
  const [activeRow = 0, activeColumn = 0] = active.value.split(',').map(Number)
  const row = Math.min(activeRow, items.length - 1)
  const column = inColumns(activeColumn)
  // A row that is scrolled out of view is no tab stop.
  const isInView = row === -1 || inView.some(({ index }) => index === row)
  const tabStop = `${isInView ? row : first},${column}`
  const stop: Stop = (ofRow, ofColumn) => {
    const cell = `${ofRow},${ofColumn}`
    return { 'data-cell': cell, tabIndex: cell === tabStop ? 0 : -1 }
  }
  const turn = focusTurn.value
  const hadFocus = scroller.current?.contains(document.activeElement)
  useLayoutEffect(() => {
    const isLost = hadFocus && isInView && document.activeElement === document.body
    if ((turn === focused.current && !isLost) || editing.value) return
    // The row is in the document after one of the next renders.
    if (!isInView) return virtualizer.scrollToIndex(row)
    focused.current = turn
    const stopped = scroller.current?.querySelector<HTMLElement>('[tabindex="0"]')
    stopped?.focus({ preventScroll: true })
    stopped?.closest('td, th')?.scrollIntoView({ block: 'nearest', inline: 'nearest' })
  })
  const move = (event: KeyboardEvent): void => {
    const moves = MOVES[event.ctrlKey ? `Ctrl+${event.key}` : event.key]
    if (!moves || event.altKey || editing.value) return
    event.preventDefault()
    const to = row + moves[0]
    // Only a step from the first row leads to the headings.
    const next = to < -1 ? Math.min(row, 0) : Math.min(items.length - 1, to)
    active.value = `${next},${inColumns(column + moves[1])}`
    focusTable()
  }
  const widthOf = (all: readonly Column[]): number =>
    all.reduce((sum, { width }) => sum + width, canSelect.value ? SELECT_WIDTH : 0)
  const frozen = columns.value.filter(({ name }) => isIdColumn(name))
  return (
    <div
      class="table"
      id="table"
      ref={scroller}
      aria-busy={rows.isReading.value}
      style={{ scrollPadding: `${HEIGHT}px 0 0 ${widthOf(frozen)}ch` }}
    >
      <div style={{ height: `${height}px`, paddingTop: `${(inView[0]?.start ?? HEIGHT) - HEIGHT}px` }}>
        <table
          // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: its cells can be edited.
          role="grid"
          aria-labelledby="collection"
          aria-rowcount={items.length + 1}
          style={{ width: `max(100%, ${widthOf(columns.value)}ch)` }}
          onKeyDown={move}
          onFocusIn={({ target }) => {
            active.value = (target as HTMLElement).dataset.cell ?? active.value
          }}
        >
          <Head items={items} stop={stop} />
          <tbody>
            {loaded && inView.map(({ index, key }) => <Row key={key} loaded={loaded} index={index} stop={stop} />)}
          </tbody>
        </table>
      </div>
      {loaded && items.length === 0 && (
        <p class="quiet part">
          {withoutPaging(loaded.query).size + loaded.total > 0 ? 'Nothing matches.' : 'No items yet.'}
        </p>
      )}
    </div>
  )
}

function inColumns(column: number): number {
  return Math.max(canSelect.value ? 0 : 1, Math.min(columns.value.length, column))
}

function Head({ items, stop }: { readonly items: readonly JsonObject[]; readonly stop: Stop }) {
  const sorting = sortingOf(query.value)
  const orderOf = (name: string) => {
    if (!sorting || formatPath(sorting.path) !== name) return undefined
    return sorting.descending ? 'descending' : 'ascending'
  }
  const areAll = items.length > 0 && selectedIds.value.length === items.length
  const sort = (name: string): void => {
    const isDown = orderOf(name) === 'ascending'
    ask((next) => next.set('sort', isDown ? `-${name}` : `${name}_asc`))
  }
  const selectAll = (): void => {
    selected.value = new Set(areAll ? [] : items.filter(isItem).map(idOf))
  }
  return (
    <thead>
      <tr aria-rowindex={1}>
        {canSelect.value && (
          <th scope="col" class="select" style={{ width: `${SELECT_WIDTH}ch` }}>
            <input
              type="checkbox"
              aria-label="Select all rows of this page"
              checked={areAll}
              onClick={selectAll}
              {...stop(-1, 0)}
            />
          </th>
        )}
        {columns.value.map(({ name, isNumber, width }, index) => (
          <th
            key={name}
            scope="col"
            class={`${isIdColumn(name) ? 'id' : ''}${isNumber ? ' right' : ''}`}
            style={{ width: `${width}ch` }}
            aria-sort={orderOf(name)}
          >
            <Button
              text={short(name, 60)}
              class="plain"
              title={name.length > 20 ? short(name, 400) : undefined}
              run={() => sort(name)}
              {...stop(-1, index + 1)}
            />
          </th>
        ))}
      </tr>
    </thead>
  )
}

function Row({ loaded, index, stop }: { readonly loaded: Rows; readonly index: number; readonly stop: Stop }) {
  const line = useRef<HTMLTableRowElement>(null)
  const item = loaded.items[index] as JsonObject
  const key = keyOf(item, index)
  const now = asOf.value === undefined ? undefined : today.value.value?.get(key)
  useLayoutEffect(() => {
    if (line.current && loaded.before && !loaded.before.has(key)) flash(line.current)
  }, [key, loaded.before])
  const isSelected = isItem(item) && selected.value.has(idOf(item))
  const select = (): void => {
    const others = [...selected.value].filter((id) => id !== idOf(item))
    selected.value = new Set(isSelected ? others : [...others, idOf(item)])
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
            aria-label={`Select ${short(idOf(item), 60)}`}
            checked={isSelected}
            onClick={select}
            {...stop(index, 0)}
          />
        </td>
      )}
      {columns.value.map((column, at) => (
        <Cell
          key={column.name}
          loaded={loaded}
          item={item}
          itemKey={key}
          column={column}
          now={now}
          reached={stop(index, at + 1)}
        />
      ))}
    </tr>
  )
}

interface CellProperties {
  readonly loaded: Rows
  readonly item: JsonObject
  readonly itemKey: string
  readonly column: Column
  /** The item today, while the past is shown. Null: it is deleted; undefined: not known. */
  readonly now: JsonObject | null | undefined
  readonly reached: object
}

function Cell({ loaded, item, itemKey: key, column, now, reached }: CellProperties) {
  const { name, path } = column
  const cell = useRef<HTMLTableCellElement>(null)
  const value = valueAt(item, path)
  const text = short(value, CHARACTERS)
  const shown = useRef(text)
  useLayoutEffect(() => {
    if (cell.current && text !== shown.current && loaded.before) flash(cell.current)
    shown.current = text
  }, [text, loaded.before])
  if (isItem(item) && isIdColumn(name)) {
    return (
      <th scope="row" class="id">
        <Since now={now === null ? 'gone' : undefined}>
          <Link to={{ item: key }} {...reached}>
            {text === '' ? '""' : text}
          </Link>
        </Since>
      </th>
    )
  }
  if (editing.value?.key === key && editing.value.name === name) {
    const done = (): void => {
      editing.value = undefined
      focusTable()
    }
    return (
      <td class="edited">
        <CellEditor loaded={loaded} item={item} column={column} onDone={done} />
      </td>
    )
  }
  const open = (): void => {
    if (isEditable.value && isItem(item)) editing.value = { key, name }
    else if (isItem(item)) go({ item: key })
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.key !== 'Enter' && event.key !== 'F2') return
    event.preventDefault()
    open()
  }
  const todays = now ? short(valueAt(now, path), CHARACTERS) : text
  const since = todays === text ? undefined : todays || 'nothing'
  const label = since === undefined ? text : `${text} now ${since}`
  const reference = referenceOf(path.at(-1), value)
  return (
    <td
      ref={cell}
      class={`fades ${value === undefined ? '' : classOf(value)}${since === undefined ? '' : ' differs'}`}
      data-name={name}
      title={label.length > column.width - 3 ? label : undefined}
      onKeyDown={onKeyDown}
      onDblClick={open}
      {...reached}
    >
      <Since now={since}>
        {reference ? (
          <Link class="chip" tabIndex={-1} to={reference}>
            {reference.collection}/{text}
          </Link>
        ) : (
          text
        )}
      </Since>
    </td>
  )
}

/** A value of the past, and beside it that of today, if it differs. */
function Since({ now, children }: { readonly now: string | undefined; readonly children: ComponentChildren }) {
  if (now === undefined) return <>{children}</>
  return (
    <div class="since">
      <span>{children}</span>
      <span class="today"> now {now}</span>
    </div>
  )
}

/** The item that the value of a field refers to. */
function referenceOf(field = '', value: JsonValue | undefined): Place | undefined {
  const [, name] = REFERENCE.exec(field) ?? []
  if (name === undefined || !['string', 'number'].includes(typeof value) || value === '') return undefined
  const collection = pluralize.plural(name)
  if (typeof shownCounts.value?.[collection] !== 'number') return undefined
  return { collection, query: undefined, item: String(value) }
}
