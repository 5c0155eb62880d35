import { isArray, isObject, type JsonObject, type JsonValue, own } from './value.ts'

/** A dotted path. */
export type Path = readonly string[]

/** A backslash makes the dot, comma or backslash after it part of a name; before anything else it stands for itself. */
export function parsePath(text: string): Path {
  return split(text, '.').map((name) => name.replace(/\\([.,\\])/g, '$1'))
}

/** The text that `parsePath` reads as this path. */
export function formatPath(path: Path): string {
  return path.map((name) => name.replace(/[.,]|\\(?=[.,\\]|$)/g, '\\$&')).join('.')
}

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

/** Every value that a path leads to: each element of an array counts, beside the array itself. */
export function valuesAt(item: JsonValue, path: Path): readonly JsonValue[] {
  let reached = withElements(item)
  for (const name of path) {
    if (reached.length === 0) break
    reached = reached.flatMap((value) => {
      const inner = isObject(value) ? own(value, name) : undefined
      return inner === undefined ? [] : withElements(inner)
    })
  }
  return reached
}

function withElements(value: JsonValue): readonly JsonValue[] {
  return isArray(value) ? [value, ...value.flatMap(withElements)] : [value]
}

/** The one value by which an item is sorted: the first that the path leads to. */
export function firstAt(item: JsonValue, path: Path): JsonValue | undefined {
  return valuesAt(item, path)[0]
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

/** Only what is selected, in the item's order; through an array it is selected from each element. */
export function select(item: JsonObject, selection: Selection): JsonObject {
  const selected: Record<string, JsonValue> = {}
  for (const [name, value] of Object.entries(item) as [string, JsonValue][]) {
    const below = selection.get(name)
    const kept = below?.size === 0 ? value : below && selectWithin(value, below)
    if (kept !== undefined) selected[name] = kept
  }
  return selected
}

function selectWithin(value: JsonValue, selection: Selection): JsonValue | undefined {
  if (isArray(value)) {
    return value.flatMap((element) => {
      const kept = isObject(element) ? select(element, selection) : selectWithin(element, selection)
      return kept === undefined ? [] : [kept]
    })
  }
  if (!isObject(value)) return undefined
  const selected = select(value, selection)
  return Object.keys(selected).length > 0 ? selected : undefined
}
