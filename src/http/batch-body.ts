import type { IncomingMessage } from 'node:http'
import { createBrotliDecompress, createGunzip, createInflate } from 'node:zlib'
import * as CODE from '../json/char-codes.ts'
import { invalidUtf8, refuseNul } from '../json/parse.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Turn } from '../runtime/turns.ts'
import { bodyRefusal, normalizeCoding, tooLarge } from './koa-body.ts'

/** Chunks that are joined while a body is received, as each takes some 200 bytes beside its own. */
const JOINED_CHUNKS = 1024

const DECODERS = { gzip: createGunzip, deflate: createInflate, br: createBrotliDecompress }

/** Highest size of a body after decompression. */
export interface BodyLimits {
  readonly bytes: number
  /** Applies if the body begins with a bracket, as a JSON list does. */
  readonly listBytes: number
}

/**
 * Reads the body of a request, decompressed. Stops as soon as the limit is exceeded, so that a small body that inflates
 * to gigabytes costs no more than the limit.
 */
export function gatherBody(request: IncomingMessage, { bytes, listBytes }: BodyLimits): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // User middleware has read it.
    if (!request.readable) throw new Refusal('Invalid', 'The body could not be read: stream is not readable.')
    normalizeCoding(request)
    const coding = request.headers['content-encoding']
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
      const most = limit ?? listBytes
      if (Math.max(length, announced) > most) fail(tooLarge(most))
    }
    const endDecoder = (): void => {
      if (!decoder) return
      request.unpipe(decoder)
      decoder.destroy()
    }
    const fail = (error: Error): void => {
      // The rest is not inflated.
      source.off('data', take)
      endDecoder()
      reject(error)
    }
    const gone = (): void => {
      if (!request.complete) fail(new Refusal('Invalid', 'The body could not be read: the client disconnected.'))
    }
    source.on('data', take)
    source.on('end', () => {
      endDecoder()
      const all = [...parts, ...chunks]
      resolve(all.length === 1 ? (all[0] as Buffer) : Buffer.concat(all, length))
    })
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
