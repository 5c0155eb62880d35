import { textBytes } from '../runtime/memory.ts'
import { isArray, type JsonValue } from './value.ts'

/** Approximate memory in V8 of an object, a member with its name, an array, and a reference or number. */
const BYTES = { object: 56, member: 48, array: 48, value: 8 } as const

/** Approximate memory of a parsed value, in bytes. */
export function bytesOfValue(value: JsonValue): number {
  if (typeof value === 'string') return textBytes(value)
  if (typeof value !== 'object' || value === null) return BYTES.value
  if (isArray(value))
    return value.reduce((sum: number, element) => sum + BYTES.value + bytesOfValue(element), BYTES.array)
  let bytes: number = BYTES.object
  for (const name in value) bytes += BYTES.member + bytesOfValue(value[name] as JsonValue)
  return bytes
}
