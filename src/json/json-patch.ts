import { applyPatch, type Operation } from 'rfc6902'
import { Refusal } from '../runtime/errors.ts'
import { MAX_NESTING, parseText, sizeOf } from './parse.ts'
import { arrayIndex, pointer } from './paths.ts'
import { equal, isArray, isObject, type JsonObject, type JsonValue, own } from './value.ts'

export type PatchOperation =
  | Change
  | { readonly op: 'replace' | 'test'; readonly path: Tokens; readonly value: JsonValue }
  | { readonly op: 'move' | 'copy'; readonly path: Tokens; readonly from: Tokens }

/** The unescaped tokens of a JSON Pointer; empty for the whole document. */
type Tokens = readonly string[]

export interface PatchLimits {
  /** Highest number of operations in one patch. */
  readonly operations: number
  /** Highest size of the resulting document in UTF-8 bytes. */
  readonly resultBytes: number
  /** Highest weighted number of the values that the operations add. */
  readonly values: number
}

/**
 * Parses an RFC 6902 document.
 * @throws {Refusal} `Invalid` when it is malformed, before anything is applied.
 */
export function parsePatch(document: JsonValue): readonly PatchOperation[] {
  if (!isArray(document)) throw new Refusal('Invalid', 'A JSON Patch is an array of operations (RFC 6902).')
  if (document.length === 0) throw new Refusal('Invalid', 'The JSON Patch is empty.')
  return document.map(parseOperation)
}

function parseOperation(operation: JsonValue, index: number): PatchOperation {
  if (!isObject(operation)) throw malformed(index, 'it is not an object')
  const op = own(operation, 'op')
  const path = () => pointerTokens(operation, 'path', index)
  switch (op) {
    case 'add':
    case 'replace':
    case 'test': {
      const value = own(operation, 'value')
      if (value === undefined) throw malformed(index, `"${op}" needs a "value"`)
      return { op, path: path(), value }
    }
    case 'remove':
      return { op, path: path() }
    case 'move':
    case 'copy':
      return { op, path: path(), from: pointerTokens(operation, 'from', index) }
    default:
      throw malformed(index, '"op" must be one of add, remove, replace, move, copy, test')
  }
}

/** Highest length of a pointer: half a million escapes take 40 ms. */
const MOST_CHARACTERS = 65_536

/** The leading slash may be missing: `name` is read as `/name`. */
function pointerTokens(operation: JsonObject, member: 'path' | 'from', index: number): Tokens {
  const text = own(operation, member)
  if (typeof text !== 'string') throw malformed(index, `"${member}" must be a JSON Pointer`)
  if (text === '') return []
  if (text.length > MOST_CHARACTERS)
    throw inapplicable(index, `"${member}" has more than ${MOST_CHARACTERS} characters`)
  if (/~(?![01])/.test(text)) throw malformed(index, `"${member}" holds a "~" that is neither ~0 nor ~1`)
  const escaped = text.startsWith('/') ? text.slice(1) : text
  const segments = escaped.split('/', MAX_NESTING + 1)
  if (segments.length > MAX_NESTING) throw inapplicable(index, `"${member}" has more than ${MAX_NESTING} segments`)
  return segments.map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))
}

function malformed(index: number, why: string): Refusal {
  const message = `Operation ${index} of the JSON Patch is malformed: ${why}`
  return new Refusal('Invalid', `${message}.`, [{ pointer: `/${index}`, message }])
}

/**
 * Applies all operations or none. Pointers pass through own members alone. The values of the patch are copied, since a
 * later operation may change them.
 */
export function applyJsonPatch(target: string, operations: readonly PatchOperation[], limits: PatchLimits): JsonValue {
  if (operations.length > limits.operations) {
    throw new Refusal(
      'Unprocessable',
      `The patch has ${operations.length} operations; at most ${limits.operations} are accepted.`,
    )
  }
  let document = parseText(target)
  let bytes = 0
  let values = 0
  for (const [index, operation] of operations.entries()) {
    for (const change of changesOf(document, operation, index)) {
      if (change.op === 'remove') {
        remove(document, change.path, index)
        continue
      }
      checkAddable(document, change.path, index)
      const text = JSON.stringify(change.value)
      const size = sizeOf(text)
      if (change.path.length + size.nesting > MAX_NESTING) {
        throw inapplicable(index, `nesting deeper than ${MAX_NESTING} is not accepted`)
      }
      // A `copy` may double the document, so the sums over all operations are limited.
      bytes += Buffer.byteLength(text)
      if (bytes > limits.resultBytes) throw inapplicable(index, `it exceeds ${limits.resultBytes} bytes`)
      values += size.values
      if (values > limits.values) throw inapplicable(index, `it exceeds ${limits.values} values (Limits.ItemValues)`)
      document = withAdded(document, change.path, parseText(text), index)
    }
  }
  return document
}

