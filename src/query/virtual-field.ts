import type { Path } from '../json/paths.ts'

/** The virtual field of an item that queries may name: when the journal received the item's last event. */
export const RECEIVED = '$received'

export function isReceived(path: Path): boolean {
  return path[0] === RECEIVED
}

/** The text of an item with the virtual field. A member of that name which the item has itself is hidden. */
export function withReceived(text: string, timeMs: number): string {
  const body = text.slice(0, -1)
  return `${body}${body === '{' ? '' : ','}"${RECEIVED}":"${new Date(timeMs).toISOString()}"}`
}
