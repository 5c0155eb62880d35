import type { IncomingHttpHeaders } from 'node:http'
import type { Context, Middleware } from 'koa'
import type { Patch } from '../commands/command.ts'
import { Refusal } from '../errors.ts'
import { parsePatch } from '../json/json-patch.ts'
import { parseJson } from '../json/parse.ts'
import { isObject, type JsonObject, type JsonValue } from '../json/value.ts'
import type { Slices, Steps } from '../slices.ts'
import { loadKoaBody } from './koa-body.ts'
import { onFirstUse } from './late-modules.ts'

export const JSON_TYPE = 'application/json'
export const JSON_PATCH_TYPE = 'application/json-patch+json'
/** In the order in which Accept-Patch names them. */
export const PATCH_TYPES = [
  'application/merge-patch+json',
  'application/json+merge-patch',
  JSON_TYPE,
  JSON_PATCH_TYPE,
] as const

export interface Body {
  readonly bytes: Uint8Array
  readonly type: string
  readonly json: JsonValue
}

/** A body is not taken in the form that it has. The header names the forms that are taken (RFC 9110 §15.5.16). */
export class UnsupportedBody extends Refusal {
  readonly header: 'Accept' | 'Accept-Patch' | 'Accept-Encoding'
  readonly accepted: string

  constructor(message: string, header: UnsupportedBody['header'], accepted: string) {
    super('UnsupportedMediaType', message)
    this.header = header
    this.accepted = accepted
  }
}

/** Where a body comes from. */
export interface BodySource {
  readonly headers: IncomingHttpHeaders
  /** Gathers it, decompressed. */
  readonly bytes: () => Promise<Uint8Array>
}

export interface BodyOptions {
  readonly types: readonly string[]
  readonly limitBytes: number
  /** Where a long body is parsed. */
  readonly slices: Slices
}

/**
 * Reads a JSON body of one of the types. It is decoded and parsed here, because koa-body's own parser lets through
 * what JSON does not allow and hides what was sent.
 */
export async function readBody(source: BodySource, { types, limitBytes, slices }: BodyOptions): Promise<Body> {
  const { headers } = source
  if (headers['transfer-encoding'] === undefined && Number(headers['content-length'] ?? 0) === 0) throw noBody()
  const type = typeOf(headers['content-type'] ?? '', types)
  // koa-body reads the length as 32 bits.
  if (headers['content-encoding'] === undefined && Number(headers['content-length']) > limitBytes) {
    throw new Refusal('TooLarge', `The body exceeds ${limitBytes} bytes.`)
  }
  const bytes = await source.bytes()
  if (bytes.length === 0) throw noBody()
  const json = slices.run(() => parseJson(bytes))
  return { bytes, type, json: json instanceof Promise ? await json : json }
}

/** The body of a request to Koa: koa-body gathers, inflates and bounds the bytes. */
export function bodySource(limitBytes: number): (ctx: Context) => BodySource {
  const gather = onFirstUse(() => gathering(limitBytes))
  return (ctx) => ({
    headers: ctx.headers,
    bytes: async () => {
      const middleware = await gather()
      try {
        normalizeCoding(ctx)
        await middleware(ctx, async () => {})
      } catch (error) {
        throw bodyRefusal(error, limitBytes)
      }
      return Buffer.from((ctx.request as { body?: string }).body ?? '', 'latin1')
    },
  })
}

const CODINGS = ['gzip', 'deflate', 'br', 'identity']

/** koa-body knows codings in lower case alone. Case says nothing, and `x-gzip` is `gzip` (RFC 9110 §8.4.1). */
export function normalizeCoding({ req: { headers } }: Context): void {
  const sent = headers['content-encoding']
  if (!sent) return
  const coding = sent.toLowerCase() === 'x-gzip' ? 'gzip' : sent.toLowerCase()
  if (!CODINGS.includes(coding)) {
    const accepted = 'gzip, deflate, br'
    throw new UnsupportedBody(
      `The Content-Encoding ${sent} is not accepted; expected: one of ${accepted}.`,
      'Accept-Encoding',
      accepted,
    )
  }
  headers['content-encoding'] = coding
}

