import { MAX_NESTING, sizeOf } from '../json/item-size.ts'
import { applyJsonPatch, type PatchLimits } from '../json/json-patch.ts'
import { mergePatch } from '../json/merge-patch.ts'
import { parseText } from '../json/parse-text.ts'
import { pathTo } from '../json/pointer.ts'
import { isArray, isObject, type JsonValue, own, put } from '../json/value.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Patch } from './command.ts'

interface ElementId {
  readonly field: string
  readonly id: JsonValue
}

/** A value inside an item, by the segments of a URL after the item's. */
export class InnerValue {
  /** As `JSON.stringify` makes it. */
  readonly text: string
  readonly #document: JsonValue
  readonly #whole: string
  readonly #path: readonly string[]
  /** By which the address names an element of an array. */
  readonly #id: ElementId | undefined

  private constructor(
    document: JsonValue,
    whole: string,
    path: readonly string[],
    id: ElementId | undefined,
    text: string,
  ) {
    this.#document = document
    this.#whole = whole
    this.#path = path
    this.#id = id
    this.text = text
  }

  /** @throws {Refusal} `NotFound` when the item has nothing there. */
  static of(whole: string, segments: readonly string[], idField: string): InnerValue {
    const document = parseText(whole)
    const found = pathTo(document, segments, idField)
    if (!found) {
      throw new Refusal(
        'NotFound',
        `The item has nothing at ${segments.join('/')}. A PATCH of the object around it adds a member. In an array whose elements have ids a segment is an id.`,
      )
    }
    const id = found.isElement && isObject(found.value) ? own(found.value, idField) : undefined
    const isById = id !== undefined && String(id) === segments.at(-1)
    const text = JSON.stringify(found.value)
    return new InnerValue(document, whole, found.path, isById ? { field: idField, id } : undefined, text)
  }

  /** The whole item with this value patched. */
  patched(patch: Patch, limits: PatchLimits): JsonValue {
    const isRemoved =
      patch.type === 'operations' && patch.operations.some(({ op, path }) => op === 'remove' && path.length === 0)
    // Within an array, an operation on the whole value would otherwise insert another element.
    if (patch.type === 'value') return this.#with(this.#withId(patch.value))
    if (!isRemoved) return this.#with(applyPatch(patch, this.text, limits))
    const inside = (path: readonly string[]) => [...this.#path, ...path]
    const operations = patch.operations.map((operation) => ({
      ...operation,
      path: inside(operation.path),
      ...('from' in operation && { from: inside(operation.from) }),
    }))
    return applyJsonPatch(this.#whole, operations, limits)
  }

  /** The value with the id of the element that it replaces: without one, a PUT that is repeated would replace another. */
  #withId(value: JsonValue): JsonValue {
    if (!this.#id || !isObject(value)) return value
    const { field, id } = this.#id
    const sent = own(value, field)
    if (sent === undefined) return { [field]: id, ...value }
    if (sent === id) return value
    throw new Refusal(
      'Conflict',
      `The id in the body, ${JSON.stringify(sent)}, differs from that of the element, ${JSON.stringify(id)}.`,
    )
  }

  #with(value: JsonValue): JsonValue {
    const text = JSON.stringify(value)
    if (this.#path.length + sizeOf(text).nesting > MAX_NESTING) {
      throw new Refusal('Unprocessable', `The item would be nested deeper than ${MAX_NESTING}.`)
    }
    const last = this.#path.at(-1) as string
    let parent = this.#document
    for (const name of this.#path.slice(0, -1)) parent = (parent as Record<string, JsonValue>)[name] as JsonValue
    if (isArray(parent)) (parent as JsonValue[])[Number(last)] = value
    else put(parent as Record<string, JsonValue>, last, value)
    return this.#document
  }
}

/** The value that a patch makes of a JSON text. */
export function applyPatch(patch: Patch, text: string, limits: PatchLimits): JsonValue {
  if (patch.type === 'value') return patch.value
  if (patch.type === 'merge') return mergePatch(parseText(text), patch.document)
  return applyJsonPatch(text, patch.operations, limits)
}
