// Drafts: text of an editor that is not saved yet, kept in the tab's session storage, so that it survives a reload.

import { kept } from './base.ts'

const KEPT = `${kept('draft')} `

interface Draft {
  /** How the item is to be changed. */
  readonly kind: string
  readonly text: string
  /** The tag of the item that was to be changed. */
  readonly etag: string | undefined
}

/** The draft of what the names identify. */
export function draftOf(...names: readonly (string | null)[]) {
  const name = KEPT + JSON.stringify(names)
  return {
    read: (): Draft | undefined => JSON.parse(sessionStorage.getItem(name) ?? 'null') ?? undefined,
    write: (draft: Draft): void => sessionStorage.setItem(name, JSON.stringify(draft)),
    remove: (): void => sessionStorage.removeItem(name),
  }
}

/** Removes all drafts. */
export function removeDrafts(): void {
  for (const name of Object.keys(sessionStorage)) if (name.startsWith(KEPT)) sessionStorage.removeItem(name)
}
