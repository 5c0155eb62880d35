// The events that the journal's page has read: a part of the journal that grows at both ends, the newest first.
import { computed, effect, signal } from '@preact/signals'
import type { EventPageFilter } from '../../../src/client/index.ts'
import type { JsonObject, JsonValue } from '../../../src/json/value.ts'
import { address, type Changes } from './address.ts'
import { changes, client, epoch, head, health, role } from './app.ts'
import { followLinks } from './link.tsx'
import { calm, isPassing, pause } from './resource.ts'
import { asOf, speed } from './time.ts'
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
  /** Newer events that are not shown yet. */
  readonly waiting: readonly Event[]
  /** There are newer events than those that wait. */
  readonly hasNewer: boolean
  /** Newer events were shown, and were let go as one read on. */
  readonly isCut: boolean
  readonly isRead: boolean
}

const PAGE = 100
const MOST_WAITING = 500
/** Events that are kept; those furthest from what one looks at are let go. */
const MOST = 3000
const LIVE_MS = 1000
const RETRY_MS = 1000
/** The part of a value that is kept, to be shown in a line. */
const BRIEF = { depth: 3, members: 30, characters: 200 }
const EMPTY: List = {
  events: [],
  skipped: new Map(),
  older: undefined,
  waiting: [],
  hasNewer: false,
  isCut: false,
  isRead: false,
}

export const filter = signal<Filter>(filterOfAddress())
/** The position of the event that is open beside the list, and of the one that it is compared with. */
export const opened = signal(openedOfAddress())
/** Counts the times that the list began anew. */
export const beginnings = signal(0)
export const isFiltered = computed(() => Object.keys(filter.value).length > 0)
export const list = signal<List>(EMPTY)
/** Until the page knows which moment it shows. */
export const isReady = signal(address.get('at') === undefined)
export const isReading = signal(false)
/** The reader stopped a search. */
export const isStopped = signal(false)
export const isPaused = signal(false)
export const isAtTop = signal(true)
export const problem = signal<Error>()

/** The filters and the moment that are wanted, and those of the list; undefined: none. */
const wanted = computed(() => (isReady.value && role.value ? JSON.stringify([filter.value, asOf.value]) : undefined))
let known: string | undefined
/** The UUID of the journal that was read. */
let journal: string | undefined
/** Up to this position nothing newer is missing. */
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

/** Changes to the address: filters, and the event that is open. */
/** Shows something else; Back leads to what was before. */
export function go(step: Changes): void {
  address.set(step, { isStep: true })
  showAddress()
}

followLinks(go)

export function showAddress(): void {
  const next = filterOfAddress()
  if (JSON.stringify(next) !== JSON.stringify(filter.peek())) filter.value = next
  const { event, base } = opened.peek() ?? {}
  const open = openedOfAddress()
  if (open?.event !== event || open?.base !== base) opened.value = open
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
    const id = health.peek()?.journal.id
    // A server may have come back with another journal.
    if (problem.peek() || (journal !== undefined && id !== undefined && journal !== id)) known = undefined
    lookForNewer()
  })
  effect(() => {
    void calmChanges.value
    lookForNewer()
  })
  effect(() => {
    const { waiting, hasNewer, isCut } = list.value
    if ((waiting.length > 0 || hasNewer) && !isCut && isAtTop.value && !isPaused.value) showNewer()
  })
}

function lookForNewer(): void {
  const { isRead, isCut, waiting } = list.peek()
  const isLive = asOf.peek() === undefined && isRead && !isCut && waiting.length < MOST_WAITING
  if (isLive && head.peek() > seen) wantsNewer = true
  void work()
}

/** Shows the newest events, and what comes. */
export function showNewer(): void {
  const { events, waiting, hasNewer, isCut } = list.peek()
  isPaused.value = false
  if (hasNewer && !isCut) reload()
  else {
    const kept = [...waiting, ...events]
    const { position: older } = kept[MOST] ?? { position: list.peek().older }
    list.value = { ...list.peek(), events: kept.slice(0, MOST), waiting: [], older, isCut: isCut && hasNewer }
  }
}

/** Shows the newest events, wherever one is. */
export function showNewest(): void {
  isAtTop.value = true
  if (list.peek().isCut) reload()
  else showNewer()
  beginnings.value++
}

function reload(): void {
  known = undefined
  isStopped.value = false
  void work()
}

