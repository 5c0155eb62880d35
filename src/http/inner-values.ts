import { OBJECT_ID } from '../events/event.ts'
import { parseText } from '../json/parse-text.ts'
import { valueAt } from '../json/pointer.ts'
import { tagOf } from '../json/tag.ts'
import { type ApiRequest, parseTags, type Reply } from './api.ts'
import type { ApiOptions } from './api-options.ts'
import { JSON_TYPE, PATCH_TYPES, parseAnyPatch, readBody } from './bodies.ts'
import { prefers } from './preferences.ts'
import { apiSegments, originOf, refuseParameters, refuseUnheeded } from './requests.ts'
import { WriteHints, type WriteHintsOptions } from './write-hints.ts'

interface InnerWriteOptions extends WriteHintsOptions, Pick<ApiOptions, 'handler' | 'limits' | 'isJsonServer'> {
  /** Whether the path is that of a single object, of which all further segments are inside. */
  readonly isObject: boolean
}

/** PUT and PATCH of a value inside an item or a single object: one event of the item. */
export async function writeInside(request: ApiRequest, reply: Reply, writing: InnerWriteOptions): Promise<void> {
  const { handler, limits, isObject, idField, isJsonServer } = writing
  const [collection, ...segments] = apiSegments(request.path) as [string, ...string[]]
  const [key, inside] = isObject ? [OBJECT_ID, segments] : [segments[0] as string, segments.slice(1)]
  const isPatch = request.method === 'PATCH'
  const body = await readBody(request, isPatch ? PATCH_TYPES : [JSON_TYPE], limits.itemValues)
  const patch = isPatch
    ? parseAnyPatch(body, { isInside: true, isJsonServer })
    : ({ type: 'value', value: body.json } as const)
  refuseUnheeded(request)
  refuseParameters(request)
  const { headers } = request
  const conditions = { ifMatch: parseTags(headers['if-match']), ifNoneMatch: parseTags(headers['if-none-match']) }
  const { position, event, item } = await handler.handle(
    { type: 'PatchItem', collection, key, inside, patch, ...conditions },
    originOf(request, body.bytes),
  )
  reply.position = position
  const hints = new WriteHints(writing, collection)
  hints.written(event)
  hints.tell(reply)
  // A JSON Patch may remove the value.
  const text = item && textAt(item.text, inside, idField)
  if (text !== undefined) reply.set('ETag', tagOf(text))
  if (text === undefined || !prefers(headers, 'return=representation')) {
    reply.status = 204
    return
  }
  reply.set('Preference-Applied', 'return=representation')
  reply.json(text)
}

/** The text of what a URL's further segments name within a value; undefined when there is nothing. */
export function textAt(whole: string, segments: readonly string[], idField: string): string | undefined {
  const found = valueAt(parseText(whole), segments, idField)
  return found === undefined ? undefined : JSON.stringify(found)
}
