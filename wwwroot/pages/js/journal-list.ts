// The events that the journal's page has read: a part of the journal that grows at both ends, the newest first.
import { computed, effect, signal } from '@preact/signals'
import type { EventPageFilter } from '../../../src/client/index.ts'
import type { JsonObject } from '../../../src/json/value.ts'
import { address, type Changes } from './address.ts'
import { changes, client, epoch, head, health, role } from './app.ts'
import { followLinks } from './link.tsx'
import { calm, isPassing, pause } from './resource.ts'
import { asOf, isMomentKnown, speed } from './time.ts'
import type { Event } from './words.ts'

export const FILTERS = ['collection', 'id', 'type', 'actor', 'requestId', 'since', 'until'] as const
export type Filter = Partial<Readonly<Record<(typeof FILTERS)[number], string>>>

interface List {
  /** Without gaps, except where `skipped` says so. */
  readonly events: readonly Event[]
  /** By the position of an event, how many events of the same request before it are not read. */
  readonly skipped: ReadonlyMap<number, number>
  /** Where the next older page begins; undefined: there is none. */
  readonly older: number | undefined
  /** How many newer events are not shown yet, up to a page of them. */
  readonly waiting: number
  /** Newer events were shown, and were let go as one read on. */
  readonly isCut: boolean
  readonly isRead: boolean
}

/** The first page is small, to be there soon. */
const FIRST_PAGE = 40
export const PAGE = 100
/** Events that are kept; those furthest from what one looks at are let go. */
const MOST = 3000
const LIVE_MS = 1000
const RETRY_MS = 1000
/** At most so much of a text or an array is kept, as a row shows only its beginning. */
const BRIEF = { elements: 30, characters: 200 }
/** The members of an event that are values of its item. */
const VALUES = ['item', 'changes', 'ids']
const EMPTY: List = { events: [], skipped: new Map(), older: undefined, waiting: 0, isCut: false, isRead: false }

export const filter = signal<Filter>(filterOfAddress())
/** The position of the event that is open beside the list, and of the one that it is compared with. */
export const opened = signal(openedOfAddress())
/** Counts the times that the list began anew. */
export const beginnings = signal(0)
export const isFiltered = computed(() => Object.keys(filter.value).length > 0)
export const list = signal<List>(EMPTY)
/** Older events can be read without letting the newest go. */
export const hasRoom = computed(() => list.value.events.length + PAGE <= MOST)
export const isReading = signal(false)
/** The reader stopped a search. */
export const isStopped = signal(false)
export const isPaused = signal(false)
export const isAtTop = signal(true)
export const problem = signal<Error>()

/**
 * The filters, the moment and the journal of the list that is to be shown; undefined: they are not known yet. After a
 * restart the server may have another journal.
 */
const wanted = computed(() => {
  const isReady = isMomentKnown.value && role.value
  return isReady ? JSON.stringify([filter.value, asOf.value, health.value?.journal.id]) : undefined
})
let known: string | undefined
/** Up to this position no matching event is missing before the list. */
let seen = 0
let wantsOlder = false
let wantsNewer = false
let running: AbortController | undefined
let isWorking = false
const calmChanges = calm(changes, LIVE_MS)

function filterOfAddress(): Filter {
  return Object.fromEntries(FILTERS.flatMap((name) => (address.get(name) ? [[name, address.get(name)]] : [])))
}

function openedOfAddress(): { readonly event: number; readonly base: number | undefined } | undefined {
  const event = Number(address.get('event'))
  return event > 0 ? { event, base: Number(address.get('with')) || undefined } : undefined
}

/** Shows other filters or another event; Back leads to what was before. */
export function go(step: Changes): void {
  address.set(step, { isStep: true })
  showAddress()
}

followLinks(go)

export function showAddress(): void {
  const next = filterOfAddress()
  if (JSON.stringify(next) !== JSON.stringify(filter.peek())) filter.value = next
  opened.value = openedOfAddress()
}

export function startList(): void {
  let before = filter.peek()
  effect(() => {
    if (wanted.value === undefined || filter.value !== before) list.value = EMPTY
    before = filter.value
    // While it plays, each moment is read before the next one.
    if (speed.peek() === undefined) running?.abort()
    isStopped.value = false
    void work()
  })
  effect(() => {
    void epoch.value
    if (problem.peek()) known = undefined
    lookForNewer()
  })
  effect(() => {
    void [calmChanges.value, isAtTop.value, isPaused.value]
    lookForNewer()
  })
}

function lookForNewer(): void {
  const { isRead, isCut, waiting } = list.peek()
  const isLive = asOf.peek() === undefined && isRead && !isCut
  if (isLive && head.peek() > seen && (waiting < PAGE || showsNewer())) wantsNewer = true
  void work()
}

/** Whether newer events are shown as they come, or counted. */
function showsNewer(): boolean {
  return isAtTop.peek() && !isPaused.peek()
}

/** Shows the newest events, wherever one is. */
export function showNewest(): void {
  if (list.peek().isCut) known = undefined
  isStopped.value = false
  isAtTop.value = true
  isPaused.value = false
  beginnings.value++
  void work()
}

