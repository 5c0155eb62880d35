import { crc32 } from 'node:zlib'
import { Corruption } from '../../errors.ts'
import type { Mark, MarkedSegment } from '../../events/mark.ts'
import { frame, readFrame } from '../../events/record.ts'
import { type Files, type OpenFile, readFully } from '../../files/files.ts'
import type { JsonObject } from '../../json/value.ts'
import type { Piece } from './kept.ts'

/** Another one is not read. */
const FORMAT = 1
const WRITE_BYTES = 256 * 1024
const READ_BYTES = 4 * 1024 * 1024
const TEXTS = Buffer.from(',"texts":[')

/** A piece, and the name of the projection that it is of. */
export interface NamedPiece extends Piece {
  readonly of: string
}

interface Head {
  readonly checkpoint: number
  readonly mark: Omit<Mark, 'segments'>
  readonly segments: number
}

interface End {
  readonly end: number
  /** Crc32 of the crcs of all lines before. */
  readonly sum: number
}

/** A checkpoint's bytes: lines framed as the journal's are, the mark first and the end last. docs/journal.md has the format. */
export function* encodeCheckpoint(mark: Mark, pieces: Iterable<NamedPiece>): Generator<Buffer> {
  const { segments, ...rest } = mark
  let gathered: Buffer[] = []
  let size = 0
  let lines = 0
  let sum = 0
  const add = (json: string): void => {
    const { bytes, crc } = frame(json)
    gathered.push(bytes)
    size += bytes.length
    sum = crc32(crc, sum)
    lines++
  }
  add(JSON.stringify({ checkpoint: FORMAT, mark: rest, segments: segments.length } satisfies Head))
  for (const segment of segments) add(JSON.stringify(segment))
  for (const { of, fields, texts = [] } of pieces) {
    const lengths = texts.map((text) => Buffer.byteLength(text))
    add(`${JSON.stringify({ of, fields, lengths }).slice(0, -1)},"texts":[${texts.join(',')}]}`)
    if (size < WRITE_BYTES) continue
    yield Buffer.concat(gathered, size)
    gathered = []
    size = 0
  }
  add(JSON.stringify({ end: lines, sum } satisfies End))
  yield Buffer.concat(gathered, size)
}

/**
 * Reads a checkpoint; `fits` is asked whether to go on as soon as the mark is known, then each piece is handed over.
 * Undefined when it is not to be gone on with. What is not a whole checkpoint is thrown as Corruption, which may be
 * as late as at its end.
 */
export async function readCheckpoint(
  files: Files,
  path: string,
  fits: (mark: Mark) => Promise<boolean>,
  take: (piece: NamedPiece) => void,
): Promise<Mark | undefined> {
  const file = await files.open(path, 'read')
  try {
    let head: Head | undefined
    let mark: Mark | undefined
    const segments: MarkedSegment[] = []
    let lines = 0
    let sum = 0
    let ended = false
    for await (const { bytes, start, end, crc } of linesOf(file)) {
      if (ended) throw new Corruption('something follows its end')
      if (!mark) {
        const json = JSON.parse(`{${bytes.toString('utf8', start, end)}`)
        if (!head) {
          head = json as Head
          if (head.checkpoint !== FORMAT) throw new Corruption(`it has format ${JSON.stringify(head.checkpoint)}`)
        } else segments.push(json as MarkedSegment)
        if (segments.length === head.segments) {
          mark = { ...head.mark, segments }
          if (!(await fits(mark))) return undefined
        }
      } else {
        const piece = decodeLine(bytes, start, end)
        if ('end' in piece) {
          if (piece.end !== lines || piece.sum !== sum) throw new Corruption('lines of it are missing')
          ended = true
        } else take(piece)
      }
      sum = crc32(crc, sum)
      lines++
    }
    if (!ended) throw new Corruption('it has no end')
    return mark
  } finally {
    await file.close()
  }
}

function decodeLine(bytes: Buffer, start: number, end: number): NamedPiece | End {
  const line = bytes.subarray(start, end)
  // JSON escapes a quotation mark within text, so that this can be nothing else.
  const at = line.indexOf(TEXTS)
  if (at < 0) return JSON.parse(`{${line.toString()}`) as End
  const { of, fields, lengths } = JSON.parse(`{${line.toString('utf8', 0, at)}}`) as {
    readonly of: string
    readonly fields: JsonObject
    readonly lengths: readonly number[]
  }
  let from = at + TEXTS.length
  const texts = lengths.map((length) => {
    const text = line.toString('utf8', from, from + length)
    from += length + 1
    return text
  })
  return { of, fields, texts }
}

interface ReadLine {
  readonly bytes: Buffer
  readonly start: number
  /** Without the newline. */
  readonly end: number
  readonly crc: string
}

/** The whole lines of a file; while one part of it is gone through, the next one is read. */
async function* linesOf(file: OpenFile): AsyncGenerator<ReadLine> {
  let offset = READ_BYTES
  let coming = readFully(file, READ_BYTES, 0)
  let rest: Buffer = Buffer.alloc(0)
  try {
    for (;;) {
      const read = await coming
      if (read.length > 0) coming = readFully(file, READ_BYTES, offset)
      offset += READ_BYTES
      const bytes = rest.length === 0 ? read : Buffer.concat([rest, read])
      let at = 0
      while (at < bytes.length) {
        const found = readFrame(bytes, at)
        if (found.kind === 'cut' && read.length > 0) break
        if (found.kind !== 'whole') throw new Corruption('it is damaged')
        yield { bytes, start: found.start, end: found.end - 1, crc: found.crc }
        at = found.end
      }
      rest = bytes.subarray(at)
      if (read.length === 0) return
    }
  } finally {
    // The file is closed next: not under a read that is still going on.
    await coming.catch(() => {})
  }
}
