import { crc32 } from 'node:zlib'
import { LRUCache } from 'lru-cache'
import { type OpenFile, readFully } from '../files/files.ts'
import { lowerBound } from '../runtime/chunked-list.ts'
import type { Position } from './event.ts'

/** A gzip member of a compressed segment. */
export interface Member {
  /** Its offset and length in the file. */
  readonly offset: number
  readonly length: number
  /** The offset and length of its text in the segment's text. */
  readonly textOffset: number
  readonly textLength: number
  /** crc32 of its bytes in the file. */
  readonly crc: number
}

/** The header of an empty gzip member with an extra field (RFC 1952): no time, no compressor flags, unknown system. */
const HEADER = Buffer.from([0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 255])
/** An empty deflate block, and the crc32 and the length of no bytes. */
const EMPTY_BLOCK = Buffer.from([3, 0, 0, 0, 0, 0, 0, 0, 0, 0])
/** Where the payload of an empty member's subfield begins: after the lengths and the name of the subfield. */
const PAYLOAD = HEADER.length + 2 + 4
/** Bytes of an empty member besides its payload. */
const AROUND_BYTES = PAYLOAD + EMPTY_BLOCK.length

const ROW_BYTES = 12
/** An extra field has at most 65,535 bytes. */
const TABLE_ROWS = 5000
const FOOTER_BYTES = AROUND_BYTES + 20

/**
 * The table of the members of a compressed segment. It is stored at the end, in the extra fields of empty gzip members:
 * subfields RT with at most 5,000 rows each (bytes in the file, bytes of text and crc32 of the member), and a last
 * subfield RF (number of members, bytes of text, bytes of all members, crc32 of the rows). Integers are little-endian.
 */
export class MemberTable {
  readonly #ends: number[] = []
  readonly #textEnds: number[] = []
  readonly #crcs: number[] = []

  add(bytes: Buffer, textLength: number): void {
    this.#add(bytes.length, textLength, crc32(bytes))
  }

  /** Bytes of text. */
  get size(): number {
    return this.#textEnds.at(-1) ?? 0
  }

  /** Bytes of the file. */
  get fileSize(): number {
    return this.#membersSize + trailerBytes(this.#ends.length)
  }

  get #membersSize(): number {
    return this.#ends.at(-1) ?? 0
  }

  /** The member with this byte of the text; undefined beyond the end. */
  at(textOffset: number): Member | undefined {
    const index = lowerBound(this.#textEnds, textOffset + 1)
    if (index === this.#textEnds.length) return undefined
    const offset = this.#ends[index - 1] ?? 0
    const textBegin = this.#textEnds[index - 1] ?? 0
    return {
      offset,
      length: (this.#ends[index] as number) - offset,
      textOffset: textBegin,
      textLength: (this.#textEnds[index] as number) - textBegin,
      crc: this.#crcs[index] as number,
    }
  }

  encode(): Buffer {
    const rows = Buffer.alloc(this.#ends.length * ROW_BYTES)
    for (let at = 0; at < this.#ends.length; at++) {
      rows.writeUInt32LE((this.#ends[at] as number) - (this.#ends[at - 1] ?? 0), at * ROW_BYTES)
      rows.writeUInt32LE((this.#textEnds[at] as number) - (this.#textEnds[at - 1] ?? 0), at * ROW_BYTES + 4)
      rows.writeUInt32LE(this.#crcs[at] as number, at * ROW_BYTES + 8)
    }
    const parts: Buffer[] = []
    for (let from = 0; from < rows.length; from += TABLE_ROWS * ROW_BYTES) {
      parts.push(emptyMember('RT', rows.subarray(from, from + TABLE_ROWS * ROW_BYTES)))
    }
    const footer = Buffer.alloc(20)
    footer.writeUInt32LE(this.#ends.length, 0)
    footer.writeUIntLE(this.size, 4, 6)
    footer.writeUIntLE(this.#membersSize, 10, 6)
    footer.writeUInt32LE(crc32(rows), 16)
    return Buffer.concat([...parts, emptyMember('RF', footer)])
  }

  /** The table at the end of a file; undefined if any byte of it is damaged. */
  static async read(file: OpenFile): Promise<MemberTable | undefined> {
    const size = await file.size()
    if (size < FOOTER_BYTES) return undefined
    const footer = await readFully(file, FOOTER_BYTES, size - FOOTER_BYTES)
    const count = footer.readUInt32LE(PAYLOAD)
    const membersSize = footer.readUIntLE(PAYLOAD + 10, 6)
    if (size !== membersSize + trailerBytes(count)) return undefined
    const trailer = await readFully(file, size - membersSize, membersSize)
    const table = new MemberTable()
    for (let row = 0; row < count; row++) {
      const at = Math.floor(row / TABLE_ROWS) * AROUND_BYTES + PAYLOAD + row * ROW_BYTES
      table.#add(trailer.readUInt32LE(at), trailer.readUInt32LE(at + 4), trailer.readUInt32LE(at + 8))
    }
    return table.encode().equals(trailer) ? table : undefined
  }

  #add(length: number, textLength: number, crc: number): void {
    this.#ends.push(this.#membersSize + length)
    this.#textEnds.push(this.size + textLength)
    this.#crcs.push(crc)
  }
}

/** Bytes of the stored table of so many members. */
function trailerBytes(members: number): number {
  return members * ROW_BYTES + Math.ceil(members / TABLE_ROWS) * AROUND_BYTES + FOOTER_BYTES
}

function emptyMember(subfield: 'RT' | 'RF', payload: Buffer): Buffer {
  const lengths = Buffer.alloc(6)
  lengths.writeUInt16LE(4 + payload.length, 0)
  lengths.write(subfield, 2, 'latin1')
  lengths.writeUInt16LE(payload.length, 4)
  return Buffer.concat([HEADER, lengths, payload, EMPTY_BLOCK])
}

/** Bytes of cached text. */
const MOST_BYTES = 8 * 1024 * 1024

/** An LRU cache of inflated members of one journal, by the first position of their segment and their offset in its file. */
export class InflatedMembers {
  readonly #texts = new LRUCache<string, Buffer>({ maxSize: MOST_BYTES, sizeCalculation: ({ length }) => length })

  get(first: Position, offset: number): Buffer | undefined {
    return this.#texts.get(`${first}:${offset}`)
  }

  /** A text longer than the cache is not cached. */
  set(first: Position, offset: number, text: Buffer): void {
    this.#texts.set(`${first}:${offset}`, text)
  }
}