type Change =
  | { readonly op: 'add'; readonly path: Tokens; readonly value: JsonValue }
  | { readonly op: 'remove'; readonly path: Tokens }

/**
 * Reduces an operation to `remove` and `add`, by which RFC 6902 §4 defines `replace`, `move` and `copy`. Each part is
 * then checked by itself.
 */
function changesOf(document: JsonValue, operation: PatchOperation, index: number): readonly Change[] {
  switch (operation.op) {
    case 'add':
    case 'remove':
      return [operation]
    case 'replace': {
      const { path, value } = operation
      valueThere(document, path, index)
      // Replacing a member of an object is one `add`, which keeps the member's place.
      const isElement = path.length > 0 && isArray(valueThere(document, path.slice(0, -1), index))
      const add = { op: 'add', path, value } as const
      return isElement ? [{ op: 'remove', path }, add] : [add]
    }
    case 'copy':
      return [{ op: 'add', path: operation.path, value: valueThere(document, operation.from, index) }]
    case 'move': {
      const { from, path } = operation
      const value = valueThere(document, from, index)
      const isPrefix = from.length <= path.length && from.every((token, at) => token === path[at])
      const isSame = isPrefix && from.length === path.length
      if (isPrefix && !isSame) throw inapplicable(index, 'a value cannot be moved into itself')
      const removal = { op: 'remove', path: from } as const
      return isSame ? [] : [removal, { op: 'add', path, value }]
    }
    case 'test': {
      if (equal(valueThere(document, operation.path, index), operation.value)) return []
      const where = pointer(operation.path)
      const message = `The test of operation ${index} failed: ${where || 'the document'} has another value`
      throw new Refusal('Conflict', `${message}.`, [{ pointer: where, message }])
    }
    default:
      return operation satisfies never
  }
}

function remove(document: JsonValue, path: Tokens, index: number): void {
  const last = path.at(-1)
  if (last === undefined) throw inapplicable(index, 'the whole document cannot be removed')
  valueThere(document, path, index)
  const parent = valueThere(document, path.slice(0, -1), index)
  applyInParent({ parent }, { op: 'remove', path: pointer(['parent', last]) }, index)
}

/**
 * Changes a member of `parent`. rfc6902 skips the names `constructor` and `prototype` on its way, so the way to the
 * parent is not in its pointer.
 */
function applyInParent(within: { parent: JsonValue; value?: JsonValue }, operation: Operation, index: number): void {
  const [failure] = applyPatch(within, [operation])
  if (failure) throw inapplicable(index, failure.message)
}

/** The document with a value at a place that was checked. */
function withAdded(document: JsonValue, path: Tokens, value: JsonValue, index: number): JsonValue {
  const last = path.at(-1)
  if (last === undefined) return value
  const parent = valueThere(document, path.slice(0, -1), index)
  // For `add`, rfc6902 would clone the value by its own `constructor` member.
  applyInParent({ parent, value }, { op: 'move', from: '/value', path: pointer(['parent', last]) }, index)
  return document
}

function valueThere(document: JsonValue, path: Tokens, index: number): JsonValue {
  let current: JsonValue | undefined = document
  for (const token of path) {
    if (isArray(current)) {
      const at = arrayIndex(token)
      current = at === undefined ? undefined : current[at]
    } else if (isObject(current)) {
      current = own(current, checkedName(token, index))
    } else current = undefined
    if (current === undefined) throw inapplicable(index, `nothing is at ${pointer(path)}`)
  }
  return current
}

function checkAddable(document: JsonValue, path: Tokens, index: number): void {
  const last = path.at(-1)
  if (last === undefined) return
  const parent = valueThere(document, path.slice(0, -1), index)
  if (isArray(parent)) {
    const at = last === '-' ? parent.length : arrayIndex(last)
    if (at === undefined || at > parent.length) throw inapplicable(index, `${pointer(path)} is not an index here`)
  } else if (isObject(parent)) {
    checkedName(last, index)
  } else throw inapplicable(index, `the parent of ${pointer(path)} is neither an object nor an array`)
}

/** Refuses the name that no member of a body may have. */
function checkedName(token: string, index: number): string {
  if (token === '__proto__') throw inapplicable(index, `a pointer must not pass through "${token}"`)
  return token
}

function inapplicable(index: number, why: string): Refusal {
  const message = `Operation ${index} of the JSON Patch cannot be applied: ${why}`
  return new Refusal('Unprocessable', `${message}.`, [{ pointer: `/${index}`, message }])
}
