// The rows of the journal: requests with what changed in words, and the events of those that are unfolded. One of all the
// controls is a tab stop; arrow keys lead to the others.
import { computed, effect, signal } from '@preact/signals'
import { defaultRangeExtractor } from '@tanstack/virtual-core'
import type { RefObject } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import type { Changes } from './address.ts'
import { now } from './app.ts'
import { counted, moment, short, visible } from './format.ts'
import { beginnings, filter, isAtTop, list, opened, wantNewer, wantOlder } from './journal-list.ts'
import { Link } from './link.tsx'
import { names } from './names.ts'
import { Actions } from './undo.tsx'
import { useVirtualRows, type VirtualRows } from './virtual.ts'
import { byRequest, type Event, type Line, lineOf, type RequestEvents } from './words.ts'

interface Row {
  readonly key: string
  readonly request: RequestEvents
  /** One of the request's events; undefined: all of them. */
  readonly event?: Event
  /** How many events were not read; they would follow. */
  readonly skipped?: number
}

const ROW_PIXELS = 38
const MAIN = '[data-part=main]'
const TOP_PIXELS = 4
/** The next events are read when so few rows are left. */
const NEAR_ROWS = 10
/** Around the events of a request, in which others of it may be: a search of all times takes longer. */
const AROUND_MS = 60_000
const SIGNS: Readonly<Record<Event['type'], string>> = {
  ItemCreated: '+',
  ItemReplaced: '=',
  ItemPatched: '~',
  ItemDeleted: '−',
  ObjectCreated: '+',
  ObjectDeleted: '−',
  CollectionCreated: '⊕',
  CollectionRemoved: '⊖',
  CollectionOrdered: '↕',
  IdsReset: '↺',
}

/** Requests that are unfolded, or, if all are, those that are not; by their keys. */
const toggled = signal<ReadonlySet<string>>(new Set())
/** The control that has the focus, or had it last. */
const active = signal({ key: '', part: 'main' })
let wantsFocus = false
/** Scrolls the list. */
let scroller: VirtualRows['virtualizer'] | undefined

const rows = computed((): readonly Row[] => {
  const { events, skipped } = list.value
  return byRequest(events, skipped).flatMap((request) => {
    const key = `request ${request.events[0]?.position}`
    const head = { key, request }
    if (!isOpen(head)) return [head]
    return [
      head,
      ...request.events.flatMap((event) => {
        const rest = skipped.get(event.position)
        const row = { key: `event ${event.position}`, request, event }
        return rest === undefined ? [row] : [row, { key: `rest ${event.position}`, request, skipped: rest }]
      }),
    ]
  })
})

function isOpen({ key, request }: Row): boolean {
  return request.events.length > 1 && toggled.value.has(key) !== (filter.value.requestId !== undefined)
}

effect(() => {
  void filter.value
  toggled.value = new Set()
  // The row whose link was followed may be gone.
  if (document.activeElement?.closest('#list')) wantsFocus = true
})

effect(() => {
  void beginnings.value
  scroller?.scrollToOffset(0)
})

/** Returns the focus to the list. */
export function focusList(): void {
  wantsFocus = true
  active.value = { ...active.peek() }
}

export function Rows() {
  const place = useRef<HTMLDivElement>(null) as RefObject<HTMLDivElement>
  const all = rows.value
  const at = all.findIndex(({ key }) => key === active.value.key)
  const { isCut, older } = list.value
  const {
    rows: shown,
    height,
    virtualizer,
  } = useVirtualRows(place, {
    count: all.length,
    size: ROW_PIXELS,
    getItemKey: (index) => all[index]?.key ?? index,
    // The rows in view stay where they are; who looks at the newest sees the next ones come.
    anchorTo: isAtTop.value && !isCut ? 'start' : 'end',
    rangeExtractor: (range) => {
      const found = defaultRangeExtractor(range)
      return at < 0 || found.includes(at) ? found : [...found, at].sort((a, b) => a - b)
    },
  })
  useLayoutEffect(() => {
    const { startIndex = 0, endIndex = 0 } = virtualizer.range ?? {}
    const { scrollDirection } = virtualizer
    // Where few rows stand for many events, both ends are near: the list must not go to and fro by itself.
    if (endIndex >= all.length - NEAR_ROWS && (!isCut || scrollDirection === 'forward')) wantOlder()
    if (startIndex < NEAR_ROWS && scrollDirection === 'backward') wantNewer()
    scroller = virtualizer
    if (!wantsFocus || all.length === 0) return
    wantsFocus = false
    const { key, part } = active.peek()
    const row = place.current?.querySelector(`[data-key="${key}"]`) ?? place.current?.querySelector('li')
    const control = row?.querySelector<HTMLElement>(`[data-part="${part}"]`) ?? row?.querySelector<HTMLElement>(MAIN)
    control?.focus({ preventScroll: true })
  })
  const tabKey = shown.some(({ index }) => index === at) ? active.value.key : all[shown[0]?.index ?? 0]?.key
  const tabPart = tabKey === active.value.key ? active.value.part : 'main'
  return (
    <div
      id="list"
      class="list"
      ref={place}
      onScroll={({ currentTarget }) => {
        isAtTop.value = currentTarget.scrollTop < TOP_PIXELS
      }}
    >
      <ol aria-label="Changes, the newest first" style={{ height: `${height}px` }}>
        {shown.map(({ index, key, start }) => {
          const row = all[index]
          if (!row) return null
          return (
            <li
              key={key}
              ref={virtualizer.measureElement}
              aria-posinset={index + 1}
              aria-setsize={older === undefined && !isCut ? all.length : -1}
              aria-current={isOpened(row)}
              class={row.event ? 'event-row' : ''}
              data-index={index}
              data-key={row.key}
              style={{ transform: `translateY(${start}px)` }}
            >
              <Cells row={row} tabPart={row.key === tabKey ? tabPart : ''} />
            </li>
          )
        })}
      </ol>
    </div>
  )
}