async function gathering(limitBytes: number): Promise<Middleware> {
  const koaBody = await loadKoaBody()
  return koaBody({
    text: true,
    textTypes: [...PATCH_TYPES],
    textLimit: limitBytes,
    encoding: 'binary',
    json: false,
    urlencoded: false,
    multipart: false,
    patchNode: false,
  }) as unknown as Middleware
}

function noBody(): Refusal {
  return new Refusal('Invalid', 'The request has no body; JSON was expected.')
}

function typeOf(header: string, types: readonly string[]): string {
  if (header === JSON_TYPE && types.includes(header)) return header
  const [type = '', ...parameters] = header.split(';').map((part) => part.trim().toLowerCase())
  const named = header === '' ? 'No Content-Type was sent' : `The Content-Type ${header} is not accepted here`
  const accepted = types.join(', ')
  const asking = types.includes(JSON_PATCH_TYPE) ? 'Accept-Patch' : 'Accept'
  if (!types.includes(type)) throw new UnsupportedBody(`${named}; expected: ${accepted}.`, asking, accepted)
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))?.slice('charset='.length)
  if (charset !== undefined && !/^"?utf-?8"?$/.test(charset)) {
    throw new UnsupportedBody(`The charset ${charset} is not accepted; JSON is sent as UTF-8.`, asking, accepted)
  }
  return type
}

/** From zlib (gzip, deflate), from Brotli, and when the client goes away. */
const UNREADABLE = /^(Z_|ERR__ERROR_FORMAT|ERR_BROTLI|ECONNRESET$|ERR_STREAM_PREMATURE_CLOSE$)/

/** What a failure to read a body means for the client; a failure that is not the client's comes back as it is. */
export function bodyRefusal(error: unknown, limitBytes: number): unknown {
  if (error instanceof Refusal) return error
  const { code, message } = error as BodyError
  const status = statusOf(error as BodyError)
  if (status === 413) return new Refusal('TooLarge', `The body exceeds ${limitBytes} bytes.`)
  if (status === 415) return new Refusal('UnsupportedMediaType', `The body is not accepted: ${message}.`)
  if (status === 400 || (typeof code === 'string' && UNREADABLE.test(code))) {
    return new Refusal('Invalid', `The body could not be read: ${message}.`)
  }
  return error
}

/** raw-body makes a 500 of a client that is gone already; formidable (multipart) makes 500, 501 and others of what the client sent. */
function statusOf({ status, httpCode, type }: BodyError): number | undefined {
  if (type === 'stream.not.readable') return 400
  if (httpCode === undefined) return status
  return httpCode === 413 || httpCode === 415 ? httpCode : 400
}

interface BodyError {
  readonly status?: number
  readonly httpCode?: number
  readonly type?: string
  readonly code?: string | number
  readonly message: string
}

export function parseItem({ json }: Body): JsonObject {
  if (json === null) throw new Refusal('Invalid', 'The item is null; a JSON object was expected.')
  if (!isObject(json)) {
    throw new Refusal('Unprocessable', 'An item is a JSON object.', [{ pointer: '', message: 'must be an object' }])
  }
  return json
}

/** A merge patch (RFC 7396) or a JSON Patch (RFC 6902), by its type; an empty one is refused. */
export function* parseAnyPatch({ type, json }: Body): Steps<Patch> {
  if (type === JSON_PATCH_TYPE) return { type: 'operations', operations: yield* parsePatch(json) }
  if (!isObject(json)) throw new Refusal('Invalid', 'A merge patch of an item is a JSON object (RFC 7396).')
  if (Object.keys(json).length === 0) throw new Refusal('Invalid', 'The patch is empty.')
  return { type: 'merge', document: json }
}
