import { invalid } from '../collections/file-items.ts'
import { HIGHEST_ID } from '../collections/item.ts'
import { assignedId } from '../commands/decide.ts'
import { type Base, type CollectionDifference, Difference } from '../commands/difference.ts'
import type { CollectionEdit, Edit } from '../commands/edit.ts'
import type { MergeOutcome } from '../commands/handler.ts'
import type { ItemId } from '../events/event.ts'
import { partKey } from '../events/journal.ts'
import type { Files } from '../files/files.ts'
import { parseText } from '../json/parse.ts'
import { pointer } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import { Refusal } from '../runtime/errors.ts'
import type { FileContent } from './file-content.ts'
import type { FileVisitor, ItemVisitor } from './file-parser.ts'
import { type ReadOptions, readDataFile } from './file-reader.ts'
import type { JournalConnection } from './journal-connection.ts'

/** Highest total length of the items that are imported in one write. */
const PART_CHARACTERS = 4 * 1024 * 1024

const USED = 'the highest integer id is in use, so that none can be assigned'

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
      // It precedes each `add`, whose text is not that of the file.
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

export interface PartsOptions extends Omit<ReadOptions, 'check'>, Pick<JournalConnection, 'check' | 'merge'> {
  /** The items that an interrupted import left. */
  readonly base: Base
  /** The result of an earlier check, which is repeated if the file has changed. */
  readonly checked: CheckedFile | undefined
}

export interface ImportedParts {
  readonly outcomes: readonly MergeOutcome[]
  readonly content: FileContent
  /** Whether the file shows exactly the base with the edit: all items had ids, and their order was merged. */
  readonly isShown: boolean
}

/**
 * Imports first items that are too large to be held in memory: checks all of them, and reads them again in parts. The ids
 * that it assigns depend on the file alone, so that the continuation of an interrupted import finds its items.
 * @throws {Refusal} `Unavailable` if the file changes, before anything that was not checked is merged; `Invalid` if it is
 * invalid, or if ids beyond HIGHEST_ID would have to be assigned.
 */
export async function importParts(
  files: Files,
  path: string,
  { base, checked: before, check, merge, ...options }: PartsOptions,
): Promise<ImportedParts> {
  const { idField, progress } = options
  const isChecked = before && before.content.signature === (await files.stat(path))?.signature
  const { content, collections } = isChecked ? before : await checkFile(files, path, { ...options, check })
  for (const [name, { nextId, hasUnnamed }] of collections) {
    // Texts of the file may spell the integers that would be assigned.
    if (hasUnnamed && nextId > HIGHEST_ID) throw invalid(pointer([name]), `write an "${idField}" in each item: ${USED}`)
  }
  const difference = new Difference({ base, idField, kind: 'first items', keeps: 'nothing', hasUniqueIds: true })
  let characters = 0
  const added = (length: number): void => {
    characters += length
  }
  const visitor: FileVisitor = {
    collection(name, isObject) {
      const checked = collections.get(name)
      if (!checked) throw changed(path)
      return namedItems(difference.collection(name, isObject), { checked, idField, added })
    },
  }
  const latestWritten = new Set<string>()
  const outcomes: MergeOutcome[] = []
  const mergePart = async (part: Edit, key: string): Promise<void> => {
    outcomes.push(await merge(part, key, latestWritten))
  }
  // Reading continues while a part is being written.
  let merging = Promise.resolve()
  const mergeRead = async (left: number, size: number): Promise<void> => {
    await progress?.(left, size)
    if (characters <= PART_CHARACTERS) return
    characters = 0
    if ((await files.stat(path))?.signature !== content.signature) throw changed(path)
    await merging
    merging = mergePart(difference.take(), partKey(content.hash))
    merging.catch(() => {})
  }
  let readings = 0
  const newVisitor = (): FileVisitor => {
    if (readings++ > 0) throw changed(path)
    return visitor
  }
  try {
    const again = await readDataFile(files, path, { ...options, progress: mergeRead }, newVisitor)
    if (again.content.hash !== content.hash) throw changed(path)
  } finally {
    await merging.catch(() => {})
  }
  await merging
  const rest = await difference.end(options.turn)
  await mergePart(rest, content.hash)
  const hasAllIds = [...collections.values()].every(({ hasUnnamed }) => !hasUnnamed)
  return { outcomes, content, isShown: hasAllIds && rest.collections.every(({ isReordered }) => !isReordered) }
}

interface NamedItemsOptions {
  readonly checked: CheckedCollection
  readonly idField: string
  readonly added: (length: number) => void
}

const ID = /(?:\d{1,15}|"[^"\\]*")(?=[,}])/y

function namedItems(items: CollectionDifference, { checked, idField, added }: NamedItemsOptions): ItemVisitor {
  const prefix = `{${JSON.stringify(idField)}:`
  let { nextId } = checked
  return {
    // An item was checked, so it need not be parsed if its id comes first.
    known(text) {
      if (!checked.isCanonical || !text.startsWith(prefix)) return undefined
      ID.lastIndex = prefix.length
      const [id] = ID.exec(text) ?? []
      return id === undefined ? undefined : { id: JSON.parse(id) as ItemId, text }
    },
    add(id, text) {
      added(text.length)
      if (id !== undefined) return items.add(id, text)
      const assigned = assignedId(nextId++)
      const item = { [idField]: assigned, ...(parseText(text) as JsonObject) }
      return items.add(assigned, JSON.stringify(item))
    },
  }
}

function changed(path: string): Refusal {
  const why = `The data file ${path} was changed while its first items were imported.`
  return new Refusal('Unavailable', `${why} Start again, and the import continues.`)
}
