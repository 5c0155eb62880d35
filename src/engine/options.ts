import { randomBytes } from 'node:crypto'
import { getHeapStatistics } from 'node:v8'
import type { Logger } from 'pino'
import type { KeyFields } from '../collections/natural-keys.ts'
import { checkItem } from '../commands/decide-edit.ts'
import type { CommandHandler } from '../commands/handler.ts'
import type { ItemSchemas } from '../commands/item-schemas.ts'
import type { Rules } from '../commands/rules.ts'
import { DataFile } from '../data-file/data-file.ts'
import type { CheckedFile } from '../data-file/first-items.ts'
import type { JournalConnection } from '../data-file/journal-connection.ts'
import { DATA_FILE_ACTOR } from '../data-file/merged-edits.ts'
import type { CompressionOptions } from '../events/compression.ts'
import type { Files } from '../files/files.ts'
import { formatPath, type Path } from '../json/paths.ts'
import type { Schedule } from '../runtime/turns.ts'
import { eventTimesOf } from '../settings/collections.ts'
import type { Settings } from '../settings/settings.ts'
import type { Projections } from './projections.ts'

export interface EngineDependencies {
  readonly files: Files
  readonly now: () => Date
  readonly newId: () => string
  readonly schedule: Schedule
  /** A monotonic clock in milliseconds. */
  readonly elapsedMs: () => number
  readonly log: Logger
  /** The initial content of `data/datastore.json`. */
  readonly sampleFile: string
  /** Called when the service cannot keep its guarantees any more: the process must end with an error. */
  readonly failed: (error: unknown) => void
}

/** The random bytes of an id like those of json-server 1.0. */
const ID_BYTES = 8

/** The share of V8's heap that the events of a restore, or of an edit of the data file, may take. */
const HELD_SHARE = 0.25

export function heldCharacters(): number {
  return getHeapStatistics().heap_size_limit * HELD_SHARE
}

export function rulesOf(
  { api, dataStore, limits, collections }: Settings,
  schemas: ItemSchemas,
  { now }: Pick<EngineDependencies, 'now'>,
): Rules {
  const all = Object.entries(collections)
  return {
    idField: dataStore.idField,
    upsertOnPut: api.upsertOnPut,
    clientIdsOnPost: api.clientIdsOnPost,
    ...(api.compatibility === 'json-server' && { newId: () => randomBytes(ID_BYTES).toString('base64url') }),
    itemBytes: limits.bodyBytes,
    itemValues: limits.itemValues,
    patchOperations: limits.patchOperations,
    heldCharacters: heldCharacters(),
    keyFields: keyFieldsOf(collections),
    replacing: new Set(all.filter(([, { isReplacing }]) => isReplacing).map(([name]) => name)),
    times: eventTimesOf(collections),
    nowMs: () => now().getTime(),
    received: () => now().toISOString(),
    latest: new Map(all.flatMap(([name, { latest }]) => (latest ? [[name, latest]] : []))),
    hasSchema: (collection) => schemas.has(collection),
    faultsOf: (collection, item) => schemas.faultsOf(collection, item),
  }
}

/** The compression of full segments. */
export function compressionOf(
  { compressAfter }: Pick<Settings, 'compressAfter'>,
  { schedule, log }: Pick<EngineDependencies, 'schedule' | 'log'>,
): { readonly compress?: Omit<CompressionOptions, 'files'> } {
  return compressAfter === 'off' ? {} : { compress: { afterMs: 1000 * compressAfter, schedule, log } }
}

export function configuredDataFile(
  settings: Settings,
  { files, log, schedule, elapsedMs, now }: EngineDependencies,
  { views, mergedEdits }: Pick<Projections, 'views' | 'mergedEdits'>,
  checked?: CheckedFile,
): DataFile {
  return new DataFile({
    files,
    path: settings.file,
    idField: settings.dataStore.idField,
    journal: settings.journal,
    views,
    log,
    schedule,
    elapsedMs,
    now,
    settings: settings.dataFile,
    edits: { ...settings.edits, heldCharacters: heldCharacters() },
    eager: settings.common.eagerDataReload,
    readOnly: settings.api.readOnly,
    acceptJournal: settings.acceptJournal,
    mergedEdits,
    checked,
  })
}

interface ConnectionOptions extends Pick<JournalConnection, 'journal' | 'past'> {
  readonly handler: Pick<CommandHandler, 'merge'>
  readonly rules: Rules
  /** The request id of the next import. */
  readonly requestId: () => string
}

export function connectionOf({ journal, past, handler, rules, requestId }: ConnectionOptions): JournalConnection {
  return {
    journal,
    past,
    check: (collection, item) => checkItem(rules, collection, item, 'first items'),
    merge: (edit, key, latestWritten) =>
      handler.merge(edit, { actor: DATA_FILE_ACTOR, requestId: requestId(), key }, latestWritten),
  }
}

/** Resources to be released, the last one first. */
export class CloseStack {
  readonly #all: (() => Promise<unknown>)[] = []

  add(close: () => Promise<unknown>): void {
    this.#all.push(close)
  }

  /** Releases all, also after an error, and rejects with the first one. A second call does nothing. */
  async close(): Promise<void> {
    const errors: unknown[] = []
    for (let close = this.#all.pop(); close; close = this.#all.pop()) {
      await close().catch((error: unknown) => void errors.push(error))
    }
    if (errors.length > 0) throw errors[0]
  }
}

/** The natural keys that the settings name. */
export function keyFieldsOf(collections: Settings['collections']): KeyFields {
  const keyed = Object.entries(collections).flatMap(([name, { key: fields, time }]) => {
    const timePart = time ? fields?.map(formatPath).indexOf(formatPath(time.path)) : undefined
    return fields ? [[name, { fields, timePart: timePart ?? -1 }] as const] : []
  })
  return new Map(keyed)
}

/** The fields of the event times that the settings name. */
export function timesOf(collections: Settings['collections']): ReadonlyMap<string, Path> {
  return new Map(Array.from(eventTimesOf(collections), ([name, { path }]) => [name, path]))
}
