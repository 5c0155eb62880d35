import { applyJsonPatch, type PatchLimits } from '../json/json-patch.ts'
import { MAX_NESTING, parseText, sizeOf } from '../json/parse.ts'
import { pathTo } from '../json/paths.ts'
import { isArray, isObject, type JsonObject, type JsonValue, own, put } from '../json/value.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Patch } from './command.ts'

/** A value inside an item, by the segments of a URL after the item's. */
interface InnerValue {
  /** As `JSON.stringify` makes it. */
  readonly text: string
  /** The whole item with this value patched. Called once, as it may change the parsed item. */
  patched(patch: Patch, limits: PatchLimits): JsonValue
}

/** @throws {Refusal} `NotFound` when the item has nothing there. */
export function innerValueOf(whole: string, segments: readonly string[], idField: string): InnerValue {
  const document = parseText(whole)
  const found = pathTo(document, segments, idField)
  if (!found) {
    throw new Refusal(
      'NotFound',
      `The item has nothing at ${segments.join('/')}. A PATCH of the object around it adds a member. In an array whose elements have ids a segment is an id.`,
    )
  }
  const { path } = found
  const text = JSON.stringify(found.value)
  const id = found.isElement && isObject(found.value) ? own(found.value, idField) : undefined
  const isById = id !== undefined && String(id) === segments.at(-1)
  return {
    text,
    patched(patch, limits) {
      if (patch.type === 'value') {
        return setValueAt(document, path, isById ? withElementId(patch.value, idField, id) : patch.value)
      }
      const isRemoved =
        patch.type === 'operations' && patch.operations.some(({ op, path }) => op === 'remove' && path.length === 0)
      // Within an array, an operation on the whole value would otherwise insert another element.
      if (!isRemoved) return setValueAt(document, path, applyPatch(patch, text, limits))
      const operations = patch.operations.map((operation) => ({
        ...operation,
        path: [...path, ...operation.path],
        ...('from' in operation && { from: [...path, ...operation.from] }),
      }))
      return applyJsonPatch(whole, operations, limits)
    },
  }
}

/** The value, with the id of the element that it replaces: if the element lost its id, a repeated PUT would replace another. */
function withElementId(value: JsonValue, idField: string, id: JsonValue): JsonValue {
  if (!isObject(value)) return value
  const sent = own(value, idField)
  if (sent === undefined) return { [idField]: id, ...value }
  if (sent === id) return value
  throw new Refusal(
    'Conflict',
    `The id in the body, ${JSON.stringify(sent)}, differs from that of the element, ${JSON.stringify(id)}.`,
  )
}

/** Sets the value at a path, which is there and not empty, in the document itself. */
function setValueAt(document: JsonValue, path: readonly string[], value: JsonValue): JsonValue {
  if (path.length + sizeOf(JSON.stringify(value)).nesting > MAX_NESTING) {
    throw new Refusal('Unprocessable', `The item would be nested deeper than ${MAX_NESTING}.`)
  }
  const last = path.at(-1) as string
  let parent = document
  for (const name of path.slice(0, -1)) parent = (parent as Record<string, JsonValue>)[name] as JsonValue
  if (isArray(parent)) (parent as JsonValue[])[Number(last)] = value
  else put(parent as Record<string, JsonValue>, last, value)
  return document
}

/** The value that a patch makes of a JSON text. */
export function applyPatch(patch: Patch, text: string, limits: PatchLimits): JsonValue {
  if (patch.type === 'value') return patch.value
  if (patch.type === 'merge') return mergePatch(parseText(text), patch.document)
  return applyJsonPatch(text, patch.operations, limits)
}

/** Merge Patch (RFC 7396). Changes the target and not the patch. */
function mergePatch(target: JsonValue | undefined, patch: JsonValue): JsonValue {
  if (!isObject(patch)) return patch
  const merged = (isObject(target) ? target : {}) as Record<string, JsonValue>
  for (const [name, change] of Object.entries(patch)) {
    if (change === null) delete merged[name]
    else put(merged, name, isObject(change) ? mergePatch(own(merged as JsonObject, name), change) : change)
  }
  return merged
}
