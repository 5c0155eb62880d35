import { storedCollections } from '../collections/draft.ts'
import { Refusal } from '../errors.ts'
import { lockDirectory } from '../events/directory.ts'
import type { Files } from '../files/files.ts'
import { storedState } from '../projections/folding.ts'
import { prefixEnd, TAG, tableKey } from '../store/keys.ts'
import { type Compacted, StoreDirectory } from '../store/opening.ts'
import type { Store } from '../store/store.ts'
import { fold, type Progress } from './fold.ts'

const ROWS_AT_ONCE = 256
/** Problems that are named; a damaged store may have a million. */
const MOST_PROBLEMS = 20

/** Writes the store anew, without the pages that hold nothing any more. The server must have ended. */
export async function compact(files: Files, journal: string): Promise<Compacted> {
  return whileStopped(files, journal, (directory) => directory.compact())
}

/** How the store differs from what the events up to its position amount to, item by item. The server must have ended. */
export async function compareStore(files: Files, journal: string, progress: Progress): Promise<readonly string[]> {
  return whileStopped(files, journal, async (directory) => {
    const store = directory.open()
    try {
      return await differences(store, files, journal, progress)
    } finally {
      await directory.close(store)
    }
  })
}

async function differences(
  store: Store,
  files: Files,
  journal: string,
  progress: Progress,
): Promise<readonly string[]> {
  // A process that was killed may have put a part of a write into it.
  const { applied: position } = storedState(store)
  const { views } = await fold(files, journal, { position }, progress)
  const problems: string[] = []
  const expected = new Map(Array.from(views.ever(), (collection) => [collection.name, collection.facts]))
  for (const facts of storedCollections(store).values()) {
    const wanted = expected.get(facts.name)
    expected.delete(facts.name)
    const quoted = JSON.stringify(facts.name)
    const isSame = JSON.stringify({ ...wanted, table: 0 }) === JSON.stringify({ ...facts, table: 0 })
    if (!wanted || !isSame) {
      problems.push(`The store has another state of the collection ${quoted} at position ${position}.`)
      continue
    }
    for (const tag of [TAG.item, TAG.place]) {
      const what = tag === TAG.item ? 'an item' : 'the place of an item'
      const rows = rowsOf(store, tableKey(tag, facts.table))
      for (const row of rowsOf(views.store, tableKey(tag, wanted.table))) {
        const found = rows.next().value
        if (found?.equals(row)) continue
        problems.push(`The store has ${what} of ${quoted} other than the journal does, or none.`)
        break
      }
      if (!rows.next().done) problems.push(`The store has more of ${quoted} than the journal does.`)
    }
    if (problems.length >= MOST_PROBLEMS) return problems
  }
  for (const name of expected.keys()) problems.push(`The store lacks the collection ${JSON.stringify(name)}.`)
  return problems
}

/** Each row's key, without its table, and value. */
function* rowsOf(store: Store, prefix: Buffer): Generator<Buffer> {
  const end = prefixEnd(prefix)
  for (let from = prefix; ; ) {
    const rows = store.rows(from, end, { limit: ROWS_AT_ONCE })
    for (const { key, value } of rows) yield Buffer.concat([key.subarray(prefix.length), value])
    const last = rows.at(-1)
    if (!last || rows.length < ROWS_AT_ONCE) return
    from = Buffer.concat([last.key, Buffer.alloc(1)])
  }
}

/** Refuses while a server has the journal, and where there is no store. */
async function whileStopped<Result>(
  files: Files,
  journal: string,
  work: (directory: StoreDirectory) => Promise<Result>,
): Promise<Result> {
  const directory = new StoreDirectory(`${journal}/store`)
  const whyNot = directory.whyNotUsable()
  if (whyNot !== undefined)
    throw new Refusal('NotFound', `There is no store in ${directory.path} to be used: ${whyNot}.`)
  const lock = await lockDirectory(files, journal)
  try {
    return await work(directory)
  } finally {
    await lock.release()
  }
}
