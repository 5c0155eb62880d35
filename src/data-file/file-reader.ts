import type { FileContents } from '../collections/file-items.ts'
import type { Files } from '../files/files.ts'
import { Malformed } from '../json/parse-steps.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Slices, Steps } from '../runtime/time-slices.ts'
import { alwaysWritten, contentOf, type FileContent, piecesOf } from './file-content.ts'
import { FileChanged, FileParser, type FileParserOptions, whyInvalid } from './file-parser.ts'

export interface ReadResult {
  /** The contents; with edited items only if all of them fit in memory. */
  readonly file: FileContents
  readonly content: FileContent
  readonly hasAllEdited: boolean
}

/** How often to read a file that changes while it is read. */
const MOST_ATTEMPTS = 5
/** Syntax errors are searched for only in files up to this size, since they are held in memory for that. */
const MOST_SEARCHED_BYTES = 256 * 1024 * 1024

/** Retries work that throws FileChanged. */
export async function retryWhileChanging<T>(
  path: string,
  work: (attempt: number) => Promise<T>,
  attempts = MOST_ATTEMPTS,
): Promise<T> {
  for (let attempt = 0; attempt < attempts; attempt++) {
    try {
      return await work(attempt)
    } catch (error) {
      if (!(error instanceof FileChanged)) throw error
    }
  }
  throw alwaysWritten(path)
}

/** Reads a data file. `visit` gets all edited items, some at a time; `isWhole` when they come at once. */
export async function readInParts(
  files: Files,
  path: string,
  options: Omit<FileParserOptions, 'full'>,
  visit: (contents: FileContents, isWhole: boolean) => Steps<void>,
): Promise<ReadResult> {
  const { slices } = options
  let hasAllEdited = true
  const full = async (contents: FileContents): Promise<void> => {
    hasAllEdited = false
    await slices.run(() => visit(contents, false))
    for (const items of contents.values()) items.takeEdited()
  }
  const read = await readDataFile(files, path, { ...options, full })
  await slices.run(() => visit(read.file, hasAllEdited))
  return { ...read, hasAllEdited }
}

/**
 * Reads a data file to its end.
 * @throws {Refusal} `Invalid` with the place, if the file is invalid.
 */
export async function readDataFile(
  files: Files,
  path: string,
  options: FileParserOptions,
): Promise<Pick<ReadResult, 'file' | 'content'>> {
  let parser: FileParser | undefined
  try {
    const content = await contentOf(files, path, () => {
      // Nothing may be merged or counted twice.
      if (parser && (options.known || parser.wasFull)) throw new FileChanged()
      parser = new FileParser(options)
      return parser
    })
    if (content && parser) return { file: await parser.contents(), content }
  } catch (error) {
    throw await withSyntaxError(error, parser?.place ?? '', options.slices, async () => {
      const size = (await files.stat(path))?.size ?? 0
      return size <= MOST_SEARCHED_BYTES ? await piecesOf(files, path) : undefined
    })
  }
  throw new Refusal('Unavailable', `The data file ${path} was removed while it was read.`)
}

/**
 * Reads a request body in the form of a data file. All of its items are among the edited ones.
 * @throws {Refusal} `Invalid` with the place, as for a file.
 */
export async function readBody(bytes: Buffer, idField: string, slices: Slices): Promise<FileContents> {
  const parser = new FileParser({ base: new Map(), idField, slices, full: () => {} })
  try {
    for (let at = 0; at <= bytes.length; ) {
      const room = await parser.allocate(bytes.length - at)
      const part = bytes.subarray(at, at + room.length)
      room.set(part)
      parser.commit(part.length)
      // No bytes are the end.
      if (part.length === 0) break
      at += part.length
    }
    return await parser.contents()
  } catch (error) {
    throw await withSyntaxError(error, parser.place, slices, async () => [bytes])
  }
}

/** The syntax error of an invalid file with its place, if it has one; undefined `pieces` are too large to search. */
async function withSyntaxError(
  error: unknown,
  place: string,
  slices: Slices,
  pieces: () => Promise<readonly Buffer[] | undefined>,
): Promise<unknown> {
  const isInvalid = error instanceof Refusal && error.code === 'Invalid'
  if (!isInvalid && !(error instanceof Malformed)) return error
  const found = await pieces()
  const why = found && (await slices.run(() => whyInvalid(found, place)))
  return why ?? (isInvalid ? error : malformedAt(place))
}

function malformedAt(place: string): Refusal {
  const message = `The data file is not well-formed JSON: the error is in or after ${place || 'the root'}`
  return new Refusal('Invalid', `${message}.`, [{ pointer: place, message }])
}
