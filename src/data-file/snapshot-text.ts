import { createHash } from 'node:crypto'
import { holdsObject, itemsIn } from '../collections/stored-items.ts'
import type { Base } from '../commands/difference.ts'
import { type Files, type OpenFile, writeChunks, writeNew } from '../files/files.ts'
import { parseText } from '../json/parse-text.ts'

/** Writes a state as a new data file, synced; resolves with its SHA-256. */
export async function writeSnapshot(
  files: Files,
  path: string,
  snapshot: Base,
  mode?: number,
  beforePart: () => void = () => {},
): Promise<string> {
  const hash = createHash('sha256')
  await writeNew(files, path, hashing(chunksOf(snapshot), hash, beforePart), mode)
  return hash.digest('hex')
}

/** Overwrites an open file, which must be empty; resolves with the SHA-256. */
export async function overwriteSnapshot(file: OpenFile, snapshot: Base): Promise<string> {
  const hash = createHash('sha256')
  await writeChunks(file, hashing(chunksOf(snapshot), hash))
  return hash.digest('hex')
}

function* hashing(
  chunks: Iterable<Buffer>,
  hash: { update(bytes: Uint8Array): unknown },
  beforePart: () => void = () => {},
): Generator<Buffer> {
  for (const chunk of chunks) {
    beforePart()
    hash.update(chunk)
    yield chunk
  }
}

const CHUNK_CHARACTERS = 64 * 1024

/** From this number of items on, each has a single line: a third of the bytes would be blanks. */
const MANY_ITEMS = 1000

/**
 * The text of a data file in pieces, as it may exceed the longest string: the format of `JSON.stringify(…, null, 2)`,
 * but with one line for each item of a large collection.
 */
function* chunksOf(snapshot: Base): Generator<Buffer> {
  let text = '{'
  let collections = 0
  for (const [name, collection] of snapshot) {
    const isObject = holdsObject(collection)
    const newLine = isObject ? '\n  ' : '\n    '
    text += `${collections++ ? ',' : ''}\n  ${JSON.stringify(name)}: ${isObject ? '' : '['}`
    let count = 0
    for (const item of itemsIn(collection)) {
      if (!isObject) text += `${count++ ? ',' : ''}\n    `
      text += collection.size < MANY_ITEMS ? indented(item.text, newLine) : item.text
      if (text.length < CHUNK_CHARACTERS) continue
      yield Buffer.from(text)
      text = ''
    }
    if (!isObject) text += count ? '\n  ]' : ']'
  }
  yield Buffer.from(`${text}${collections ? '\n}' : '}'}\n`)
}

function indented(json: string, newLine: string): string {
  return JSON.stringify(parseText(json), null, 2).replaceAll('\n', newLine)
}
