// What the page shows is in its address: filters, position, selection. So it can be shared, and Back works.

/** @type {Set<() => void>} */
const listeners = new Set()

export const address = {
  /** @param {string} name */
  get(name) {
    return new URLSearchParams(location.search).get(name) ?? undefined
  },

  /**
   * Changes some parameters; undefined and '' remove one.
   * @param {Record<string, string | number | undefined>} changes
   * @param {{ isStep?: boolean }} [options] isStep: Back leads to what was before
   */
  set(changes, { isStep = false } = {}) {
    const parameters = new URLSearchParams(location.search)
    for (const [name, value] of Object.entries(changes)) {
      if (value === undefined || value === '') parameters.delete(name)
      else parameters.set(name, String(value))
    }
    // Older browsers have no `URLSearchParams.size`.
    const text = String(parameters)
    const search = text === '' ? '' : `?${text}`
    if (search === location.search) return
    history[isStep ? 'pushState' : 'replaceState'](null, '', `${location.pathname}${search}`)
  },

  /**
   * Calls when Back or Forward changed the address.
   * @param {() => void} listener
   */
  onBack(listener) {
    listeners.add(listener)
  },
}

window.addEventListener('popstate', () => {
  for (const listener of listeners) listener()
})
