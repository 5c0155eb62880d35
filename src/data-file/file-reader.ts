import { type FileItem, invalid } from '../collections/file-items.ts'
import { Difference } from '../commands/difference.ts'
import { MOST_COLLECTIONS } from '../commands/restore.ts'
import type { Files } from '../files/files.ts'
import { Malformed } from '../json/parse.ts'
import { Syntax } from '../json/where-malformed.ts'
import type { List } from '../runtime/chunked-list.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Turn } from '../runtime/turns.ts'
import { bytesReader, contentOf, type FileContent, isJson5, type ReadBytes, withReader } from './file-content.ts'
import { FileParser, type FileParserOptions, type FileVisitor } from './file-parser.ts'

export interface ReadOptions extends Omit<FileParserOptions, 'visitor'> {
  readonly turn: Turn
  /** Called before each part of the file is read, with the number of bytes left. */
  readonly progress?: ((left: number, size: number) => void | Promise<void>) | undefined
}

/**
 * Reads a data file to its end. `newVisitor` is called again if the file changes meanwhile.
 * @throws {Refusal} `Invalid` with the place, if the file is invalid.
 */
export async function readDataFile<Visitor extends FileVisitor>(
  files: Files,
  path: string,
  options: ReadOptions,
  newVisitor: () => Visitor,
): Promise<{ readonly content: FileContent; readonly visitor: Visitor }> {
  const { turn, progress } = options
  let visitor = newVisitor()
  let readings = 0
  const content = await contentOf(files, path, async (read, size) => {
    if (readings++ > 0) visitor = newVisitor()
    let left = size
    const reported: ReadBytes = async (into) => {
      await progress?.(left, size)
      const bytes = await read(into)
      left -= bytes
      return bytes
    }
    const json = isJson5(path) ? await jsonOf(reported, path, size) : undefined
    const again = json ? (use: Use) => use(bytesReader(json)) : (use: Use) => withReader(files, path, use)
    await parse(json ? bytesReader(json) : reported, { ...options, visitor }, turn, again)
  })
  if (!content) throw new Refusal('Unavailable', `The data file ${path} was removed while it was read.`)
  return { content, visitor }
}

/**
 * Reads a request body in the form of a data file.
 * @throws {Refusal} `Invalid` with the place, as for a file.
 */
export async function readDataFileBody(
  bytes: Buffer,
  { idField, mostValues }: { readonly idField: string; readonly mostValues: number },
  turn: Turn,
): Promise<ReadonlyMap<string, List<FileItem>>> {
  const hold = (bytes: number): void => turn.hold(bytes)
  const visitor = new Difference({ base: new Map(), idField, hold, kind: 'restore', keeps: 'nothing' })
  const options = { idField, mostValues, mostCollections: MOST_COLLECTIONS, visitor }
  await parse(bytesReader(bytes), options, turn, async (use) => use(bytesReader(bytes)))
  const { collections } = await visitor.end(turn)
  return new Map(collections.map(({ name, edited }) => [name, edited]))
}

/** The refusal of a file that is not JSON, as after an interrupted write in place. */
export class NotJson extends Refusal {}

type Use = (read: ReadBytes) => Promise<unknown>

/** JSON5 is read at once. */
const MOST_JSON5_BYTES = 1024 * 1024

/** The JSON of a JSON5 file. */
async function jsonOf(read: ReadBytes, path: string, size: number): Promise<Buffer> {
  if (size > MOST_JSON5_BYTES) {
    throw invalid(
      '',
      `a JSON5 file has at most ${MOST_JSON5_BYTES} bytes, and this one ${size}: make a JSON file of it`,
    )
  }
  const bytes = Buffer.alloc(size)
  const text = bytes.subarray(0, await read(bytes)).toString()
  try {
    const { default: JSON5 } = await import('json5')
    const value = JSON5.parse(text, refuseInfinite)
    refuseDuplicates(text, (name) => Object.keys(JSON5.parse(`{${name}:0}`))[0] as string)
    return Buffer.from(JSON.stringify(value))
  } catch (error) {
    const message = `The data file ${path} is not well-formed JSON5: ${(error as Error).message.replace('JSON5: ', '')}`
    throw new NotJson('Invalid', `${message}.`, [{ pointer: '', message }])
  }
}

/** The tokens of JSON5 that tell where members are: comments, texts, names, brackets and colons. Numbers look like names. */
const JSON5_TOKEN =
  /\/\/[^\n\r\u2028\u2029]*|\/\*[\s\S]*?\*\/|"[^"\\]*(?:\\[\s\S][^"\\]*)*"|'[^'\\]*(?:\\[\s\S][^'\\]*)*'|[{}[\],:]|[^\s\uFEFF{}[\],:"'/]+/g

/** Refuses a member that an object of well-formed JSON5 has twice, as json5 drops the first one. */
function refuseDuplicates(text: string, nameOf: (token: string) => string): void {
  const objects: Set<string>[] = []
  let last = ''
  for (const [token] of text.matchAll(JSON5_TOKEN)) {
    if (token.startsWith('/')) continue
    if (token === '{') objects.push(new Set())
    else if (token === '}') objects.pop()
    else if (token === ':') {
      const names = objects.at(-1) as Set<string>
      const name = nameOf(last)
      if (names.has(name)) throw new Error(`${JSON.stringify(name)} is given twice in one object`)
      names.add(name)
    }
    last = token
  }
}

function refuseInfinite(name: string, value: unknown): unknown {
  if (typeof value !== 'number' || Number.isFinite(value)) return value
  throw new Error(`${name} is ${value}, which JSON cannot express`)
}

/** `again` reads the same bytes from the beginning, to find a syntax error. */
async function parse(
  read: ReadBytes,
  options: FileParserOptions,
  turn: Turn,
  again: (use: Use) => Promise<unknown>,
): Promise<void> {
  const parser = new FileParser(read, options, turn)
  try {
    await parser.parse()
  } catch (error) {
    const isInvalid = error instanceof Refusal && error.code === 'Invalid'
    if (!isInvalid && !(error instanceof Malformed)) throw error
    let why: string | undefined
    await again(async (read) => {
      why = await whyMalformed(read, turn)
    })
    if (why === undefined && isInvalid) throw error
    const message = `The data file is not ${why ?? 'well-formed JSON'}`
    throw new NotJson('Invalid', `${message}.`, [{ pointer: parser.pointer, message }])
  }
}

/** Bytes decoded at once. */
const CHUNK_BYTES = 32 * 1024

/** Describes the first UTF-8 or syntax error with its place; undefined if there is none. */
async function whyMalformed(read: ReadBytes, turn: Turn): Promise<string | undefined> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const syntax = new Syntax()
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES)
  for (;;) {
    if (turn.isOver) await turn.next()
    const bytes = await read(buffer)
    let chunk: string
    try {
      chunk = decoder.decode(buffer.subarray(0, bytes), { stream: bytes > 0 })
    } catch {
      return 'valid UTF-8'
    }
    const error = bytes > 0 ? syntax.errorIn(chunk) : syntax.errorAtEnd()
    if (error !== undefined) return `well-formed JSON: ${error}`
    if (bytes === 0) return undefined
  }
}
