import type { Steps } from '../runtime/steps.ts'
import { isObject, type JsonObject, type JsonValue, own } from './value.ts'

/** Members merged in one step. */
const STEP_MEMBERS = 4096

/** Merge Patch (RFC 7396), in steps. Changes the target and not the patch. */
export function* mergePatch(target: JsonValue | undefined, patch: JsonValue, pace = { members: 0 }): Steps<JsonValue> {
  if (!isObject(patch)) return patch
  const merged = (isObject(target) ? target : {}) as Record<string, JsonValue>
  const names = Object.keys(patch)
  if (names.length > STEP_MEMBERS) yield
  for (const name of names) {
    const change = patch[name] as JsonValue
    if (change === null) delete merged[name]
    else if (isObject(change)) merged[name] = yield* mergePatch(own(merged as JsonObject, name), change, pace)
    else merged[name] = change
    if (++pace.members % STEP_MEMBERS === 0) yield
  }
  return merged
}