/** One looks at the last rows. */
export function wantOlder(): void {
  if (list.peek().older === undefined || wantsOlder) return
  wantsOlder = true
  void work()
}

/** One looks at the first rows, and others were before them. */
export function wantNewer(): void {
  if (!list.peek().isCut || wantsNewer) return
  wantsNewer = true
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
  }
  isWorking = false
  isReading.value = false
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
  const read = from === 0 ? undefined : await pageOf({ order: 'desc', ...(from !== undefined && { from }) }, signal)
  const events = read?.events ?? []
  seen = Math.max(read?.position ?? 0, events[0]?.position ?? 0)
  known = own
  journal = events[0]?.journal ?? health.peek()?.journal.id
  wantsOlder = false
  wantsNewer = false
  list.value = { ...EMPTY, events, older: read?.next, isRead: true }
  beginnings.value++
  await skipRest(signal)
}

async function readOlder(signal: AbortSignal): Promise<void> {
  const { older } = list.peek()
  if (older === undefined) return
  const { events, next } = await pageOf({ order: 'desc', from: older }, signal)
  const all = [...list.peek().events, ...events]
  const isCut = all.length > MOST
  const kept = isCut ? all.slice(-MOST) : all
  list.value = { ...list.peek(), events: kept, older: next, ...(isCut && { isCut, hasNewer: true, waiting: [] }) }
  wantsOlder = false
  await skipRest(signal)
}

async function readNewer(signal: AbortSignal): Promise<void> {
  const { events, waiting, isCut } = list.peek()
  const newest = waiting[0] ?? events[0]
  const from = isCut ? (newest?.position ?? 0) + 1 : seen + 1
  const page = await pageOf({ from }, signal)
  const most = asOf.peek() ?? Number.POSITIVE_INFINITY
  const found = page.events.filter(({ position }) => position <= most).reverse()
  const isLast = page.next === undefined || found.length < page.events.length
  if (isLast || !isCut) seen = isLast ? Math.max(page.position, found[0]?.position ?? 0) : (page.next ?? 1) - 1
  const all = [...found, ...waiting]
  const isFull = !isLast && all.length >= MOST_WAITING
  list.value = { ...list.peek(), waiting: all, hasNewer: !isLast }
  if (isCut) showNewer()
  wantsNewer = !isCut && !isLast && !isFull
}

/** An import may have more events than one wants to pass: what its request has besides the last page is skipped. */
async function skipRest(signal: AbortSignal): Promise<void> {
  const { events, older, skipped } = list.peek()
  const last = events.at(-1)
  if (!last || older === undefined || filter.peek().requestId !== undefined) return
  if (events.at(-PAGE)?.requestId !== last.requestId) return
  const [first] = (await client.eventPage({ since: last.time, limit: 1, signal })).events
  if (first?.requestId !== last.requestId || first.position >= last.position) return
  const more = isFiltered.peek() ? Number.POSITIVE_INFINITY : last.position - first.position
  const next = first.position > 1 ? first.position - 1 : undefined
  list.value = { ...list.peek(), older: next, skipped: new Map(skipped).set(last.position, more) }
}

async function pageOf(part: EventPageFilter, signal: AbortSignal) {
  const filters = filter.peek() as EventPageFilter
  const page = await client.eventPage<JsonObject>({ ...filters, limit: PAGE, changes: true, ...part, signal })
  return { ...page, events: page.events.map(brief) }
}

/** An event without the depths of its values, which may be large. */
function brief(event: Event): Event {
  const changes = event.changes?.map((change) => briefValue({ ...change } as JsonObject, BRIEF.depth + 1))
  const item = 'item' in event ? briefValue(event.item, BRIEF.depth) : undefined
  return { ...event, ...(changes && { changes }), ...(item && { item }) } as Event
}

function briefValue(value: JsonValue, depth: number): JsonValue {
  if (typeof value === 'string') return value.slice(0, BRIEF.characters)
  if (typeof value !== 'object' || value === null) return value
  if (depth === 0) return '…'
  if (Array.isArray(value)) return value.slice(0, BRIEF.members).map((one) => briefValue(one, depth - 1))
  const members: Record<string, JsonValue> = {}
  let left = BRIEF.members
  for (const name in value) {
    if (left-- === 0) break
    members[name] = briefValue((value as JsonObject)[name] as JsonValue, depth - 1)
  }
  return members
}
