import { OBJECT_ID } from '../events/event.ts'

export function collectionPath(collection: string): string {
  return `/api/${encodeSegment(collection)}`
}

/** The path of an item or a single object; `key` is its id as text. */
export function itemPath(collection: string, key: string): string {
  if (key === OBJECT_ID) return collectionPath(collection)
  return `${collectionPath(collection)}/${encodeSegment(key)}`
}

/** Characters that RFC 3986 §3.3 allows in a segment, `:@$,;=`, so that MAC addresses stay readable. */
const READABLE = /%(?:3A|40|24|2C|3B|3D)/g

/** Most names and ids need no escapes. */
const PLAIN = /^[\w-]+$/

function encodeSegment(text: string): string {
  if (PLAIN.test(text)) return text
  if (text === '.' || text === '..') return text.replaceAll('.', '%2E')
  return encodeURIComponent(text).replace(READABLE, (escaped) => decodeURIComponent(escaped))
}
