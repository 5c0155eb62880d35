import type { IncomingMessage } from 'node:http'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import type { Patch } from '../commands/command.ts'
import { bytesOfValue } from '../json/bytes-of-value.ts'
import * as CODE from '../json/char-codes.ts'
import { parsePatch } from '../json/json-patch.ts'
import { invalidUtf8, parseJson, refuseNul } from '../json/parse.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../json/value.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Turn } from '../runtime/turns.ts'
import type { ApiOptions } from './api-options.ts'
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
export async function readBody(source: BodySource, types: readonly string[], options: ParseOptions): Promise<Body> {
  const { bytes, type } = await readBytes(source, types)
  return { bytes, type, json: await parseBody(bytes, source, options) }
}

export interface ParseOptions extends Pick<ApiOptions, 'turns'> {
  readonly limits: Pick<ApiOptions['limits'], 'itemValues'>
}

/** Parses a JSON body in its turn, as a long one takes up to 20 ms, and holds memory for it. */
export function parseBody(
  bytes: Uint8Array,
  request: Pick<HttpRequest, 'memoryFor'>,
  { turns, limits: { itemValues } }: ParseOptions,
): JsonValue | Promise<JsonValue> {
  return turns.runWhole(() => {
    const json = parseJson(bytes, itemValues)
    if (bytes.length > SHORT_BYTES) request.memoryFor('bodies').hold(bytesOfValue(json))
    return json
  })
}

type BodySource = Pick<HttpRequest, 'headers' | 'bytes' | 'memoryFor'>

