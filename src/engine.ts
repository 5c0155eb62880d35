import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'
import type { ClusterFigures } from './cluster/figures.ts'
import type { Peer } from './cluster/node.ts'
import { checkEdited } from './commands/edited-items.ts'
import type { CommandHandler } from './commands/handler.ts'
import type { Rules } from './commands/rules.ts'
import { Ended } from './errors.ts'
import type { EventBus } from './events/bus.ts'
import type { CompressionOptions } from './events/compression.ts'
import { journalExists, lockDirectory } from './events/directory.ts'
import type { Position } from './events/event.ts'
import { FileJournal, type SegmentStatus } from './events/file-journal.ts'
import type { Journal } from './events/journal.ts'
import type { JournalFigures } from './events/journal-figures.ts'
import { directoryOf, type Files, replace } from './files/files.ts'
import type { TokenKeeping } from './open-gate.ts'
import { keyFieldsOf, Projected, type StoreStatus } from './projected.ts'
import type { DataFileStatus } from './projections/data-file/account.ts'
import { noFile } from './projections/data-file/adapter.ts'
import type { TakenInEdit } from './projections/data-file/connection.ts'
import { DataFile } from './projections/data-file/data-file.ts'
import type { Read } from './projections/data-file/edits.ts'
import { checkFirstItems, checkNoJournalIsMissing, checkNotRenamed } from './projections/data-file/first-items.ts'
import { DATA_FILE_ACTOR, TakenIn } from './projections/data-file/taken-in.ts'
import type { Schedule } from './projections/data-file/writing.ts'
import type { History } from './projections/history.ts'
import { checkIdField } from './projections/id-field.ts'
import type { Past } from './projections/past.ts'
import type { Queries } from './projections/query/queries.ts'
import type { Views } from './projections/views.ts'
import type { Settings } from './settings.ts'

export interface EngineSurroundings {
  readonly files: Files
  readonly now: () => Date
  readonly newId: () => string
  readonly schedule: Schedule
  /** Milliseconds since some beginning, of a clock that nobody sets. */
  readonly elapsedMs: () => number
  readonly log: Logger
  /** What `data/datastore.json` begins as. */
  readonly sampleFile: string
  /** The service can no longer keep its promises: the process must end, and not well. */
  readonly failed: (error: unknown) => void
}

/** A start waits so long for its store; then it serves what needs none. */
const PATIENCE_MS = 5000

/** Everything but the network: commands in, durable events out, projections kept. */
export interface Engine {
  readonly journal: Journal
  readonly views: Views
  readonly history: History
  readonly past: Past
  readonly handler: Pick<CommandHandler, 'handle' | 'bulk' | 'restore'>
  readonly queries: Queries
  readonly bus: EventBus
  /** Of a journal that this process writes itself. */
  readonly journalFigures?: JournalFigures
  /** Of this process, where several nodes share a journal. */
  readonly clusterFigures?: ClusterFigures
  /** Where nothing can be written: what those are told who try. */
  readonly readOnly?: string
  /** How far the store is built from the journal; undefined when it is. Until then only the journal can be read. */
  building?(): { readonly position: Position; readonly of: Position } | undefined
  /** The present that is served. */
  now(): Date
  /** Where what tokens need is kept; undefined: in the journal's directory. */
  readonly tokens?: TokenKeeping
  /** What whoever runs the server should know of where the journal is. */
  readonly warnings?: readonly string[]
  /** Checks the journal that this process writes; `rest` is told how far it came and waited for in between. */
  verify?(rest: (checked: Position) => Promise<void>): Promise<void>
  /** The files of the journal that this process writes. */
  segments?(): readonly SegmentStatus[]
  /** Takes in what was edited by hand. */
  reload(): Promise<TakenInEdit>
  /** Writes the data file now; resolves with the position that it shows. */
  snapshot(): Promise<Position>
  health(): EngineHealth
  close(): Promise<void>
}

/** How journal and projections are, as `/health` tells it. */
export interface EngineHealth {
  readonly status: 'ok' | 'degraded' | 'unavailable'
  readonly journal: { readonly id: string; readonly writable: boolean; readonly [name: string]: unknown }
  /** Where the journal is shared by several nodes. */
  readonly cluster?: ClusterHealth
  readonly dataFile?: DataFileStatus
  readonly replay?: { readonly speed: number; readonly from: Position; readonly until: Position; readonly time: string }
  readonly store?: StoreStatus
}

/** How a node of a cluster sees itself and the others. */
export interface ClusterHealth {
  readonly role: 'leader' | 'follower'
  readonly node: string
  readonly leader?: string
  /** Whether there is a NATS server at the other end. */
  readonly isConnected: boolean
  /** How many events others are known to have, and this node has not. */
  readonly lag: number
  readonly peers: readonly Peer[]
}

/** The engine on a directory of its own: a file journal, and the data file beside it. */
export interface FileEngine extends Engine {
  readonly journal: FileJournal
  readonly handler: CommandHandler
  readonly dataFile: DataFile
  readonly projected: Projected
}