/** One looks at the last rows. */
export function wantOlder(): void {
  wantsOlder = true
  void work()
}

/** One looks at the first rows. */
export function wantNewer(): void {
  if (list.peek().isCut) wantsNewer = true
  void work()
}

/** Ends a search that takes long. */
export function stop(): void {
  isStopped.value = true
  running?.abort()
}

export function resume(): void {
  isStopped.value = false
  void work()
}

/** One request at a time; what one wants meanwhile is read after it. */
async function work(): Promise<void> {
  if (isWorking) return
  isWorking = true
  for (let next = nextWork(); next; next = nextWork()) {
    running = new AbortController()
    const { signal } = running
    isReading.value = true
    try {
      await next(signal)
      problem.value = undefined
    } catch (error) {
      if (!signal.aborted) await failed(error as Error)
    }
    isReading.value = false
  }
  isWorking = false
}

function nextWork(): ((signal: AbortSignal) => Promise<void>) | undefined {
  if (wanted.peek() === undefined || isStopped.peek()) return undefined
  if (known !== wanted.peek()) return readFirst
  if (wantsNewer) return readNewer
  return wantsOlder && list.peek().older !== undefined ? readOlder : undefined
}

async function failed(error: Error): Promise<void> {
  if (isPassing(error)) return pause(RETRY_MS)
  problem.value = error
  known = wanted.peek()
  wantsOlder = false
  wantsNewer = false
  list.value = { ...list.peek(), older: undefined, isRead: true }
}

async function readFirst(signal: AbortSignal): Promise<void> {
  const own = wanted.peek()
  const from = asOf.peek()
  const first = { limit: FIRST_PAGE, order: 'desc', ...(from !== undefined && { from }) } as const
  const read = from === 0 ? undefined : await pageOf(first, signal)
  const events = read?.events ?? []
  seen = Math.max(read?.position ?? 0, events[0]?.position ?? 0)
  known = own
  wantsOlder = false
  wantsNewer = false
  list.value = { ...EMPTY, events, older: read?.next, isRead: true }
  beginnings.value++
  await skipRest(signal)
}

async function readOlder(signal: AbortSignal): Promise<void> {
  const { older, events, isCut } = list.peek()
  if (older === undefined) return
  const page = await pageOf({ order: 'desc', from: older }, signal)
  const all = [...events, ...page.events]
  list.value = { ...list.peek(), events: all.slice(-MOST), older: page.next, isCut: isCut || all.length > MOST }
  wantsOlder = false
  await skipRest(signal)
}

/** Shows or counts the events after the newest one of the list. */
async function readNewer(signal: AbortSignal): Promise<void> {
  const { events, older, isCut } = list.peek()
  const from = 1 + (isCut ? (events[0]?.position ?? 0) : seen)
  const page = await pageOf({ from }, signal)
  const most = asOf.peek() ?? Number.POSITIVE_INFINITY
  const found = page.events.filter(({ position }) => position <= most)
  const isLast = page.next === undefined || found.length < page.events.length
  wantsNewer = false
  if (!isCut && found.length > 0 && !showsNewer()) list.value = { ...list.peek(), waiting: found.length }
  else if (!isCut && !isLast) known = undefined
  else {
    const all = [...found.toReversed(), ...events]
    const rest = all[MOST]?.position ?? older
    if (isLast) seen = Math.max(page.position, all[0]?.position ?? 0)
    list.value = { ...list.peek(), events: all.slice(0, MOST), older: rest, isCut: !isLast, waiting: 0 }
  }
}

/** Skips the rest of the last request, such as an import, if it has more events than one wants to pass. */
async function skipRest(signal: AbortSignal): Promise<void> {
  const { events, older, skipped } = list.peek()
  const last = events.at(-1)
  if (!last || older === undefined || filter.peek().requestId !== undefined) return
  if (events.at(-FIRST_PAGE)?.requestId !== last.requestId) return
  const [first] = (await client.eventPage({ since: last.time, limit: 1, signal })).events
  if (first?.requestId !== last.requestId || last.position - first.position < PAGE) return
  const more = isFiltered.peek() ? Number.POSITIVE_INFINITY : last.position - first.position
  const next = first.position > 1 ? first.position - 1 : undefined
  list.value = { ...list.peek(), older: next, skipped: new Map(skipped).set(last.position, more) }
}

async function pageOf(part: EventPageFilter, signal: AbortSignal) {
  const filters = filter.peek() as EventPageFilter
  const page = await client.eventPage<JsonObject>({ ...filters, limit: PAGE, changes: true, ...part, signal })
  return { ...page, events: page.events.map(brief) }
}

/** An event without most of its longest values, which would take much memory. */
function brief(event: Event): Event {
  const values = Object.entries(event).filter(([name]) => VALUES.includes(name))
  const shortened = JSON.parse(JSON.stringify(Object.fromEntries(values)), (_, value) => {
    if (typeof value === 'string') return value.slice(0, BRIEF.characters)
    return Array.isArray(value) ? value.slice(0, BRIEF.elements) : value
  })
  return { ...event, ...shortened }
}
