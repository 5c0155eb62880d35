import { type Checkpoint, checkpointMismatch } from '../events/checkpoint.ts'
import { type Walk, walk } from '../events/walk.ts'
import { isOutOfSpace } from '../files/files.ts'
import { StoredCheckpoint } from '../projections/stored-checkpoint.ts'
import { JournalMismatch } from '../runtime/errors.ts'
import type { Settings } from '../settings/settings.ts'
import { TAG, tableKey } from '../store/keys.ts'
import type { Store } from '../store/store.ts'
import { StoreDirectory } from '../store/store-directory.ts'
import type { EngineDependencies } from './dependencies.ts'

/** The open store that is built from a journal. */
export interface JournalStore {
  readonly directory: StoreDirectory
  readonly store: Store
}

/** Delay before retrying to open the store while the disk is full. */
const FULL_MS = 500

/**
 * Opens the store of a journal that this process has locked. An unreliable store is set aside, to be built again from
 * the journal.
 * @throws {JournalMismatch} when the journal lost its end or continued differently.
 */
export async function openJournalStore(
  settings: Pick<Settings, 'journal' | 'store' | 'acceptJournal'>,
  { files, log, failed }: Pick<EngineDependencies, 'files' | 'log' | 'failed'>,
): Promise<JournalStore> {
  const directory = new StoreDirectory(settings.store)
  let store = await openStore(directory, log)
  const { whyNot } = directory
  if (whyNot !== undefined) log.warn(`The store ${settings.store} is built again: ${whyNot}.`)
  const checkpoint = new StoredCheckpoint(store).load()
  const why = checkpoint && (await checkpointMismatch(files, settings.journal, checkpoint))
  if (checkpoint && why !== undefined) {
    await directory.close(store)
    // If the journal is damaged, that error takes precedence.
    const mismatch = mismatchOf(settings.store, checkpoint, await walk(files, settings.journal), why)
    if (!settings.acceptJournal) throw mismatch
    log.warn(`${mismatch.message} It is accepted.`)
    directory.setAside()
    store = await openStore(directory, log)
  }
  // It holds no complete write, and may be that of another journal.
  if (!checkpoint && settings.acceptJournal && store.newest(tableKey(TAG.state, 1))) {
    await directory.close(store)
    directory.setAside()
    store = await openStore(directory, log)
  }
  store.damaged = (error) => {
    directory.doubt(`it is damaged: ${error.message}`)
    failed(error)
  }
  return { directory, store }
}

/** A start needs a store, so it waits for space on the disk. */
async function openStore(directory: StoreDirectory, log: EngineDependencies['log']): Promise<Store> {
  for (let attempt = 0; ; attempt++) {
    try {
      return directory.open()
    } catch (error) {
      if (!isOutOfSpace(error)) throw error
      if (attempt === 0) log.error(`The start waits: the disk has no room to open the store ${directory.path}.`)
      await new Promise<void>((resolve) => setTimeout(resolve, FULL_MS))
    }
  }
}

/** `why`: why the checkpoint is not in the journal. */
function mismatchOf(store: string, { journal, next }: Checkpoint, found: Pick<Walk, 'id' | 'next'>, why: string) {
  const [last, head] = [next.position - 1, found.next.position - 1]
  const what =
    found.id !== journal
      ? `was built from the journal ${journal}, and this one is ${found.id ?? 'empty'}`
      : head < last
        ? `has position ${last}, and the journal ends at ${head}: it has lost the events ${head + 1} to ${last}`
        : `was built up to position ${last} of a journal that continued differently: ${why}`
  return new JournalMismatch(
    `The store ${store} ${what}. Put the right journal back, or start with --accept-journal to continue with this one.`,
  )
}
