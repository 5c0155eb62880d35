// Drafts: text of an editor that is not saved yet, kept in the tab's session storage, so that it survives a reload.

/** Several servers may be below paths of one origin, and share its storage. */
const KEPT = `recollect.draft ${new URL('../..', import.meta.url).pathname} `

/**
 * kind: how the item is to be changed; texts: what was typed, by kind; etag: of the item that was to be changed
 * @typedef {{ kind: string, texts: Record<string, string>, etag: string }} Draft
 */

/** @param {readonly (string | null)[]} names what is edited */
export function draftOf(...names) {
  const name = KEPT + JSON.stringify(names)
  return {
    /** @returns {Draft | undefined} */
    read() {
      try {
        return JSON.parse(sessionStorage.getItem(name) ?? 'null') ?? undefined
      } catch {
        return undefined
      }
    },
    /** @param {Draft} draft */
    write(draft) {
      try {
        sessionStorage.setItem(name, JSON.stringify(draft))
      } catch {
        // Without room in the storage the text is in the page alone.
      }
    },
    remove() {
      sessionStorage.removeItem(name)
    },
  }
}

/** Removes all drafts. */
export function removeDrafts() {
  for (const name of Object.keys(sessionStorage)) if (name.startsWith(KEPT)) sessionStorage.removeItem(name)
}
