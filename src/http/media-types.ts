import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import accepts from 'accepts'

export const JSON_TYPE = 'application/json'
export const JSON_PATCH_TYPE = 'application/json-patch+json'
/** In the order of Accept-Patch. */
export const PATCH_TYPES = [
  'application/merge-patch+json',
  'application/json+merge-patch',
  JSON_TYPE,
  JSON_PATCH_TYPE,
] as const

/** The fields of an HTML form. */
export const FORM_TYPE = 'application/x-www-form-urlencoded'

/** One JSON text per line. */
export const NDJSON_TYPE = 'application/x-ndjson'

export const EVENT_STREAM = 'text/event-stream'
/** The types of `/events`, the default first. */
export const EVENT_MEDIA_TYPES = [JSON_TYPE, NDJSON_TYPE, EVENT_STREAM] as const

/** A parameter of a media range other than `q`, and any quote that is left. */
const OTHER_PARAMETER = /;(?!\s*q=)(?:[^;,"]+|"(?:[^"\\]|\\.)*"?)*|"/gi

/**
 * The type that a client prefers, by Accept; undefined if it accepts none of them. Parameters such as `charset` do not
 * change the type (RFC 9110 §12.5.1), but `accepts` takes them as a part of it.
 */
export function acceptedType<Type extends string>(
  { headers }: Pick<IncomingMessage, 'headers'>,
  types: readonly Type[],
): Type | undefined {
  const accept = headers.accept?.replace(OTHER_PARAMETER, '')
  const found = accepts({ headers: { accept } } as IncomingMessage).type([...types])
  return (found || undefined) as Type | undefined
}

/** Whether a client prefers a body in gzip to a plain one, by Accept-Encoding. */
export function acceptsGzip({ 'accept-encoding': encodings }: IncomingHttpHeaders): boolean {
  const incoming = { headers: { 'accept-encoding': encodings } } as unknown as IncomingMessage
  return accepts(incoming).encoding(['gzip', 'identity']) === 'gzip'
}

/** A parameter of a media type; a quoted value may have semicolons. */
const PARAMETER = /(?:[^;"]+|"(?:[^"\\]|\\.)*"?)+/g

/** The value of a parameter of a media type, in lower case and without quotes. */
export function parameterIn(header: string, name: string): string | undefined {
  for (const part of header.toLowerCase().match(PARAMETER) ?? []) {
    const at = part.indexOf('=')
    if (at >= 0 && part.slice(0, at).trim() === name)
      return part
        .slice(at + 1)
        .trim()
        .replace(/^"(.*)"$/, '$1')
  }
  return undefined
}
