// The rows of the journal: requests with what changed in words, and the events of those that are unfolded. One of all the
// controls is a tab stop; arrow keys lead to the others.
import { computed, effect, signal } from '@preact/signals'
import { defaultRangeExtractor } from '@tanstack/virtual-core'
import type { RefObject } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { now } from './app.ts'
import { counted, moment, short, visible } from './format.ts'
import { beginnings, filter, hasRoom, isAtTop, list, opened, wantNewer, wantOlder } from './journal-list.ts'
import { Link } from './link.tsx'
import { names } from './names.ts'
import { Actions, timesOf } from './undo.tsx'
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

/** The height of a row, until it is measured. Always the same: one that has it is not known to be measured. */
const ROW_PIXELS = 36
const MAIN = '[data-part=main]'
/** An end of the list is so near that one is at it. */
const END_PIXELS = 4
/** The next events are read when so few rows are left. */
const NEAR_ROWS = 10
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
  ItemsExpired: '⌛',
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
    const head = { key: `request ${request.events[0]?.position}`, request }
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

function toggle({ key }: Row): void {
  const next = new Set(toggled.value)
  if (!next.delete(key)) next.add(key)
  toggled.value = next
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
  const place = useRef<HTMLElement>(null) as RefObject<HTMLElement>
  const all = rows.value
  const at = all.findIndex(({ key }) => key === active.value.key)
  const { isCut, older } = list.value
  const virtual = useVirtualRows(place, {
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
  const { rows: shown, height, virtualizer } = virtual
  const hadFocus = place.current?.contains(document.activeElement)
  useLayoutEffect(() => {
    const { startIndex = 0, endIndex = 0 } = virtualizer.range ?? {}
    const { scrollDirection } = virtualizer
    // Where few rows stand for many events, both ends are near: the list must not go to and fro by itself.
    if (endIndex >= all.length - NEAR_ROWS && (hasRoom.value || scrollDirection === 'forward')) wantOlder()
    if (startIndex < NEAR_ROWS && scrollDirection === 'backward') wantNewer()
    scroller = virtualizer
    // A row that Preact moves within the document loses the focus.
    if (hadFocus && document.activeElement === document.body) wantsFocus = true
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
    <section
      id="list"
      class="list"
      aria-label="Changes, the newest first"
      ref={place}
      onFocusIn={remember}
      onKeyDown={move}
      onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
        isAtTop.value = scrollTop < END_PIXELS
        // Who is at an end cannot scroll further: a slow browser may have drawn nothing on the way there.
        if (isAtTop.value) wantNewer()
        else if (scrollTop + clientHeight > scrollHeight - END_PIXELS) wantOlder()
      }}
    >
      <ol style={{ height: `${height}px` }}>
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
    </section>
  )
}

function remember({ target }: FocusEvent): void {
  const { part } = (target as HTMLElement).dataset
  const { key } = (target as HTMLElement).closest('li')?.dataset ?? {}
  if (part !== undefined && key !== undefined) active.value = { key, part }
}

/**
 * Down, up, by a page, to the first and the last row; left and right within a row. The browser would scroll smoothly by
 * these keys, which ends half way when rows on the way turn out to be higher than it was estimated.
 */
function move(event: KeyboardEvent): void {
  const { key } = event
  const target = event.target as HTMLElement
  const row = target.closest('li')
  const { startIndex = 0, endIndex = 0 } = scroller?.range ?? {}
  const at = Number(row?.dataset.index ?? startIndex)
  const page = Math.max(1, endIndex - startIndex - 1)
  const last = rows.peek().length - 1
  const to = {
    ...{ ArrowDown: at + 1, PageDown: at + page, End: last },
    ...{ ArrowUp: at - 1, PageUp: at - page, Home: 0 },
  }[key]
  const by = { ArrowRight: 1, ArrowLeft: -1 }[key]
  if (to === undefined && by === undefined) return
  event.preventDefault()
  if (to !== undefined) {
    const next = Math.max(0, Math.min(last, to))
    wantsFocus = true
    scroller?.scrollToIndex(next)
    active.value = { part: active.peek().part, key: rows.peek()[next]?.key ?? '' }
  } else {
    const controls = [...(row?.querySelectorAll<HTMLElement>('[data-part]') ?? [])]
    controls[controls.indexOf(target) + (by ?? 0)]?.focus()
  }
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
  const { actor, ms, requestId, events } = request
  const shown = event ? [event] : events
  const last = shown[0] as Event
  const ofRequest = { requestId, ...timesOf(events.at(-1) as Event, last) }
  const part = (name: string) => ({ 'data-part': name, tabIndex: name === tabPart ? 0 : -1 })
  if (skipped !== undefined) {
    return (
      <div class="what quiet">
        {Number.isFinite(skipped) ? counted(skipped, 'more event') : 'More events'} of this request:{' '}
        <Link to={ofRequest} {...part('main')}>
          show them all
        </Link>
      </div>
    )
  }
  const line = lineOf(event ? { ...request, events: shown, skipped: 0 } : request, event ? undefined : names.value)
  const { place, subject, isDeletion } = line
  return (
    <>
      <div class="when number quiet">
        {!event && <time dateTime={last.time}>{moment(ms, now(), { withSeconds: true })}</time>}
      </div>
      <div class={`sign ${isDeletion ? 'bad-text' : ''}`}>
        {shown.every(({ type }) => type === last.type) && (
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
          <Link to={ofRequest} title={`Only request ${visible(requestId)}`} class="mono quiet" {...part('request')}>
            #{short(requestId, 8)}
          </Link>
        )}
      </div>
      <div class="actions">
        <Actions event={last} subject={subject} mayUndo={!event} part={part} />
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
  const { request, event = request.events[0] as Event } = row
  if (row.event || request.events.length === 1) {
    return (
      <Link to={{ event: event.position, with: undefined }} class="main" {...part}>
        {text}
      </Link>
    )
  }
  return (
    <button type="button" class="plain main" aria-expanded={isOpen(row)} onClick={() => toggle(row)} {...part}>
      {text} <span aria-hidden="true">{isOpen(row) ? '▾' : '▸'}</span>
    </button>
  )
}
