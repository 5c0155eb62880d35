import type { IncomingMessage } from 'node:http'
import { parse as parseForm } from 'node:querystring'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import type { Patch } from '../commands/command.ts'
import { bytesOfValue } from '../json/bytes-of-value.ts'
import * as CODE from '../json/char-codes.ts'
import { parsePatch } from '../json/json-patch.ts'
import { invalidUtf8, parseJson, refuseNul } from '../json/parse.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../json/value.ts'
import { Refusal } from '../runtime/errors.ts'
import { HighWaterMark } from '../runtime/memory.ts'
import { Semaphore, type Turn } from '../runtime/turns.ts'
import type { ApiOptions } from './api-options.ts'
import type { HttpRequest } from './exchange.ts'
import { FORM_TYPE, JSON_PATCH_TYPE, JSON_TYPE, parameterIn } from './media-types.ts'

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
  const { bytes, type } = await readJson(source, types, options)
  return { bytes, type, json: await parseBody(bytes, source, options) }
}

/**
 * The bytes of a body of one of the types. For json-server a form is accepted as well, and becomes JSON, and so does no
 * body, except of PUT, which would remove all fields.
 */
export async function readJson(
  source: Pick<HttpRequest, 'method' | 'headers' | 'bytes'>,
  types: readonly string[],
  { isJsonServer }: Pick<ParseOptions, 'isJsonServer'>,
): Promise<SentBody> {
  if (!isJsonServer) return readBytes(source, types)
  const none = source.method === 'PUT' ? undefined : { bytes: Buffer.from('{}'), type: JSON_TYPE }
  const sent = await readBytes(source, [...types, FORM_TYPE], none)
  return sent.type === FORM_TYPE ? { bytes: jsonOfForm(sent.bytes), type: JSON_TYPE } : sent
}

export interface ParseOptions extends Pick<ApiOptions, 'turns'>, Partial<Pick<ApiOptions, 'isJsonServer'>> {
  readonly limits: Pick<ApiOptions['limits'], 'itemValues'>
}

const MOST_FIELDS = 1000

/**
 * The JSON of a form, as json-server 0.17 reads it: all values are text, or lists of text. JSON is left as it is: curl
 * gives it this type unless another one is named, and a form encodes the brackets that JSON begins with.
 */
