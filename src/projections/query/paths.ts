import { isArray, isObject, type JsonObject, type JsonValue, own } from '../../json/value.ts'

/** A dotted path. */
export type Path = readonly string[]

export function parsePath(text: string): Path {
  return text.split('.')
}

/** Every value that a path leads to: through an array it leads to each element's. */
export function valuesAt(value: JsonValue, path: Path, depth = 0): readonly JsonValue[] {
  if (isArray(value))
    return [...(depth === path.length ? [value] : []), ...value.flatMap((e) => valuesAt(e, path, depth))]
  if (depth === path.length) return [value]
  if (!isObject(value)) return []
  const inner = own(value, path[depth] as string)
  return inner === undefined ? [] : valuesAt(inner, path, depth + 1)
}

/** The one value by which an item is sorted: the first that the path leads to. */
export function firstAt(value: JsonValue, path: Path): JsonValue | undefined {
  return valuesAt(value, path)[0]
}

/** Only what the paths name, in the item's order; dotted paths keep their nesting. */
export function select(item: JsonObject, paths: readonly Path[]): JsonObject {
  const selected: Record<string, JsonValue> = {}
  for (const [name, value] of Object.entries(item) as [string, JsonValue][]) {
    const below = paths.filter(([first]) => first === name).map((path) => path.slice(1))
    if (below.length === 0) continue
    const kept = below.some((path) => path.length === 0) ? value : selectWithin(value, below)
    if (kept !== undefined) selected[name] = kept
  }
  return selected
}

function selectWithin(value: JsonValue, paths: readonly Path[]): JsonValue | undefined {
  if (isArray(value)) return value.filter(isObject).map((element) => select(element, paths))
  if (!isObject(value)) return undefined
  const selected = select(value, paths)
  return Object.keys(selected).length > 0 ? selected : undefined
}
