// Hooks for React, imported from `recollect/react`. React itself comes from the program that imports them.
import { useMemo, useState, useSyncExternalStore } from 'react'
import type { Item } from './collection.ts'
import type { LiveList } from './live-list.ts'
import type { Problem } from './problem.ts'
import type { Query } from './query.ts'

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
  return useList<T, Query<T>>(query)
}

/** An item or a single object, kept up to date while the component is mounted. */
export function useItem<T extends object>(item: Item<T>): LiveItem<T> {
  const { items, position, isLoaded, error } = useList<T, Item<T>>(item)
  return { item: items[0], position, isLoaded, error }
}

interface Source<T extends object, Self> {
  live(): LiveList<T>
  isSame(other: Self): boolean
}

function useList<T extends object, Self extends Source<T, Self>>(given: Self): LiveItems<T> {
  const [kept, keep] = useState(given)
  const isSame = given === kept || given.isSame(kept)
  if (!isSame) keep(given)
  const source = isSame ? kept : given
  const store = useMemo(() => new LiveStore<T>(source), [source])
  return useSyncExternalStore(store.subscribe, store.state, store.state)
}

const NOT_LOADED: LiveItems<never> = { items: [], total: 0, position: 0, isLoaded: false, error: undefined }

/** Has a live list while somebody is subscribed. */
class LiveStore<T extends object> {
  readonly #source: { live(): LiveList<T> }
  #state: LiveItems<T> = NOT_LOADED

  constructor(source: { live(): LiveList<T> }) {
    this.#source = source
  }

  readonly state = (): LiveItems<T> => this.#state

  readonly subscribe = (changed: () => void): (() => void) => {
    const list = this.#source.live()
    let isSubscribed = true
    const set = (state: LiveItems<T>): void => {
      if (!isSubscribed) return
      this.#state = state
      changed()
    }
    const fail = (error: Problem): void => set({ ...this.#state, error })
    list.ready.catch(fail)
    const follow = async (): Promise<void> => {
      for await (const { position } of list) {
        set({ items: list.items, total: list.total, position, isLoaded: true, error: undefined })
      }
    }
    follow().catch(fail)
    return () => {
      isSubscribed = false
      list.close()
    }
  }
}
