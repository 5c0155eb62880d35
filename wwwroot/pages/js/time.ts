// Which moment a page shows, now or one of the past, and how it plays.
import { batch, computed, signal } from '@preact/signals'
import { Problem } from '../../../src/client/index.ts'
import { address } from './address.ts'
import { client, head, now } from './app.ts'

export interface Moment {
  /** The position of the last event that had happened. */
  readonly position: number
  /** In milliseconds since 1970. */
  readonly ms: number
}

/** A part of time, in milliseconds since 1970. */
export interface Span {
  readonly from: number
  readonly to: number
}

/** Undefined: the present. */
export const at = signal<Moment>()
/** For `asOf`: the position of the moment that is shown. */
export const asOf = computed(() => at.value?.position)
/** How many times as fast it plays. */
export const speed = signal<number>()
/** Whether the moment in the address, if there is one, has been found: before that nothing is read. */
export const isMomentKnown = signal(address.get('at') === undefined)
/** Why the address names no moment. */
export const addressProblem = signal<string>()

const SECONDS = 20
const FRAME_MS = 250
/** Moments that one drags over are read so often. */
const FIND_MS = 100
const INSTANT = /^\d{4}-\d\d-\d\d(T|$)/
const MINUTE = 60_000
/** Shorter times are played by the positions of their events: of an import all have the same millisecond. */
const LEAST_MS = 2000

/** The present, and what comes. */
export function showNow(): void {
  wanted = undefined
  speed.value = undefined
  show(undefined)
}

export function show(moment: Moment | undefined): void {
  if (moment?.position === at.peek()?.position && moment?.ms === at.peek()?.ms) return
  at.value = moment
  address.set({ at: moment?.position })
}

/** The moment to show, while its time or position is asked for. */
let wanted: { readonly position: number } | { readonly ms: number } | undefined
const findWanted = calmly(async () => {
  const own = wanted
  if (!own) return
  const moment =
    'ms' in own
      ? { position: await positionAt(own.ms), ms: own.ms }
      : { position: own.position, ms: await timeOf(own.position) }
  // Meanwhile another one may be wanted.
  if (wanted !== own) return
  wanted = undefined
  show(moment)
}, FIND_MS)

function find(one: typeof wanted): void {
  wanted = one
  findWanted()
}

/** The state right after an event. That of the last one is the present. */
export function showPosition(position: number): void {
  if (position >= head.value && position > 0) showNow()
  else find({ position: Math.max(0, position) })
}

/** The moment after so many more events, or before them. */
export function step(events: number): void {
  const from = wanted && 'position' in wanted ? wanted.position : (at.value?.position ?? head.value)
  showPosition(from + events)
}

/** The time that is shown, in milliseconds since 1970. */
export function here(): number {
  return at.peek()?.ms ?? now()
}

/** The moment so many milliseconds later, or earlier. */
export function stepTime(ms: number): void {
  showTime((wanted && 'ms' in wanted ? wanted.ms : here()) + ms)
}

/** The state at a time, in milliseconds since 1970. A time to come is the present. */
export function showTime(ms: number): void {
  if (ms >= now()) showNow()
  else find({ ms })
}

/** The position of the last event up to a time. */
async function positionAt(ms: number): Promise<number> {
  const { events } = await client.eventPage({ until: new Date(ms), order: 'desc', limit: 1 })
  return events[0]?.position ?? 0
}

/** When the event at a position happened; of position 0, the time of the first one. */
export async function timeOf(position: number): Promise<number> {
  const { events } = await client.eventPage({ from: Math.max(1, position), limit: 1 })
  return events[0] ? Date.parse(events[0].time) : now()
}

/** Shows what the address says: a position or a time. */
export async function readAddress(): Promise<void> {
  const text = address.get('at')
  addressProblem.value = undefined
  if (text === undefined) return showNow()
  try {
    const isPosition = /^\d+$/.test(text)
    if (isPosition ? Number(text) > head.value : !INSTANT.test(text)) throw new RangeError()
    const ms = isPosition ? await timeOf(Number(text)) : Date.parse(text)
    if (!(ms <= now())) throw new RangeError()
    show({ position: isPosition ? Number(text) : await positionAt(ms), ms })
    isMomentKnown.value = true
  } catch (error) {
    if (!(error instanceof RangeError) && !(error instanceof Problem && error.status === 400)) throw error
    const right = `a position up to ${head.value}, or a time such as ${new Date(now() - 3.6e6).toISOString()}`
    addressProblem.value = `at=${text} in the address is not a moment of the past: use ${right}. This is the present.`
    showNow()
    isMomentKnown.value = true
  }
}

export function pausePlaying(): void {
  speed.value = undefined
}

/** Plays a time in 20 seconds, from the moment that is shown if it is a part of it. */
export async function play({ from, to }: Span): Promise<void> {
  const start = at.value && at.value.ms > from && at.value.ms < to ? at.value.ms : from
  const leadsToNow = to >= now() - MINUTE
  const rate = Math.max(1, Math.round((to - from) / (1000 * SECONDS)))
  const isByPosition = to - from < LEAST_MS
  const first = isByPosition ? await positionAt(from - 1) : 0
  const last = isByPosition ? await positionAt(to) : 0
  speed.value = rate
  const began = performance.now()
  // Somebody else may have begun to play, or shown another moment.
  const isMine = startedPlaying()
  while (isMine()) {
    const passed = performance.now() - began
    if (isByPosition) {
      const position = first + Math.floor((last - first) * Math.min(1, passed / (1000 * SECONDS)))
      show({ position, ms: from })
      if (position >= last) break
    } else {
      const ms = start + passed * rate
      if (ms >= to) break
      const position = await positionAt(ms)
      if (isMine()) show({ position, ms })
    }
    await new Promise((resolve) => setTimeout(resolve, FRAME_MS))
  }
  if (!isMine()) return
  batch(() => {
    speed.value = undefined
    if (leadsToNow) showNow()
  })
}

let playing = 0

function startedPlaying(): () => boolean {
  const own = ++playing
  return () => own === playing && speed.peek() !== undefined
}

/** Calls at most once in an interval, the last time after the last call. One call runs at a time. */
function calmly(work: () => void | Promise<void>, ms: number): () => void {
  let wanted = false
  let isRunning = false
  const run = async (): Promise<void> => {
    isRunning = true
    while (wanted) {
      wanted = false
      try {
        await work()
      } catch (error) {
        console.error(error)
      }
      await new Promise((resolve) => setTimeout(resolve, ms))
    }
    isRunning = false
  }
  return () => {
    wanted = true
    if (!isRunning) void run()
  }
}