/** Opens journal and data file. What it throws has changed nothing that matters. */
export async function openEngine(settings: Settings, surroundings: EngineSurroundings): Promise<FileEngine> {
  const { files, now, newId, schedule, elapsedMs, log, failed } = surroundings
  const rules = await rulesOf(settings)
  const path = await prepareFile(settings, surroundings)
  let checked: Read | undefined
  if (!(await journalExists(files, settings.journal))) {
    if (!settings.acceptJournal) await checkNoJournalIsMissing(files, path, settings.journal)
    checked = await checkFirstItems(files, path, settings.dataStore.idField, log, (file) => checkEdited(file, rules))
    if (!settings.acceptJournal) await checkNotRenamed(files, path, settings.journal, log, checked?.content.hash)
  }
  const lock = await lockDirectory(files, settings.journal)
  const ends: (() => Promise<unknown>)[] = [() => lock.release()]
  try {
    const projected = await Projected.open({ settings, surroundings })
    ends.push(() => projected.close())
    const { views, history, bus } = projected
    const dataFile = new DataFile({
      files,
      path,
      idField: rules.idField,
      journal: settings.journal,
      views,
      log,
      schedule,
      elapsedMs,
      now,
      settings: settings.dataFile,
      eager: settings.common.eagerDataReload,
      readOnly: settings.api.readOnly,
      acceptJournal: settings.acceptJournal,
      takenIn: new TakenIn(views),
      checked,
    })
    await dataFile.prepare()
    const journal = await FileJournal.open({
      files,
      directory: settings.journal,
      now,
      newId,
      segmentBytes: settings.segmentBytes,
      ...compressing(settings, surroundings),
      lock,
      ...projected.opening,
      failed,
    })
    ends.push(() => journal.close())
    if (journal.cut) log.warn(journal.cut, 'a crash left the end of the journal torn; it was cut off and kept')
    const handler = projected.decide(journal, rules, now)
    bus.subscribe(() => dataFile.changed())
    const past = projected.past(journal)
    let isStarted = false
    const caughtUp = projected.catchUp(journal)
    const begin = async (): Promise<void> => {
      await caughtUp
      checkIdField(views, rules.idField)
      await projected.buildNaturalKeys()
      await dataFile.start({
        journal,
        past,
        check: (file) => checkEdited(file, rules),
        merge: (edit, hash) => handler.merge(edit, { actor: DATA_FILE_ACTOR, requestId: newId(), key: hash }),
      })
      isStarted = true
      projected.begin()
    }
    const beginning = begin()
    beginning.catch(() => {})
    // What takes longer, as a store does that is built from a long journal, goes on while what can be read is read.
    await Promise.race([beginning, new Promise<void>((resolve) => schedule(resolve, PATIENCE_MS))])
    const begun = beginning.catch((error) => {
      if (!(error instanceof Ended)) failed(error)
    })
    return {
      journal,
      views,
      history,
      past,
      queries: projected.queries,
      handler,
      dataFile,
      projected,
      bus,
      journalFigures: journal.figures,
      now,
      verify: (rest) => journal.verify(rest),
      segments: () => journal.segments(),
      building: () => (isStarted ? undefined : { position: projected.status.position, of: journal.head }),
      reload: () => dataFile.reload(),
      snapshot: () => dataFile.snapshot(),
      health() {
        const isKept = ['current', 'behind', 'merging'].includes(dataFile.status.state)
        return {
          status:
            !journal.writable || !isStarted
              ? 'unavailable'
              : isKept && projected.status.state === 'current'
                ? 'ok'
                : 'degraded',
          journal: {
            id: journal.id,
            writable: journal.writable,
            segments: journal.segments(),
            ...(journal.cut && { cut: journal.cut }),
          },
          dataFile: dataFile.status,
          store: projected.status,
        }
      },
      async close() {
        dataFile.end()
        projected.end()
        await begun
        try {
          if (isStarted) await dataFile.close()
        } finally {
          await journal.close()
          await projected.close()
        }
      },
    }
  } catch (error) {
    for (const end of ends.reverse()) await end().catch(() => {})
    throw error
  }
}

/** How a journal's full segments are compressed. */
export function compressing(
  { compressAfter }: Pick<Settings, 'compressAfter'>,
  { schedule, log }: Pick<EngineSurroundings, 'schedule' | 'log'>,
): { readonly compress?: Omit<CompressionOptions, 'files'> } {
  return compressAfter === 'off' ? {} : { compress: { afterMs: 1000 * compressAfter, schedule, log } }
}

/** Of an id as json-server 1.0 makes it. */
const ID_BYTES = 8

/** Without schemas, what compiles them is not loaded. */
export async function rulesOf({ api, dataStore, limits, collections }: Settings): Promise<Rules> {
  const { schemas } = api
  const hasSchemas = Object.keys(schemas).length > 0
  const all = Object.entries(collections)
  return {
    idField: dataStore.idField,
    upsertOnPut: api.upsertOnPut,
    clientIdsOnPost: api.clientIdsOnPost,
    ...(api.compatibility === 'json-server' && { newId: () => randomBytes(ID_BYTES).toString('base64url') }),
    itemBytes: limits.bodyBytes,
    patchOperations: limits.patchOperations,
    keyFields: keyFieldsOf(collections),
    replacing: new Set(all.filter(([, { isReplacing }]) => isReplacing).map(([name]) => name)),
    times: new Map(all.flatMap(([name, { time }]) => (time ? [[name, time]] : []))),
    latest: new Map(all.flatMap(([name, { latest }]) => (latest ? [[name, latest]] : []))),
    hasSchema: (collection) => Object.hasOwn(schemas, collection),
    faultsOf: hasSchemas ? (await import('./commands/schemas.ts')).compileSchemas(schemas) : () => [],
  }
}

/** The data file's real path; its directory is made, and the sample copied when no file was named. */
async function prepareFile(settings: Settings, { files, sampleFile, log }: EngineSurroundings): Promise<string> {
  const path = await files.resolve(settings.file)
  const there = await files.stat(path)
  if (there?.isFile === false) throw noFile(path)
  await files.makeDirectory(directoryOf(path))
  const isNew = !there && !(await journalExists(files, settings.journal))
  const sample = settings.isSample && isNew ? await files.read(sampleFile) : undefined
  if (sample) await replace(files, path, sample)
  else if (isNew) log.info(`${path} does not exist and begins empty. recollect init writes a sample.`)
  return path
}
