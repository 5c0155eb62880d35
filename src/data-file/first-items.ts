import { crc32 } from 'node:zlib'
import type { FileItem } from '../collections/file-items.ts'
import { IdIndex } from '../collections/id-index.ts'
import { HIGHEST_ID, integerAfter } from '../collections/item.ts'
import { assignedId } from '../commands/decide.ts'
import type { CollectionDifference, Difference } from '../commands/difference.ts'
import type { Edit } from '../commands/edit.ts'
import type { ItemId } from '../events/event.ts'
import type { Files } from '../files/files.ts'
import { parseText } from '../json/parse-text.ts'
import type { JsonObject } from '../json/value.ts'
import { type FileContent, type ReadBytes, reading } from './file-content.ts'
import { FileParser, type FileVisitor, type ItemVisitor } from './file-parser.ts'
import { FileChanged, type ReadOptions, readDataFile } from './file-reader.ts'

/** Highest total length of the items that are imported in one write. */
const PART_CHARACTERS = 4 * 1024 * 1024

/** The result of reading a data file with an empty base; one that is not too large to be held in memory is an edit. */
export type FirstItems = CheckedFile | { readonly content: FileContent; readonly edit: Edit }

/** Reads and validates a file. */
export async function checkFile(files: Files, path: string, options: ReadOptions): Promise<CheckedFile> {
  const { content, visitor } = await readDataFile(files, path, options, () => new FileCheck())
  const { checksums, collections } = visitor
  for (const items of collections.values()) items.forgetIds()
  return { content, checksums, collections }
}

/** A valid data file that is too large to be held in memory. */
export interface CheckedFile extends Pick<FileCheck, 'checksums' | 'collections'> {
  readonly content: FileContent
}

class FileCheck implements FileVisitor {
  /** The crc32 of the parts in which it is read. */
  readonly checksums: number[] = []
  readonly collections = new Map<string, CheckedItems>()

  part(bytes: Buffer): void {
    this.checksums.push(crc32(bytes))
  }

  collection(name: string): CheckedItems {
    const items = new CheckedItems()
    this.collections.set(name, items)
    return items
  }
}

class CheckedItems implements ItemVisitor {
  /** Above all integer ids. */
  nextId = 0
  hasUnnamed = false
  /** Whether the file has all items in the format of JSON.stringify. */
  isCanonical = true
  #ids = new IdIndex()
  #length = 0

  known(): undefined {}

  add(id: ItemId | undefined, text: string, _: FileItem | undefined, source: string): number | undefined {
    const index = this.#length++
    if (source !== text) this.isCanonical = false
    if (id === undefined) {
      this.hasUnnamed = true
      return undefined
    }
    this.nextId = Math.max(this.nextId, integerAfter(id))
    const earlier = this.#ids.get(id)
    if (earlier === undefined) this.#ids.set(id, index)
    return earlier
  }

  /** The ids need memory, and are needed only if texts beyond HIGHEST_ID may spell the integers that are assigned. */
  forgetIds(): void {
    if (this.nextId <= HIGHEST_ID) this.#ids = new IdIndex()
  }

  isTaken(id: number): boolean {
    return this.#ids.has(id)
  }
}

export interface PartsOptions extends ReadOptions {
  /** Compares the items with those that an interrupted import left. */
  readonly difference: Difference
  /** Merges the items that the difference has found since the last call. */
  readonly part: () => Promise<void>
}

/**
 * Reads a checked file again, in parts. The ids that it assigns depend on the file alone, so that the continuation of an
 * interrupted import finds its items.
 * @throws {FileChanged} before anything that was not checked is added.
 */
export async function readParts(
  files: Files,
  path: string,
  { checksums, collections }: CheckedFile,
  options: PartsOptions,
): Promise<void> {
  const { difference, idField, turn, progress, part } = options
  let characters = 0
  // Reading continues while a part is being written.
  let merging = Promise.resolve()
  const added = (length: number): void => {
    characters += length
  }
  const visitor: FileVisitor = {
    collection(name, isObject) {
      const checked = collections.get(name) as CheckedItems
      return new NamedItems(difference.collection(name, isObject), { idField, checked, added })
    },
  }
  try {
    const isThere = await reading(files, path, async (read, size) => {
      let number = 0
      let left = size
      const checkedRead: ReadBytes = async (room) => {
        progress?.(left, size)
        if (characters > PART_CHARACTERS) {
          characters = 0
          await merging
          merging = part()
          merging.catch(() => {})
        }
        const bytes = await read(room)
        if (bytes > 0 && crc32(room.subarray(0, bytes)) !== checksums[number++]) throw new FileChanged()
        left -= bytes
        return bytes
      }
      await new FileParser(checkedRead, { idField, visitor }, turn).parse()
      if (number !== checksums.length) throw new FileChanged()
    })
    if (!isThere) throw new FileChanged()
  } finally {
    await merging.catch(() => {})
  }
  await merging
}

interface NamedItemsOptions {
  readonly idField: string
  readonly checked: CheckedItems
  readonly added: (length: number) => void
}

const ID = /(?:\d{1,15}|"[^"\\]*")(?=[,}])/y

class NamedItems implements ItemVisitor {
  readonly #difference: CollectionDifference
  readonly #options: NamedItemsOptions
  readonly #prefix: string
  #next: number

  constructor(difference: CollectionDifference, options: NamedItemsOptions) {
    this.#difference = difference
    this.#options = options
    this.#prefix = `{${JSON.stringify(options.idField)}:`
    this.#next = options.checked.nextId
  }

  /** An item was checked, so it need not be parsed if its id comes first. */
  known(text: string): FileItem | undefined {
    if (!this.#options.checked.isCanonical || !text.startsWith(this.#prefix)) return undefined
    ID.lastIndex = this.#prefix.length
    const [id] = ID.exec(text) ?? []
    return id === undefined ? undefined : { id: JSON.parse(id) as ItemId, text }
  }

  add(id: ItemId | undefined, text: string): undefined {
    this.#options.added(text.length)
    if (id !== undefined) this.#difference.add(id, text)
    else {
      while (this.#options.checked.isTaken(this.#next)) this.#next++
      const assigned = assignedId(this.#next++)
      const item = { [this.#options.idField]: assigned, ...(parseText(text) as JsonObject) }
      this.#difference.add(assigned, JSON.stringify(item))
    }
  }
}
