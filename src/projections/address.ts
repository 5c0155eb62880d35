import { OBJECT_ID } from '../events/event.ts'

/** Where a collection is served. */
export function collectionPath(collection: string): string {
  return `/api/${encodeSegment(collection)}`
}

/** Where an item is served, or a single object; `key` is its id as text. */
export function itemPath(collection: string, key: string): string {
  if (key === OBJECT_ID) return collectionPath(collection)
  return `${collectionPath(collection)}/${encodeSegment(key)}`
}

/** RFC 3986 §3.3 lets these stand in a segment as they are; a MAC address stays readable. */
const READABLE: Readonly<Record<string, string>> = {
  '%3A': ':',
  '%40': '@',
  '%24': '$',
  '%2C': ',',
  '%3B': ';',
  '%3D': '=',
}

/** Needs no escape; most names and ids are like this. */
const PLAIN = /^[\w-]+$/

function encodeSegment(text: string): string {
  if (PLAIN.test(text)) return text
  if (text === '.' || text === '..') return text.replaceAll('.', '%2E')
  return encodeURIComponent(text).replace(/%(?:3A|40|24|2C|3B|3D)/g, (escaped) => READABLE[escaped] ?? escaped)
}
