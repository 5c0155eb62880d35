// The connection of a page to its server, as signals: who one is, whether all is live, and where the journal ends.
import { batch, computed, signal, untracked } from '@preact/signals'
import {
  type Credentials,
  connect,
  type Health,
  Problem,
  type Recollect,
  Unreachable,
  type Updated,
} from '../../../src/client/index.ts'
import { base, kept } from './base.ts'
import { removeDrafts } from './drafts.ts'

/** `gone`: the server cannot be reached. `refused`: it requires other credentials. */
export type State = 'connecting' | 'live' | 'gone' | 'refused'
type Role = 'reader' | 'writer' | 'admin'

const KEPT = kept('session')
const GONE_MS = 1500
const RETRY_MS = 1000
/** The time of a replay is asked for so often. */
const REPLAY_MS = 5000
/** A collection that does not exist: its live list tells nothing but how far the server is. */
const NOTHING = 'recollect.position'
const ROLES: readonly Role[] = ['reader', 'writer', 'admin']

export let client = connectAs()
export const state = signal<State>('connecting')
export const health = signal<Health>()
/** The position of the last event that is known of. */
export const head = signal(0)
/** Counts what the server told of: what is shown of the present is read again. */
export const changes = signal(0)
/** Changes while there was no connection, the last time there was none. */
export const caughtUp = signal<number>()
/** Counts the times after which everything has to be read again: a reconnection, other credentials. */
export const epoch = signal(0)
/** Undefined: not known yet. */
export const role = computed(() => health.value?.access.role)
export const isReplay = computed(() => health.value?.replay !== undefined)

const listeners = new Set<(updated: Updated) => void>()
let isOpen = false
/** The journal and its end when the connection was lost. */
let lost: { readonly head: number; readonly journal: string } | undefined
/** The time that a replay showed when /health was read, in milliseconds since 1970, and when that was. */
let replayed: { readonly ms: number; readonly readAt: number } | undefined

/** The present in milliseconds since 1970; on a replay the time that it shows, which passes at its speed until its end. */
export function now(): number {
  const { replay } = health.peek() ?? {}
  if (!replay || !replayed) return Date.now()
  return untracked(isReplayOver) ? replayed.ms : replayed.ms + (Date.now() - replayed.readAt) * replay.speed
}

export function isReplayOver(): boolean {
  return head.value >= (health.value?.replay?.until ?? Number.POSITIVE_INFINITY)
}

export function may(wanted: Role): boolean {
  return !health.value?.readOnly && !!role.value && ROLES.indexOf(role.value) >= ROLES.indexOf(wanted)
}

/** Calls back for each event while connected. */
export function onUpdated(listener: (updated: Updated) => void): void {
  listeners.add(listener)
}

export async function start(): Promise<void> {
  await retryHealth(() => true)
  if (isReplay.value) setInterval(() => void readHealth().catch(() => {}), REPLAY_MS)
  const { idField = 'id', access } = health.value ?? {}
  if (idField !== 'id') client = connectAs(idField)
  if (access?.role === null && access.schemes.length > 0) become('refused')
  else open()
}

/** Returns whether the server accepts the credentials. */
export async function signIn(scheme: 'token' | 'basic' | 'apikey', credentials: Credentials): Promise<boolean> {
  let used = credentials
  if (scheme === 'token') {
    const response = await client.request('POST', '/token', { body: credentials, isOpen: true })
    used = { token: (response.json() as { access_token: string }).access_token }
  }
  const before = keptCredentials()
  use(used)
  await readHealth()
  if (role.value === null) {
    use(before)
    await readHealth()
    return false
  }
  open()
  epoch.value++
  return true
}

export async function signOut(): Promise<void> {
  const { token } = keptCredentials()
  if (token !== undefined) await client.request('POST', '/logout').catch(() => {})
  use({})
  removeDrafts()
  await readHealth().catch(() => {})
  become('refused')
  epoch.value++
}

/** The state of the server. */
export async function readHealth(): Promise<Health> {
  const read = await client.health()
  if (!read.access) throw new Problem({ status: 503 })
  batch(() => {
    if (read.journal.id !== health.value?.journal.id) head.value = 0
    health.value = read
    know(read.position)
  })
  replayed = read.replay && { ms: Date.parse(read.replay.time), readAt: Date.now() }
  return read
}

export function know(position: number): void {
  if (position > head.value) head.value = position
}

/** Browsers send nothing of their own: after a 401 they would ask for a name and password themselves. */
function connectAs(idField = 'id'): Recollect {
  return connect(base, { ...keptCredentials(), idField, browserCredentials: 'omit', fetch: fetchOnce })
}

/** Takes an answer that was asked for early, once: after the connection it would be old. */
async function fetchOnce(url: string, init: RequestInit): Promise<Response> {
  const answer = globalThis.early?.get(url)
  globalThis.early?.delete(url)
  return (await answer) ?? fetch(url, init)
}

function keptCredentials(): Credentials {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT) ?? '{}')
  } catch {
    return {}
  }
}

function use(credentials: Credentials): void {
  client.authenticate(credentials)
  try {
    sessionStorage.setItem(KEPT, JSON.stringify(credentials))
  } catch {
    // Without storage one is signed in until the next page.
  }
}

function become(next: State): void {
  batch(() => {
    if (next !== 'live') caughtUp.value = undefined
    if (next !== 'live' && state.value === 'live') {
      lost = { head: head.value, journal: health.value?.journal.id ?? '' }
    }
    state.value = next
  })
}

function open(): void {
  become('connecting')
  lost = undefined
  if (isOpen) return
  isOpen = true
  const nothing = client.collection(NOTHING).live()
  nothing.ready.catch(() => {})
  client.onState(({ state: next }) => {
    if (next === 'connected') void connected(nothing.position)
    else if (next === 'refused') void refused()
    else if (next === 'disconnected' && state.value === 'live') become('gone')
    else if (next === 'disconnected') setTimeout(mayBeGone, GONE_MS)
  })
  client.onUpdated((updated) => {
    batch(() => {
      know(updated.position)
      changes.value++
    })
    for (const listener of listeners) listener(updated)
  })
}

/** A sign-in also disconnects for a moment, which is no loss of the connection. */
function mayBeGone(): void {
  if (state.value === 'connecting' && client.state === 'disconnected') become('gone')
}

/** All live lists are up to date again, of which one tells the `position`. */
async function connected(position: number): Promise<void> {
  globalThis.early?.clear()
  const before = head.value
  const wasAvailable = health.value?.status !== 'unavailable'
  if (lost || !wasAvailable) {
    if (!(await retryHealth(() => client.state === 'connected'))) return
  } else know(position)
  batch(() => {
    const missed = lost?.journal === health.value?.journal.id ? head.value - (lost?.head ?? 0) : undefined
    become('live')
    caughtUp.value = missed
    // Changes between the page's first request and its connection were not told either.
    if (lost || !wasAvailable || head.value > before) epoch.value++
  })
}

async function refused(): Promise<void> {
  if (await retryHealth(() => client.state === 'refused')) become('refused')
}

/** Reads /health until the server answers: a busy one responds with 503, a stopped one not at all. */
async function retryHealth(isWanted: () => boolean): Promise<boolean> {
  while (isWanted()) {
    try {
      await readHealth()
      return isWanted()
    } catch (error) {
      if (error instanceof Unreachable) become('gone')
      else if (!(error instanceof Problem)) throw error
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
    }
  }
  return false
}
