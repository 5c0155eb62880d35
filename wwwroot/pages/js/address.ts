// The address of the page holds what it shows: filters, position, selection. So it can be shared, and Back works.

/** Parameters to set; undefined and '' remove one. */
export type Changes = Readonly<Record<string, string | number | undefined>>

const listeners = new Set<() => void>()

export const address = {
  get(name: string): string | undefined {
    return new URLSearchParams(location.search).get(name) ?? undefined
  },

  /** The search part with these changes. */
  search(changes: Changes): string {
    const parameters = new URLSearchParams(location.search)
    for (const [name, value] of Object.entries(changes)) {
      if (value === undefined || value === '') parameters.delete(name)
      else parameters.set(name, String(value))
    }
    return `?${parameters}`
  },

  /** With `isStep` Back leads to what was before. */
  set(changes: Changes, { isStep = false } = {}): void {
    const search = this.search(changes)
    if (search === (location.search || '?')) return
    const method = isStep ? 'pushState' : 'replaceState'
    history[method](null, '', search === '?' ? location.pathname : location.pathname + search)
  },

  /** Calls when Back or Forward changed the address. */
  onBack(listener: () => void): void {
    listeners.add(listener)
  },
}

window.addEventListener('popstate', () => {
  for (const listener of listeners) listener()
})