export function jsonOfForm(bytes: Uint8Array): Uint8Array {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString()
  if (/^\s*[[{]/.test(text)) return bytes
  if (text.split('&', MOST_FIELDS + 1).length > MOST_FIELDS) {
    throw new Refusal('Invalid', `The form has more than ${MOST_FIELDS} fields; send JSON.`)
  }
  return Buffer.from(JSON.stringify(parseForm(text, undefined, undefined, { maxKeys: MOST_FIELDS })))
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

type BodySource = Pick<HttpRequest, 'method' | 'headers' | 'bytes' | 'memoryFor'>
type SentBody = Pick<Body, 'bytes' | 'type'>

/** The bytes of a body of one of the types, at least one; `none` stands for no body. */
export async function readBytes(
  { headers, bytes }: Pick<BodySource, 'headers' | 'bytes'>,
  types: readonly string[],
  none?: SentBody,
): Promise<SentBody> {
  if (!hasBody(headers)) return none ?? refuseNoBody()
  const type = checkedType(headers['content-type'] ?? '', types)
  const read = await bytes()
  return read.length === 0 ? (none ?? refuseNoBody()) : { bytes: read, type }
}

export function hasBody(headers: BodySource['headers']): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

function refuseNoBody(): never {
  throw new Refusal('Invalid', 'The request has no body; JSON was expected.')
}

/** The media type of a Content-Type, without its parameters. */
export function mediaTypeOf(header = ''): string {
  return (header.split(';', 1)[0] as string).trim().toLowerCase()
}

function checkedType(header: string, types: readonly string[]): string {
  if (header === JSON_TYPE && types.includes(header)) return header
  const type = mediaTypeOf(header)
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

/** Bytes for each byte of a body while it is received or inflated: its chunks, and the body that they are joined to. */
const GATHERED_BYTES = 2
/** Chunks that are joined while a body is received, as each takes some 200 bytes beside its own. */
const JOINED_CHUNKS = 1024

export const DECODERS = { gzip: createGunzip, deflate: createInflate, br: createBrotliDecompress }
/** The largest window of Brotli (RFC 7932 §9.1), which a decoder may fill before it returns its first bytes. */
const BROTLI_BYTES = 2 ** 24
/** Bodies that are inflated at a time, as a decoder may take much more memory than the compressed bytes. */
const INFLATED_AT_ONCE = 2
const inflating = new Semaphore(INFLATED_AT_ONCE)

/** Highest size of a body after decompression. */
interface BodyLimits {
  readonly bytes: number
  /** Applies if the body begins with a bracket, as a JSON list does. */
  readonly listBytes: number
}

/** Reads the body of a request, decompressed. A small body that inflates to gigabytes costs no more than the limit. */
export async function gatherBody(request: HttpRequest, limits: BodyLimits): Promise<Buffer> {
  // User middleware has read it.
  if (!request.incoming.readable) throw new Refusal('Invalid', 'The body could not be read: stream is not readable.')
  normalizeCoding(request.incoming)
  const coding = request.incoming.headers['content-encoding'] ?? 'identity'
  if (!Object.hasOwn(DECODERS, coding)) return receive(request, limits)
  const largest = Math.max(limits.bytes, limits.listBytes)
  const sent = await receive(request, { bytes: largest, listBytes: largest })
  try {
    return await inflating.run(() => inflated(request, sent, coding as keyof typeof DECODERS, limits))
  } finally {
    request.memoryFor('bodies').count(-heldFor(sent.length))
  }
}

/** Receives the bytes of a body as they are sent, and stops when a limit is exceeded. */
function receive(httpRequest: HttpRequest, limits: BodyLimits): Promise<Buffer> {
  const request = httpRequest.incoming
  return new Promise((resolve, reject) => {
    const announced = Number(request.headers['content-length'] ?? 0)
    const largest = Math.max(limits.bytes, limits.listBytes)
    if (announced > largest) throw tooLarge(largest)
    const gathering = new Gathering(httpRequest, limits, announced)
    const take = (chunk: Buffer): void => {
      try {
        gathering.add(chunk)
      } catch (error) {
        fail(error as Error)
      }
    }
    const leave = (): void => {
      request.off('data', take).off('end', end).off('error', refuse).off('close', gone)
    }
    const end = (): void => {
      leave()
      resolve(gathering.end())
    }
    const fail = (error: Error): void => {
      leave()
      gathering.drop()
      reject(error)
    }
    const refuse = (error: Error): void => fail(bodyRefusal(error, largest))
    const gone = (): void => fail(clientGone())
    request.on('data', take).on('end', end).on('error', refuse).on('close', gone)
  })
}

/** Inflates a body as far as the limits allow. */
async function inflated(
  request: HttpRequest,
  sent: Buffer,
  coding: keyof typeof DECODERS,
  limits: BodyLimits,
): Promise<Buffer> {
  // Nobody waits for it, and its memory is not counted any more.
  if (request.incoming.socket.destroyed) throw clientGone()
  const gathering = new Gathering(request, limits, 0, coding === 'br' ? BROTLI_BYTES : 0)
  try {
    const decoder = DECODERS[coding]()
    decoder.end(sent)
    for await (const chunk of decoder) gathering.add(chunk as Buffer)
    return gathering.end()
  } catch (error) {
    gathering.drop()
    throw bodyRefusal(error as Error, Math.max(limits.bytes, limits.listBytes))
  }
}

function clientGone(): Refusal {
  return new Refusal('Invalid', 'The body could not be read: the client disconnected.')
}

/** The memory that is counted for a body of this length. */
function heldFor(length: number): number {
  return Math.max(0, length - SHORT_BYTES)
}

/** The chunks of a body, within its limits, and the memory that they take. */
class Gathering {
  readonly #request: HttpRequest
  readonly #limits: BodyLimits
  /** The length that the client announced; 0 if it did not. */
  readonly #announced: number
  readonly #decoderBytes: number
  readonly #mark: HighWaterMark
  #parts: Buffer[] = []
  #chunks: Buffer[] = []
  #length = 0
  /** Undefined while only white space was read. */
  #limit: number | undefined

  constructor(request: HttpRequest, limits: BodyLimits, announced: number, decoderBytes = 0) {
    this.#request = request
    this.#limits = limits
    this.#announced = announced
    this.#decoderBytes = decoderBytes
    this.#mark = new HighWaterMark({ hold: (bytes) => request.memoryFor('bodies').hold(bytes) })
    this.#mark.reach(decoderBytes)
  }

  /** @throws {Refusal} when a limit or the memory is exceeded. */
  add(chunk: Buffer): void {
    if (this.#chunks.push(chunk) === JOINED_CHUNKS) this.#parts.push(Buffer.concat(this.#chunks.splice(0)))
    this.#length += chunk.length
    this.#limit ??= limitOf(chunk, this.#limits)
    const limit = this.#limit ?? this.#limits.bytes
    if (this.#length > limit || (this.#limit !== undefined && this.#announced > limit)) throw tooLarge(limit)
    this.#mark.reach(this.#decoderBytes + GATHERED_BYTES * heldFor(this.#length))
  }

  /** The whole body. */
  end(): Buffer {
    const body = joined([...this.#parts, ...this.#chunks], this.#length)
    this.#holdOnly(heldFor(this.#length))
    return body
  }

  /** A refused body is not held while the refusal is sent. */
  drop(): void {
    this.#parts = []
    this.#chunks = []
    this.#holdOnly(0)
  }

  #holdOnly(bytes: number): void {
    if (this.#mark.bytes > bytes) this.#request.memoryFor('bodies').count(bytes - this.#mark.bytes)
  }
}

/** The limit of a body that begins with a chunk; undefined while only white space was read. */
function limitOf(chunk: Buffer, { bytes, listBytes }: BodyLimits): number | undefined {
  const isList = beginsAsList(chunk)
  return isList === undefined ? undefined : isList ? listBytes : bytes
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

function unreadable(message: string): string {
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
