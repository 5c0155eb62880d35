// The page of the collections: what there is, the rows of a query, and one item.
import '../css/base.css'
import '../css/shell.css'
import '../css/json.css'
import '../css/collections.css'
import { effect, signal } from '@preact/signals'
import { render } from 'preact'
import { useRef } from 'preact/hooks'
import { Problem } from '../../../src/client/index.ts'
import { client, may, role } from './app.ts'
import { curlOf } from './base.ts'
import { Button, Dialog, Menu, set } from './controls.tsx'
import { countsToday, shownCounts } from './counts.ts'
import { deleteCollection, deleteItems } from './deletion.ts'
import { Export } from './export.tsx'
import { Facets } from './facets.tsx'
import { count, counted, short, visible } from './format.ts'
import { ImportDialog, importFile } from './import.tsx'
import { beginItem, ItemPanel, isPanelOpen } from './item-panel.tsx'
import { Link } from './link.tsx'
import { ask, go, pagingOf, place, query, rowName } from './query.ts'
import { QueryBar } from './query-bar.tsx'
import { chooseColumns, collection, columns, fields, idField, isObject, type Rows, rows, shownRows } from './rows.ts'
import { showProblem, startShell, subject } from './shell.tsx'
import { focusTable, mayWrite, selectedIds, Table } from './table.tsx'
import { asOf } from './time.ts'
import { placeOf } from './words.ts'

const SIZES = [20, 50, 100, 500, 2000, 10_000]
const HIDDEN_NAMES = 3
const NATURAL = new Intl.Collator('en', { numeric: true })

const isCreating = signal(false)
const isDragging = signal(false)

function Collections() {
  const names = Object.keys({ ...shownCounts.value, ...countsToday.value })
  const isEmpty = shownCounts.value !== undefined && names.length === 0
  // Drawn before the role is known, the content would move when its controls appear.
  const isThere = collection.value !== undefined && !!role.value
  const isOpen = isThere && isPanelOpen()
  return (
    <div
      class={`collections${isOpen ? ' with-item' : ''}${isObject.value ? ' of-object' : ''}${isDragging.value ? ' dragging' : ''}`}
    >
      <h1 class="hidden-text">Collections</h1>
      <aside class="side">
        <nav class="card names" aria-label="All collections">
          {isEmpty && role.value !== null && <Empty />}
          <ul id="names">{role.value !== null && names.map((name) => <Name key={name} name={name} />)}</ul>
          {mayWrite.value && <Button text="New collection" class="plain" run={set(isCreating, true)} />}
        </nav>
        {isThere && !isObject.value && <Facets />}
      </aside>
      {isThere && !isObject.value && <Items />}
      {isOpen && <ItemPanel />}
      <ImportDialog />
      {isCreating.value && <NewCollection />}
    </div>
  )
}

function Name({ name }: { readonly name: string }) {
  const total = shownCounts.value?.[name]
  const now = countsToday.value?.[name]
  const differs = countsToday.value !== undefined && now !== total
  const text = (value: number | null | undefined): string =>
    value === undefined ? 'none' : value === null ? '{}' : count(value)
  return (
    <li class={differs ? 'differs' : ''}>
      <Link
        to={{ collection: name, query: undefined, item: undefined }}
        aria-current={name === collection.value ? 'true' : undefined}
      >
        <span class="name">{visible(name) || '""'}</span>
        <span class="number quiet">
          {text(total)}
          <span class="hidden-text">{total === null ? ' single object' : total === 1 ? ' item' : ' items'}</span>
        </span>
        {differs && <span class="today">now {text(now)}</span>}
      </Link>
    </li>
  )
}

function Empty() {
  return (
    <div class="part">
      <p>There are no collections{asOf.value === undefined ? ' yet' : ' at this moment'}.</p>
      {mayWrite.value && (
        <>
          <p>Create one, drop a file here, or send a first item:</p>
          <pre class="break">{curlOf('notes', { text: 'Hello' })}</pre>
        </>
      )}
    </div>
  )
}

function NewCollection() {
  const create = async (form: FormData): Promise<void> => {
    const name = String(form.get('name'))
    await client.collection(name).createEmpty()
    isCreating.value = false
    go({ collection: name, query: undefined, item: undefined })
  }
  return (
    <Dialog title="New collection" action="Create" onSubmit={create} onClose={set(isCreating, false)}>
      <label class="field">
        Name
        <input name="name" required />
      </label>
    </Dialog>
  )
}

