import { isArray, isObject, type JsonObject, type JsonValue, own } from './value.ts'

/** The names of a dotted path. */
export type Path = readonly string[]

/** Splits at dots. A backslash escapes a dot, comma or backslash; before others it is an ordinary character. */
export function parsePath(text: string): Path {
  return split(text, '.').map((name) => name.replace(/\\([.,\\])/g, '$1'))
}

/** The inverse of `parsePath`. */
export function formatPath(path: Path): string {
  return path.map((name) => (SPECIAL.test(name) ? name.replace(/[.,]|\\(?=[.,\\]|$)/g, '\\$&') : name)).join('.')
}

const SPECIAL = /[.,\\]/

/** Splits a list of paths or sorts at commas, without empty pieces. Escapes are kept. */
export function splitList(text: string): string[] {
  return split(text, ',').filter((piece) => piece !== '')
}

/** Splits at separators that have no backslash in front. */
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

/** Every value at a path. Of an array these are the array, then those of each element. */
export function valuesAt(item: JsonValue, path: Path): readonly JsonValue[] {
  const found: JsonValue[] = []
  collect(item, path, 0, found)
  return found
}

/** Adds the values that the names of a path from `begin` on lead to. */
function collect(from: JsonValue, path: Path, begin: number, found: JsonValue[]): void {
  let value: JsonValue | undefined = from
  let depth = begin
  while (depth < path.length && isObject(value)) value = own(value, path[depth++] as string)
  if (depth === path.length && value !== undefined) found.push(value)
  if (isArray(value)) for (const element of value) collect(element, path, depth, found)
}

/** The first value at a path, by which items are sorted. Of an array at the path, the array itself. */
export function firstAt(item: JsonValue, path: Path): JsonValue | undefined {
  return valuesAt(item, path)[0]
}

/** The members to keep, each with the selection inside it. An empty selection keeps everything. */
export interface Selection extends ReadonlyMap<string, Selection> {}

/** If one path is a prefix of another, everything at the shorter one is kept. */
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

/** Copies the selected members, in the item's order. A selection inside an array applies to each element. */
export function select(item: JsonObject, selection: Selection): JsonObject {
  const selected: Record<string, JsonValue> = {}
  for (const name of Object.keys(item)) {
    const below = selection.get(name)
    if (!below) continue
    const value = item[name] as JsonValue
    const kept = below.size === 0 ? value : selectWithin(value, below)
    if (kept !== undefined) selected[name] = kept
  }
  return selected
}

function selectWithin(value: JsonValue, selection: Selection): JsonValue | undefined {
  if (isArray(value)) {
    const kept: JsonValue[] = []
    for (const element of value) {
      if (isObject(element)) kept.push(select(element, selection))
      else if (isArray(element)) kept.push(selectWithin(element, selection) as JsonValue)
    }
    return kept
  }
  if (!isObject(value)) return undefined
  const selected = select(value, selection)
  return Object.keys(selected).length > 0 ? selected : undefined
}