/** The bytes of a body of one of the types; at least one. */
export async function readBytes(
  { headers, bytes }: Pick<BodySource, 'headers' | 'bytes'>,
  types: readonly string[],
): Promise<Pick<Body, 'bytes' | 'type'>> {
  if (!hasBody(headers)) throw noBody()
  const type = checkedType(headers['content-type'] ?? '', types)
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

function checkedType(header: string, types: readonly string[]): string {
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

/** The memory of a shorter body is not counted. */
const SHORT_BYTES = 16 * 1024

/** Bytes for each byte of a body while it is received: its chunks, and the body that they are joined to. */
const GATHERED_BYTES = 2
/** The largest window of Brotli (RFC 7932 §9.1), which a decoder may fill before it returns its first bytes. */
const BROTLI_BYTES = 2 ** 24
/** Chunks that are joined while a body is received, as each takes some 200 bytes beside its own. */
const JOINED_CHUNKS = 1024

export const DECODERS = { gzip: createGunzip, deflate: createInflate, br: createBrotliDecompress }

/** Highest size of a body after decompression. */
interface BodyLimits {
  readonly bytes: number
  /** Applies if the body begins with a bracket, as a JSON list does. */
  readonly listBytes: number
}

/**
 * Reads the body of a request, decompressed. Stops as soon as the limit is exceeded, so that a small body that inflates
 * to gigabytes costs no more than the limit.
 */
export function gatherBody(httpRequest: HttpRequest, { bytes, listBytes }: BodyLimits): Promise<Buffer> {
  const request = httpRequest.incoming
  return new Promise((resolve, reject) => {
    // User middleware has read it.
    if (!request.readable) throw new Refusal('Invalid', 'The body could not be read: stream is not readable.')
    normalizeCoding(request)
    const coding = request.headers['content-encoding']
    const memory = new BodyMemory(httpRequest, coding === 'br' ? BROTLI_BYTES : 0)
    const decoder = Object.hasOwn(DECODERS, coding ?? '') ? DECODERS[coding as keyof typeof DECODERS]() : undefined
    const announced = coding === undefined ? Number(request.headers['content-length'] ?? 0) : 0
    const largest = Math.max(bytes, listBytes)
    if (announced > largest) throw tooLarge(largest)
    const source = decoder ? request.pipe(decoder) : request
    const parts: Buffer[] = []
    const chunks: Buffer[] = []
    let length = 0
    let limit: number | undefined
    const take = (chunk: Buffer): void => {
      if (chunks.push(chunk) === JOINED_CHUNKS) parts.push(Buffer.concat(chunks.splice(0)))
      length += chunk.length
      limit ??= limitOf(chunk)
      try {
        if (length > (limit ?? bytes) || (limit !== undefined && announced > limit)) throw tooLarge(limit ?? bytes)
        memory.hold(length)
      } catch (error) {
        fail(error as Error)
      }
    }
    const endDecoder = (): void => {
      if (!decoder) return
      request.unpipe(decoder)
      decoder.destroy()
    }
    const fail = (error: Error): void => {
      // The rest is not inflated, and what was read is not held while the refusal is sent.
      parts.length = 0
      chunks.length = 0
      source.off('data', take).off('end', end)
      memory.release()
      endDecoder()
      reject(error)
    }
    const gone = (): void => {
      if (!request.complete) fail(new Refusal('Invalid', 'The body could not be read: the client disconnected.'))
    }
    const end = (): void => {
      endDecoder()
      const body = joined([...parts, ...chunks], length)
      memory.release(length)
      resolve(body)
    }
    source.on('data', take).on('end', end)
    source.on('error', (error) => fail(bodyRefusal(error, limit ?? listBytes)))
    if (decoder) request.on('error', gone)
    request.on('close', gone)
  })

  /** Undefined while only white space was read. */
  function limitOf(chunk: Buffer): number | undefined {
    const isList = beginsAsList(chunk)
    return isList === undefined ? undefined : isList ? listBytes : bytes
  }
}

/** The memory of a body while it is received, and of its decoder. */
class BodyMemory {
  readonly #request: HttpRequest
  readonly #decoderBytes: number
  #bytes = 0

  constructor(request: HttpRequest, decoderBytes: number) {
    this.#request = request
    this.#decoderBytes = decoderBytes
    this.#set(decoderBytes)
  }

  /** Holds memory for so many bytes of the body. */
  hold(length: number): void {
    this.#set(this.#decoderBytes + GATHERED_BYTES * Math.max(0, length - SHORT_BYTES))
  }

  /** Holds only a joined body of this length, if it is not short. */
  release(length = 0): void {
    this.#set(Math.max(0, length - SHORT_BYTES))
  }

  #set(bytes: number): void {
    if (bytes === this.#bytes) return
    const memory = this.#request.memoryFor('bodies')
    if (bytes > this.#bytes) memory.hold(bytes - this.#bytes)
    else memory.count(bytes - this.#bytes)
    this.#bytes = bytes
  }
}

function joined(chunks: readonly Buffer[], length: number): Buffer {
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks, length)
}

const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf]

/** Whether JSON is a list, by its first character. Undefined while there is only white space. */
export function beginsAsList(bytes: Uint8Array): boolean | undefined {
  let at = 0
  while (at < bytes.length && (CODE.isBlank(bytes[at]) || BYTE_ORDER_MARK.includes(bytes[at] as number))) at++
  return at === bytes.length ? undefined : bytes[at] === CODE.OPEN_BRACKET
}

/** Bytes that are decoded at once: other characters than ASCII take 5 ms for a mebibyte. */
const PART_BYTES = 1024 * 1024

/** Decodes UTF-8 without its byte order mark. Rejects NUL, as `decodeText` does. */
export async function decodeBatch(bytes: Uint8Array, turn: Turn): Promise<string> {
  refuseNul(bytes)
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const parts: string[] = []
  for (let from = 0; from < bytes.length; from += PART_BYTES) {
    if (turn.isOver) await turn.next()
    try {
      parts.push(decoder.decode(bytes.subarray(from, from + PART_BYTES), { stream: from + PART_BYTES < bytes.length }))
    } catch {
      throw invalidUtf8()
    }
  }
  return parts.join('')
}

const CODINGS = ['gzip', 'deflate', 'br', 'identity']

/** Normalizes Content-Encoding (RFC 9110 §8.4.1: any case, `x-gzip` is `gzip`); koa-body knows lower case only. */
export function normalizeCoding({ headers }: IncomingMessage): void {
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

/** Errors of zlib (gzip, deflate), of Brotli, and of disconnected clients. */
const UNREADABLE = /^(Z_|ERR__ERROR_FORMAT|ERR_BROTLI|ECONNRESET$|ERR_STREAM_PREMATURE_CLOSE$)/

/** The error response for a failure to read a body; failures that the client did not cause are returned unchanged. */
export function bodyRefusal(error: Error, limitBytes: number, describe = unreadable): Error {
  const { code, message } = error as BodyError
  const status = statusOf(error as BodyError)
  if (status === 413) return tooLarge(limitBytes)
  if (status === 415) return new Refusal('UnsupportedMediaType', `The body is not accepted: ${message}.`)
  if (status === 400 || (typeof code === 'string' && UNREADABLE.test(code))) {
    return new Refusal('Invalid', describe(message))
  }
  return error
}

export function unreadable(message: string): string {
  return `The body could not be read: ${message}.`
}

export function tooLarge(limitBytes: number): Refusal {
  return new Refusal('TooLarge', `The body exceeds ${limitBytes} bytes.`)
}

/** raw-body reports disconnected clients as 500; formidable reports errors of the client as 500, 501 and others. */
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
