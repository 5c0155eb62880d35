// Hooks for React, imported from `recollect/react`. React itself comes from the program that imports them.
import { useEffect, useMemo, useRef, useSyncExternalStore } from 'react'
import type { Item } from './collection.ts'
import type { LiveList } from './live-list.ts'
import { Problem, problem } from './problem.ts'
import type { Query, Server } from './query.ts'

/** The state of a live list. */
export interface LiveItems<T> {
  /** In order; empty until the list is loaded. */
  readonly items: readonly T[]
  /** Number of matching items on all pages. */
  readonly total: number
  /** For `ifUnchangedSince`: the items are those at this position. */
  readonly position: number
  readonly isLoaded: boolean
  /** Why the list is not loaded, or has ended. */
  readonly error: Problem | undefined
}

export interface LiveItem<T> extends Omit<LiveItems<T>, 'items' | 'total'> {
  /** Undefined until it is loaded, and while it does not exist. */
  readonly item: T | undefined
}

/** The items of a query, kept up to date while the component is mounted. The query may be a new one, with the same parts, at each rendering. */
export function useLive<T extends object>(query: Query<T>): LiveItems<T> {
  return useList<T>(query)
}

/** An item or a single object, kept up to date while the component is mounted. */
export function useItem<T extends object>(item: Item<T>): LiveItem<T> {
  const { items, position, isLoaded, error } = useList<T>(item)
  return { item: items[0], position, isLoaded, error }
}

interface Source<T extends object> {
  live(): LiveList<T>
  /** The same for a query with the same parts. */
  readonly identity: readonly [Server, string]
}

function useList<T extends object>(source: Source<T>): LiveItems<T> {
  const [server, key] = source.identity
  const last = useRef<LiveStore<T>>(undefined)
  // biome-ignore lint/correctness/useExhaustiveDependencies: a query with the same parts continues the list
  const store = useMemo(() => new LiveStore<T>(source, last.current), [server, key])
  const state = useSyncExternalStore(store.subscribe, store.state, store.state)
  useEffect(() => {
    last.current = store
    store.shown(state)
  }, [store, state])
  return state
}

const NOT_LOADED: LiveItems<never> = { items: [], total: 0, position: 0, isLoaded: false, error: undefined }

/** Whether there are items, or the reason why there are none. */
function hasCome({ isLoaded, error }: LiveItems<unknown>): boolean {
  return isLoaded || error !== undefined
}

/** After so many lists that were loaded and never shown, their queries must be new ones because the lists are loaded. */
const MOST_UNSEEN = 10

/** Has a live list while somebody is subscribed. */
class LiveStore<T extends object> {
  readonly #source: Source<T>
  /** An object of its own, as React ignores a new list that has the state of the last one. */
  #state: LiveItems<T> = { ...NOT_LOADED }
  #isShown = false
  /** The number of lists in a row, before this one, that were loaded and never shown. */
  readonly #unseen: number

  constructor(source: Source<T>, last: LiveStore<T> | undefined) {
    this.#source = source
    this.#unseen = last && hasCome(last.#state) && !last.#isShown ? last.#unseen + 1 : 0
    // It is shown at once, as the query would be another one by the next rendering.
    if (this.#isUnsteady) this.#state = { ...NOT_LOADED, error: problem('Invalid', 400, UNSTEADY) }
  }

  get #isUnsteady(): boolean {
    return this.#unseen >= MOST_UNSEEN
  }

  readonly state = (): LiveItems<T> => this.#state

  /** The component shows this state. */
  shown(state: LiveItems<T>): void {
    if (hasCome(state)) this.#isShown = true
  }

  readonly subscribe = (changed: () => void): (() => void) => {
    if (this.#isUnsteady) return () => {}
    let isSubscribed = true
    const set = (state: LiveItems<T>): void => {
      if (!isSubscribed) return
      this.#state = state
      changed()
    }
    const fail = (error: unknown): void => set({ ...this.#state, error: problemFor(error) })
    let list: LiveList<T> | undefined
    // `live` may throw, and an error that is thrown in an effect would take down the whole page.
    const follow = async (): Promise<void> => {
      list = this.#source.live()
      list.ready.catch(fail)
      for await (const { position } of list)
        set({ items: list.items, total: list.total, position, isLoaded: true, error: undefined })
    }
    follow().catch(fail)
    return () => {
      isSubscribed = false
      list?.close()
    }
  }
}

function problemFor(error: unknown): Problem {
  return error instanceof Problem ? error : problem('Invalid', 400, (error as Error).message)
}

const UNSTEADY =
  'The query is another one at each rendering, so its items are never shown: take the client, and values such as the time, from outside the component, from its state or from useMemo.'
