import type { Steps } from '../steps.ts'
import { isArray, isObject, type JsonObject, type JsonValue, own } from './value.ts'

/** A dotted path. */
export type Path = readonly string[]

/** A backslash makes the dot, comma or backslash after it part of a name; before anything else it stands for itself. */
export function parsePath(text: string): Path {
  return split(text, '.').map((name) => name.replace(/\\([.,\\])/g, '$1'))
}

/** The text that `parsePath` reads as this path. */
export function formatPath(path: Path): string {
  return path.map((name) => (SPECIAL.test(name) ? name.replace(/[.,]|\\(?=[.,\\]|$)/g, '\\$&') : name)).join('.')
}

const SPECIAL = /[.,\\]/

/** The pieces of a list of paths or sorts, empty ones left out; each is as it was written. */
export function splitList(text: string): string[] {
  return split(text, ',').filter((piece) => piece !== '')
}

/** At each separator that has no backslash before it. */
function split(text: string, separator: '.' | ','): string[] {
  if (!text.includes('\\')) return text.split(separator)
  const pieces: string[] = []
  let from = 0
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '\\' && /[.,\\]/.test(text[at + 1] ?? '')) at++
    else if (text[at] === separator) {
      pieces.push(text.slice(from, at))
      from = at + 1
    }
  }
  return [...pieces, text.slice(from)]
}

/** Values that are looked at between two times that `valuesAt` pauses. */
export const PAUSE = 4096

interface OpenArray {
  readonly elements: readonly JsonValue[]
  next: number
  /** How many names of the path led to it. */
  readonly depth: number
}

/**
 * Every value that a path leads to: each element of an array counts, after the array itself. Each value is looked at
 * once, whatever its nesting. From time to time it yields undefined, so that its caller can yield to the event loop.
 */
export function* valuesAt(item: JsonValue, path: Path): Generator<JsonValue | undefined, void> {
  const open: OpenArray[] = []
  let value: JsonValue | undefined = item
  let depth = 0
  for (let looked = 1; ; looked++) {
    if (looked % PAUSE === 0) yield undefined
    while (depth < path.length && isObject(value)) value = own(value, path[depth++] as string)
    if (depth === path.length && value !== undefined) yield value
    if (isArray(value)) open.push({ elements: value, next: 0, depth })
    let innermost = open.at(-1)
    while (innermost && innermost.next === innermost.elements.length) {
      open.pop()
      innermost = open.at(-1)
    }
    if (!innermost) return
    value = innermost.elements[innermost.next++]
    depth = innermost.depth
  }
}

/** Says that an array is on a path, so that it may lead to several values. */
export const MANY = Symbol('many')

/** The one value at a path that no array is on, MANY where there is one: it costs less than `valuesAt`. */
export function plainAt(item: JsonValue, path: Path): JsonValue | undefined | typeof MANY {
  let at: JsonValue | undefined = item
  for (const name of path) {
    if (isArray(at)) return MANY
    at = isObject(at) ? own(at, name) : undefined
    if (at === undefined) return undefined
  }
  return isArray(at) ? MANY : at
}

/** The one value by which an item is sorted: the first that the path leads to. */
export function firstAt(item: JsonValue, path: Path): JsonValue | undefined {
  for (const value of valuesAt(item, path)) if (value !== undefined) return value
  return undefined
}

/** The members to keep, each with what to keep of it; of those without any, all is kept. */
export interface Selection extends ReadonlyMap<string, Selection> {}

/** A path that ends where another goes on keeps all that is there. */
export function selectionOf(paths: readonly Path[]): Selection {
  interface Growing extends Map<string, Growing> {}
  const root: Growing = new Map()
  const whole = new Set<Growing>()
  for (const path of paths) {
    let at = root
    for (const name of path) {
      const below = at.get(name) ?? new Map()
      at.set(name, below)
      at = below
    }
    whole.add(at)
  }
  for (const selection of whole) selection.clear()
  return root
}

/** Values that are looked at in a step. */
const STEP = 1024

/** Only what is selected, in the item's order; through an array it is selected from each element. */
export function* select(item: JsonObject, selection: Selection, work = { looked: 0 }): Steps<JsonObject> {
  const selected: Record<string, JsonValue> = {}
  for (const name of Object.keys(item)) {
    if (++work.looked % STEP === 0) yield
    const below = selection.get(name)
    if (!below) continue
    const value = item[name] as JsonValue
    const kept = below.size === 0 ? value : yield* selectWithin(value, below, work)
    if (kept !== undefined) selected[name] = kept
  }
  return selected
}

function* selectWithin(value: JsonValue, selection: Selection, work: { looked: number }): Steps<JsonValue | undefined> {
  if (isArray(value)) {
    const kept: JsonValue[] = []
    for (const element of value) {
      if (++work.looked % STEP === 0) yield
      if (isObject(element)) kept.push(yield* select(element, selection, work))
      else if (isArray(element)) kept.push((yield* selectWithin(element, selection, work)) as JsonValue)
    }
    return kept
  }
  if (!isObject(value)) return undefined
  const selected = yield* select(value, selection, work)
  return Object.keys(selected).length > 0 ? selected : undefined
}
