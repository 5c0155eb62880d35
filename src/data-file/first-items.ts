import { assignedId } from '../commands/decide.ts'
import { Difference } from '../commands/difference.ts'
import type { CollectionEdit } from '../commands/edit.ts'
import type { ItemId } from '../events/event.ts'
import type { Files } from '../files/files.ts'
import { parseText } from '../json/parse-text.ts'
import type { JsonObject } from '../json/value.ts'
import type { FileContent } from './file-content.ts'
import type { FileVisitor, ItemVisitor } from './file-parser.ts'
import { FileChanged, type ReadOptions, readDataFile } from './file-reader.ts'

/** Highest total length of the items that are imported in one write. */
const PART_CHARACTERS = 4 * 1024 * 1024

/** A valid data file, whose items are not held. */
export interface CheckedFile {
  readonly content: FileContent
  readonly collections: ReadonlyMap<string, CheckedCollection>
}

interface CheckedCollection extends Pick<CollectionEdit, 'nextId' | 'hasUnnamed'> {
  /** Whether the file has all items in the format of JSON.stringify. */
  readonly isCanonical: boolean
}

/** Reads and validates a file. */
export async function checkFile(files: Files, path: string, options: ReadOptions): Promise<CheckedFile> {
  const { content, visitor } = await readDataFile(files, path, options, () => new FileCheck(options.idField))
  return { content, collections: visitor.collections }
}

class FileCheck implements FileVisitor {
  readonly #difference: Difference
  readonly #reformatted = new Set<string>()

  constructor(idField: string) {
    this.#difference = new Difference({
      base: new Map(),
      idField,
      kind: 'first items',
      keeps: 'nothing',
      isCheck: true,
    })
  }

  get collections(): CheckedFile['collections'] {
    const checked = ({ name, nextId, hasUnnamed }: CollectionEdit) =>
      [name, { nextId, hasUnnamed, isCanonical: !this.#reformatted.has(name) }] as const
    return new Map(this.#difference.take().collections.map(checked))
  }

  collection(name: string, isObject: boolean): ItemVisitor {
    const items = this.#difference.collection(name, isObject)
    let source = ''
    return {
      known: (text) => {
        source = text
        return undefined
      },
      add: (id, text) => {
        if (text !== source) this.#reformatted.add(name)
        return items.add(id, text)
      },
    }
  }
}

export interface PartsOptions extends ReadOptions {
  /** Compares the items with those that an interrupted import left. */
  readonly difference: Difference
  /** Merges the items that the difference has found since the last call. */
  readonly part: () => Promise<void>
}

const ID = /(?:\d{1,15}|"[^"\\]*")(?=[,}])/y

/**
 * Reads a checked file again, in parts. The ids that it assigns depend on the file alone, so that the continuation of an
 * interrupted import finds its items.
 * @throws {FileChanged} before anything that was not checked is merged.
 */
export async function readParts(
  files: Files,
  path: string,
  { content, collections }: CheckedFile,
  options: PartsOptions,
): Promise<void> {
  const { difference, idField, progress, part } = options
  const prefix = `{${JSON.stringify(idField)}:`
  let characters = 0
  // Reading continues while a part is being written.
  let merging = Promise.resolve()
  const collection = (name: string, isObject: boolean): ItemVisitor => {
    const items = difference.collection(name, isObject)
    const checked = collections.get(name)
    if (!checked) throw new FileChanged()
    let { nextId } = checked
    return {
      // An item was checked, so it need not be parsed if its id comes first.
      known: (text) => {
        if (!checked.isCanonical || !text.startsWith(prefix)) return undefined
        ID.lastIndex = prefix.length
        const [id] = ID.exec(text) ?? []
        return id === undefined ? undefined : { id: JSON.parse(id) as ItemId, text }
      },
      add: (id, text) => {
        characters += text.length
        if (id !== undefined) return items.add(id, text)
        const assigned = assignedId(nextId++)
        const item = { [idField]: assigned, ...(parseText(text) as JsonObject) }
        return items.add(assigned, JSON.stringify(item))
      },
    }
  }
  const merge = async (left: number, size: number): Promise<void> => {
    await progress?.(left, size)
    if (characters <= PART_CHARACTERS) return
    characters = 0
    if ((await files.stat(path))?.signature !== content.signature) throw new FileChanged()
    await merging
    merging = part()
    merging.catch(() => {})
  }
  let readings = 0
  const newVisitor = (): FileVisitor => {
    if (readings++ > 0) throw new FileChanged()
    return { collection }
  }
  try {
    const again = await readDataFile(files, path, { ...options, progress: merge }, newVisitor)
    if (again.content.hash !== content.hash) throw new FileChanged()
  } finally {
    await merging.catch(() => {})
  }
  await merging
}
