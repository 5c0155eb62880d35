import * as CODE from './char-codes.ts'
import { END, JsonTokens } from './tokens.ts'
import { isArray, isObject, type JsonObject, type JsonValue, own } from './value.ts'

/** The names of a dotted path, as clients and settings write it. It leads to several values, through all elements of arrays. */
export type Path = readonly string[]

/** The unescaped tokens of a JSON Pointer (RFC 6901), as errors and patches write it: it leads to one value. */
export type Tokens = readonly (string | number)[]

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
  return firstFrom(item, path, 0)
}

function firstFrom(from: JsonValue, path: Path, begin: number): JsonValue | undefined {
  let value: JsonValue | undefined = from
  let depth = begin
  while (depth < path.length && isObject(value)) value = own(value, path[depth++] as string)
  if (depth === path.length || !isArray(value)) return depth === path.length ? value : undefined
  for (const element of value) {
    const found = firstFrom(element, path, depth)
    if (found !== undefined) return found
  }
  return undefined
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

/** Formats a JSON Pointer. */
export function pointer(tokens: Tokens): string {
  return tokens.map((token) => `/${String(token).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')
}

/** Parses an array index without sign and leading zeros. */
export function arrayIndex(token: string): number | undefined {
  return /^(0|[1-9]\d{0,9})$/.test(token) ? Number(token) : undefined
}

/**
 * The nested value that the remaining segments of a URL name, with the tokens that lead to it, and whether it is an element
 * of an array. In an array whose elements have ids a segment is an id, otherwise an index.
 */
export function pathTo(
  value: JsonValue,
  segments: readonly string[],
  idField: string,
): { readonly value: JsonValue; readonly path: readonly string[]; readonly isElement: boolean } | undefined {
  let current: JsonValue | undefined = value
  let isElement = false
  const path: string[] = []
  for (const segment of segments) {
    isElement = isArray(current)
    const token: string = isArray(current) ? String(indexOfSegment(current, segment, idField)) : segment
    if (isArray(current)) current = current[Number(token)]
    else if (isObject(current)) current = own(current, token)
    else return undefined
    path.push(token)
  }
  return current === undefined ? undefined : { value: current, path, isElement }
}

/** An index is only for an array in which no element has an id: it would name another element after a change of the order. */
function indexOfSegment(array: readonly JsonValue[], segment: string, idField: string): number | undefined {
  let hasIds = false
  for (let index = 0; index < array.length; index++) {
    const element = array[index] as JsonValue
    const id = isObject(element) ? own(element, idField) : undefined
    if (typeof id !== 'string' && typeof id !== 'number') continue
    if (String(id) === segment) return index
    hasIds = true
  }
  return hasIds ? undefined : arrayIndex(segment)
}

/** The tokens that lead to the value at an offset of JSON, which need not be well-formed. */
export function pathAt(json: string, offset: number): Tokens {
  const tokens = new JsonTokens(json)
  /** For each open container, the index of the current element, or the current member's name as JSON. */
  const open: (number | string)[] = []
  let name = ''
  for (let code = tokens.next(); code !== END && tokens.begin < offset; code = tokens.next()) {
    const last = open.length - 1
    const current = open[last]
    if (code === CODE.QUOTE) name = json.slice(tokens.begin, tokens.end)
    else if (code === CODE.OPEN_BRACKET) open.push(0)
    else if (code === CODE.OPEN_BRACE) open.push('')
    else if (code === CODE.CLOSE_BRACKET || code === CODE.CLOSE_BRACE) open.pop()
    else if (code === CODE.COLON && typeof current === 'string') open[last] = name
    else if (code === CODE.COMMA && typeof current === 'number') open[last] = current + 1
  }
  return open.map((token) => (typeof token === 'number' ? token : unquoted(token)))
}

function unquoted(json: string): string {
  try {
    return JSON.parse(json)
  } catch {
    return json
  }
}