document.addEventListener('focusin', ({ target }) => {
  const { part } = (target as HTMLElement).dataset
  const { key } = (target as HTMLElement).closest<HTMLElement>('#list li')?.dataset ?? {}
  if (part !== undefined && key !== undefined) active.value = { key, part }
})

/** Down, up, to the first and the last row; left and right within a row. */
document.addEventListener('keydown', (event) => {
  const { target, key } = event
  const row = target instanceof HTMLElement ? target.closest<HTMLElement>('#list li') : null
  if (!row) return
  const at = Number(row.dataset.index)
  const last = rows.peek().length - 1
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: last }[key]
  const by = { ArrowRight: 1, ArrowLeft: -1 }[key]
  if (to === undefined && by === undefined) return
  event.preventDefault()
  if (to !== undefined) focusRow(Math.max(0, Math.min(last, to)))
  else {
    const controls = [...row.querySelectorAll<HTMLElement>('[data-part]')]
    controls[controls.indexOf(target as HTMLElement) + (by ?? 0)]?.focus()
  }
})

function focusRow(index: number): void {
  wantsFocus = true
  scroller?.scrollToIndex(index)
  active.value = { part: active.peek().part, key: rows.peek()[index]?.key ?? '' }
}

function isOpened({ request: { events }, event }: Row): boolean {
  const shown = event ?? (events.length === 1 ? events[0] : undefined)
  return shown !== undefined && shown.position === opened.value?.event
}

interface CellProperties {
  readonly row: Row
  /** The control that the tab key leads to, if it is one of this row. */
  readonly tabPart: string
}

function Cells({ row, tabPart }: CellProperties) {
  const { request, event, skipped } = row
  const part = (name: string) => ({ 'data-part': name, tabIndex: name === tabPart ? 0 : -1 })
  if (skipped !== undefined) {
    return (
      <div class="what quiet">
        {Number.isFinite(skipped) ? counted(skipped, 'more event') : 'More events'} of this request:{' '}
        <Link to={ofRequest(request)} {...part('main')}>
          show them all
        </Link>
      </div>
    )
  }
  const { actor, ms, requestId, events } = request
  const line = lineOf(event ? { ...request, events: [event], skipped: 0 } : request, event ? undefined : names.value)
  const { place, subject, isDeletion } = line
  const shown = event ? [event] : events
  const last = shown[0] as Event
  const isSameType = shown.every(({ type }) => type === last.type)
  return (
    <>
      <div class="when number quiet">
        {!event && <time dateTime={last.time}>{moment(ms, now(), { withSeconds: true })}</time>}
      </div>
      <div class={`sign ${isDeletion ? 'bad-text' : ''}`}>
        {isSameType && (
          <Link to={{ type: last.type }} title={`Only ${last.type}`} aria-label={`Only ${last.type}`} {...part('type')}>
            {SIGNS[last.type]}
          </Link>
        )}
      </div>
      <div class="what break">
        {place && (
          <Link to={{ collection: place.collection, id: place.id }} title={`Only ${place.text}`} {...part('place')}>
            {place.text}
          </Link>
        )}
        {place && !/^\S/.test(subject.slice(place.text.length)) && ' '}
        <Main row={row} line={line} {...part('main')} />
      </div>
      <div class="actor break">
        {!event && (
          <Link to={{ actor }} title={`Only by ${visible(actor)}`} {...part('actor')}>
            {short(actor, 40)}
          </Link>
        )}
      </div>
      <div class="request">
        {!event && (
          <Link
            to={ofRequest(request)}
            title={`Only request ${visible(requestId)}`}
            class="mono quiet"
            {...part('request')}
          >
            #{short(requestId, 8)}
          </Link>
        )}
      </div>
      <div class="actions">
        <Actions request={request} event={last} subject={subject} mayUndo={!event} part={part} />
      </div>
    </>
  )
}

/** The words of the row. A click opens the event, or unfolds the events of the request. */
function Main({ row, line, ...part }: { readonly row: Row; readonly line: Line; readonly 'data-part': string }) {
  const { place, subject, before, after } = line
  const text = (
    <>
      {subject.slice(place?.text.length ?? 0).trimStart()}{' '}
      {before !== undefined && <span class="quiet">{before} → </span>}
      {after}
    </>
  )
  const { key, request, event = request.events[0] as Event } = row
  if (!row.event && request.events.length > 1) {
    const toggle = (): void => {
      const next = new Set(toggled.value)
      if (!next.delete(key)) next.add(key)
      toggled.value = next
    }
    return (
      <button
        type="button"
        class="plain main"
        aria-expanded={isOpen(row)}
        aria-label={`${subject} ${after ?? ''}`}
        onClick={toggle}
        {...part}
      >
        {text} <span aria-hidden="true">{isOpen(row) ? '▾' : '▸'}</span>
      </button>
    )
  }
  return (
    <Link to={{ event: event.position, with: undefined }} class="main" {...part}>
      {text}
    </Link>
  )
}

function ofRequest({ requestId, events, ms }: RequestEvents): Changes {
  const first = Date.parse((events.at(-1) as Event).time)
  const since = new Date(first - AROUND_MS).toISOString()
  return { requestId, since, until: new Date(ms + AROUND_MS).toISOString() }
}
