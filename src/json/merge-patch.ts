import { isObject, type JsonObject, type JsonValue, own } from './value.ts'

/** RFC 7396: members of the patch replace those of the target, `null` removes, objects merge. The target is not touched. */
export function mergePatch(target: JsonValue | undefined, patch: JsonValue): JsonValue {
  if (!isObject(patch)) return patch
  const merged: Record<string, JsonValue> = isObject(target) ? { ...target } : {}
  for (const [name, change] of Object.entries(patch) as [string, JsonValue][]) {
    if (change === null) delete merged[name]
    else merged[name] = mergePatch(own(merged as JsonObject, name), change)
  }
  return merged
}