function Items() {
  const name = collection.value ?? ''
  const ids = selectedIds.value
  return (
    <section class="card items" aria-labelledby="collection">
      <div class="row items-head">
        <h2 id="collection" class="break">
          {visible(name)}
        </h2>
        <span class="row push">
          {ids.length > 0 && (
            <Button class="danger" run={() => deleteItems(name, ids, shownRows.value?.position ?? 0).then(focusTable)}>
              Delete {counted(ids.length, 'item')}
            </Button>
          )}
          <Export />
          <Columns name={name} />
          {mayWrite.value && <Writes name={name} />}
        </span>
      </div>
      <QueryBar />
      <Table />
      <div class="row pager" id="pager">
        {shownRows.value && <Pager loaded={shownRows.value} />}
        <HiddenColumns />
      </div>
    </section>
  )
}

function Writes({ name }: { readonly name: string }) {
  const file = useRef<HTMLInputElement>(null)
  return (
    <>
      <Menu label="More">
        <Button text="Import a file…" class="plain" run={() => file.current?.click()} />
        {may('admin') && (
          <Button text="Delete the collection" class="plain" run={() => deleteCollection(name).catch(showProblem)} />
        )}
      </Menu>
      <input
        ref={file}
        type="file"
        hidden
        accept=".json,.ndjson,.jsonl,.csv"
        aria-label="File to import"
        onChange={(event) => {
          void importFile(event.currentTarget.files?.[0])
          event.currentTarget.value = ''
        }}
      />
      <Button text="New item" id="create" run={beginItem} />
    </>
  )
}

function Columns({ name }: { readonly name: string }) {
  if (rowName(query.value) !== 'item') return null
  const shown = columns.value.map((column) => column.name)
  const choose = (column: string): void => {
    chooseColumns(name, shown.includes(column) ? shown.filter((one) => one !== column) : [...shown, column])
  }
  const names = fields.value.filter((one) => one !== idField()).sort(NATURAL.compare)
  return (
    <Menu label="Columns">
      {names.map((column) => (
        <label key={column} class="break">
          <input type="checkbox" checked={shown.includes(column)} onClick={() => choose(column)} /> {short(column, 60)}
        </label>
      ))}
      <Button text="Reset" class="plain" run={() => chooseColumns(name, undefined)} />
    </Menu>
  )
}

function Pager({ loaded: { total, items, query: answered } }: { readonly loaded: Rows }) {
  const { from } = pagingOf(answered)
  // What is asked for, although it may not have come yet: who clicks twice turns two pages.
  const { page, size } = pagingOf(query.value)
  const pages = Math.max(1, Math.ceil(total / size))
  const turn = (to: number, newSize = size): void =>
    ask((next) => {
      next.set('pageSize', String(newSize))
      next.set('page', String(to))
    })
  const step = (sign: string, label: string, to: number) => (
    <Button label={label} text={sign} disabled={to < 1 || to > pages || to === page} run={() => turn(to)} />
  )
  const sizes = [...new Set([...SIZES, size])].sort((a, b) => a - b)
  return (
    <>
      {step('⟨⟨', 'First page', 1)}
      {step('⟨', 'Page before', page - 1)}
      <span class="number">
        {items.length === 0 ? 0 : `${count(from + 1)}–${count(from + items.length)}`} of {count(total)}
      </span>
      {step('⟩', 'Next page', page + 1)}
      {step('⟩⟩', 'Last page', pages)}
      <select
        aria-label={`${rowName(answered) === 'item' ? 'Items' : 'Rows'} a page`}
        value={size}
        onChange={(event) => turn(1, Number(event.currentTarget.value))}
      >
        {sizes.map((one) => (
          <option key={one} value={one}>
            {one} a page
          </option>
        ))}
      </select>
    </>
  )
}

function HiddenColumns() {
  const shown = new Set(columns.value.map(({ name }) => name))
  const hidden = fields.value.filter((name) => !shown.has(name)).map((name) => short(name, 30))
  if (hidden.length === 0) return null
  return (
    <p class="quiet break push" title={hidden.join(', ')}>
      {counted(hidden.length, 'column')} not shown: {hidden.slice(0, HIDDEN_NAMES).join(', ')}
      {hidden.length > HIDDEN_NAMES && '…'}
    </p>
  )
}

/** A file may be dropped anywhere. */
for (const name of ['dragover', 'dragleave', 'drop'] as const) {
  window.addEventListener(name, (event) => {
    if (!mayWrite.value || !event.dataTransfer?.types.includes('Files')) return
    event.preventDefault()
    isDragging.value = name === 'dragover'
    if (name === 'drop') void importFile(event.dataTransfer.files[0])
  })
}
effect(() => {
  subject.value = placeOf(collection.value ?? '', isObject.value ? '' : place.value.item).text
})
effect(() => {
  const { value } = rows.error
  // A collection that is gone gives way to the next one, unless the address names it.
  const isGone = place.value.collection === undefined && value instanceof Problem && value.status === 404
  showProblem(isGone ? undefined : value)
})
render(<Collections />, document.getElementById('main') as HTMLElement)
void startShell()
