import { invalid } from '../collections/file-items.ts'
import { HIGHEST_ID } from '../collections/item.ts'
import { assignedId } from '../commands/decide.ts'
import { type Base, Difference } from '../commands/difference.ts'
import { BYTES, type CollectionEdit, type Edit } from '../commands/edit.ts'
import type { MergeOutcome } from '../commands/handler.ts'
import { EVENT_BYTES, partKey } from '../events/journal.ts'
import type { Files } from '../files/files.ts'
import { parseText } from '../json/parse.ts'
import { pointer } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import { Refusal } from '../runtime/errors.ts'
import { type Memory, textBytes } from '../runtime/memory.ts'
import type { FileContent } from './file-content.ts'
import type { FileVisitor, ItemVisitor } from './file-parser.ts'
import { type ReadOptions, readDataFile } from './file-reader.ts'
import type { JournalConnection } from './journal-connection.ts'

/** Highest memory, in bytes, of the items that are imported in one write. */
const PART_BYTES = 8 * 1024 * 1024

const USED = 'the highest integer id is in use, so that none can be assigned'

/** A valid data file, whose items are not held. */
export interface CheckedFile {
  readonly content: FileContent
  readonly collections: ReadonlyMap<string, CheckedCollection>
}

type CheckedCollection = Pick<CollectionEdit, 'nextId' | 'hasUnnamed'>

/** Reads and validates a file. */
export async function checkFile(files: Files, path: string, options: ReadOptions): Promise<CheckedFile> {
  const { idField } = options
  const newVisitor = (): Difference =>
    new Difference({ base: new Map(), idField, kind: 'first items', keeps: 'nothing', isCheck: true })
  const { content, visitor } = await readDataFile(files, path, options, newVisitor)
  const collections = visitor
    .take()
    .collections.map(({ name, nextId, hasUnnamed }) => [name, { nextId, hasUnnamed }] as const)
  return { content, collections: new Map(collections) }
}

interface PartsOptions extends Omit<ReadOptions, 'check'>, Pick<JournalConnection, 'check' | 'merge'> {
  /** The items that an interrupted import left. */
  readonly base: Base
  /** The result of an earlier check, which is repeated if the file has changed. */
  readonly checked: CheckedFile | undefined
  readonly memory: Memory
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
export async function importParts(files: Files, path: string, options: PartsOptions): Promise<ImportedParts> {
  const { base, checked: before, check, merge, memory, ...readOptions } = options
  const { idField } = options
  const isChecked = before && before.content.signature === (await files.stat(path))?.signature
  const checked = isChecked ? before : await checkFile(files, path, { ...readOptions, check })
  for (const [name, { nextId, hasUnnamed }] of checked.collections) {
    // Texts of the file may spell the integers that would be assigned.
    if (hasUnnamed && nextId > HIGHEST_ID) throw invalid(pointer([name]), `write an "${idField}" in each item: ${USED}`)
  }
  const parts = new PartsImport(files, path, options, checked)
  const outcomes = await parts.run(readOptions)
  const hasAllIds = [...checked.collections.values()].every(({ hasUnnamed }) => !hasUnnamed)
  return { outcomes, content: checked.content, isShown: hasAllIds && !parts.isReordered }
}

/** The second reading of a file that was checked. Reading goes on while a part is being merged. */
class PartsImport implements FileVisitor {
  readonly #files: Files
  readonly #path: string
  readonly #options: PartsOptions
  readonly #checked: CheckedFile
  readonly #difference: Difference
  readonly #outcomes: MergeOutcome[] = []
  readonly #latestWritten = new Set<string>()
  /** The memory of the items since the last part. */
  #bytes = 0
  #merging: Promise<void> = Promise.resolve()
  /** Whether the order of an earlier import differs from that of the file. */
  isReordered = false

  constructor(files: Files, path: string, options: PartsOptions, checked: CheckedFile) {
    this.#files = files
    this.#path = path
    this.#options = options
    this.#checked = checked
    const { base, idField } = options
    this.#difference = new Difference({ base, idField, kind: 'first items', keeps: 'nothing', hasUniqueIds: true })
  }

  async run(options: ReadOptions): Promise<readonly MergeOutcome[]> {
    const { hash } = this.#checked.content
    const progress: ReadOptions['progress'] = async (left, size) => {
      await options.progress?.(left, size)
      await this.#mergeRead()
    }
    let readings = 0
    const onlyOnce = (): this => {
      if (readings++ > 0) throw changed(this.#path)
      return this
    }
    try {
      const { content } = await readDataFile(this.#files, this.#path, { ...options, progress }, onlyOnce)
      if (content.hash !== hash) throw changed(this.#path)
    } finally {
      await this.#merging.catch(() => {})
    }
    await this.#merging
    const rest = await this.#difference.end(options.turn)
    await this.#merge(rest, hash)
    this.isReordered = rest.collections.some(({ isReordered }) => isReordered)
    return this.#outcomes
  }

  /** Begins to merge the items that were read, if they are enough for a part and the previous part was merged. */
  async #mergeRead(): Promise<void> {
    if (this.#bytes <= PART_BYTES) return
    this.#bytes = 0
    const { hash, signature } = this.#checked.content
    if ((await this.#files.stat(this.#path))?.signature !== signature) throw changed(this.#path)
    await this.#merging
    this.#merging = this.#merge(this.#difference.take(), partKey(hash))
    this.#merging.catch(() => {})
  }

  async #merge(part: Edit, key: string): Promise<void> {
    const { merge, memory } = this.#options
    this.#outcomes.push(await merge(part, key, memory, this.#latestWritten))
  }

  collection(name: string, isObject: boolean): ItemVisitor {
    const checked = this.#checked.collections.get(name)
    if (!checked) throw changed(this.#path)
    let { nextId } = checked
    const { idField } = this.#options
    const items = this.#difference.collection(name, isObject)
    return {
      known: () => undefined,
      add: (id, text) => {
        this.#bytes += BYTES.edited + EVENT_BYTES + textBytes(text)
        if (id !== undefined) return items.add(id, text)
        const assigned = assignedId(nextId++)
        const item = { [idField]: assigned, ...(parseText(text) as JsonObject) }
        return items.add(assigned, JSON.stringify(item))
      },
    }
  }
}

function changed(path: string): Refusal {
  const why = `The data file ${path} was changed while its first items were imported.`
  return new Refusal('Unavailable', `${why} Start again, and the import continues.`)
}
