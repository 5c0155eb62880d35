import type { Patch } from '../commands/command.ts'
import { parsePatch } from '../json/json-patch.ts'
import { parseJson } from '../json/parse.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../json/value.ts'
import { Refusal } from '../runtime/errors.ts'
import type { HttpRequest } from './exchange.ts'
import { JSON_PATCH_TYPE, JSON_TYPE, parameterIn } from './media-types.ts'

export interface Body {
  readonly bytes: Uint8Array
  readonly type: string
  readonly json: JsonValue
}

/** An unsupported media type or coding. The header names the supported ones (RFC 9110 §15.5.16). */
export class UnsupportedBody extends Refusal {
  readonly header: 'Accept' | 'Accept-Patch' | 'Accept-Encoding'
  readonly accepted: string

  constructor(message: string, header: UnsupportedBody['header'], accepted: string) {
    super('UnsupportedMediaType', message)
    this.header = header
    this.accepted = accepted
  }
}

/**
 * Parses a JSON body of one of the types, with at most so many values. koa-body's parser is not used: it accepts what
 * JSON does not allow and does not expose the text.
 */
export async function readBody(source: BodySource, types: readonly string[], mostValues: number): Promise<Body> {
  const { bytes, type } = await readBytes(source, types)
  return { bytes, type, json: parseJson(bytes, mostValues) }
}

type BodySource = Pick<HttpRequest, 'headers' | 'bytes'>

/** The bytes of a body of one of the types; at least one. */
export async function readBytes(
  { headers, bytes }: BodySource,
  types: readonly string[],
): Promise<Pick<Body, 'bytes' | 'type'>> {
  if (!hasBody(headers)) throw noBody()
  const type = typeOf(headers['content-type'] ?? '', types)
  const read = await bytes()
  if (read.length === 0) throw noBody()
  return { bytes: read, type }
}

export function hasBody(headers: BodySource['headers']): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

function noBody(): Refusal {
  return new Refusal('Invalid', 'The request has no body; JSON was expected.')
}

function typeOf(header: string, types: readonly string[]): string {
  if (header === JSON_TYPE && types.includes(header)) return header
  const [type = ''] = header.split(';', 1).map((part) => part.trim().toLowerCase())
  const named = header === '' ? 'No Content-Type was sent' : `The Content-Type ${header} is not accepted here`
  const accepted = types.join(', ')
  const asking = types.includes(JSON_PATCH_TYPE) ? 'Accept-Patch' : 'Accept'
  if (!types.includes(type)) throw new UnsupportedBody(`${named}; expected: ${accepted}.`, asking, accepted)
  const charset = parameterIn(header, 'charset')
  if (charset !== undefined && !/^utf-?8$/.test(charset)) {
    throw new UnsupportedBody(`The charset ${charset} is not accepted; JSON is sent as UTF-8.`, asking, accepted)
  }
  return type
}

export function parseItem({ json }: Pick<Body, 'json'>): JsonObject {
  if (json === null) throw new Refusal('Invalid', 'The item is null; a JSON object was expected.')
  if (!isObject(json)) {
    throw new Refusal('Unprocessable', 'An item is a JSON object.', [{ pointer: '', message: 'must be an object' }])
  }
  return json
}

interface PatchedPlace {
  /** Whether a value inside an item is patched. */
  readonly isInside: boolean
  readonly isJsonServer: boolean
}

/** Parses a merge patch (RFC 7396) or a JSON Patch (RFC 6902), by content type. */
export function parseAnyPatch({ type, json }: Body, { isInside, isJsonServer }: PatchedPlace): Patch {
  const isMerge = type !== JSON_PATCH_TYPE
  // A merge patch that is no object replaces the value.
  if (isMerge && isInside && !isObject(json)) return { type: 'value', value: json }
  if (isJsonServer && isEmpty(json)) return { type: 'operations', operations: [] }
  if (!isMerge) return { type: 'operations', operations: parsePatch(json) }
  if (!isObject(json)) {
    throw new Refusal(
      'Invalid',
      `A merge patch of an item is a JSON object (RFC 7396); a JSON Patch has the Content-Type ${JSON_PATCH_TYPE}.`,
    )
  }
  if (isEmpty(json)) throw new Refusal('Invalid', 'The patch is empty.')
  return { type: 'merge', document: json }
}

function isEmpty(json: JsonValue): boolean {
  return isArray(json) ? json.length === 0 : isObject(json) && Object.keys(json).length === 0
}
