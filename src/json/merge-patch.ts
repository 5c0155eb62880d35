import { isObject, type JsonObject, type JsonValue, own } from './value.ts'

/** Merge Patch (RFC 7396). Changes the target and not the patch. */
export function mergePatch(target: JsonValue | undefined, patch: JsonValue): JsonValue {
  if (!isObject(patch)) return patch
  const merged = (isObject(target) ? target : {}) as Record<string, JsonValue>
  for (const [name, change] of Object.entries(patch)) {
    if (change === null) delete merged[name]
    else merged[name] = isObject(change) ? mergePatch(own(merged as JsonObject, name), change) : change
  }
  return merged
}
