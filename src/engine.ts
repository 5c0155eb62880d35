import type { Logger } from 'pino'
import type { ClusterFigures } from './cluster/figures.ts'
import type { Peer } from './cluster/node.ts'
import { Overlay } from './collections/overlay.ts'
import type { CommandHandler } from './commands/handler.ts'
import type { Rules } from './commands/rules.ts'
import { takingIn } from './commands/take-in.ts'
import type { EventBus } from './events/bus.ts'
import { journalExists } from './events/directory.ts'
import type { Position } from './events/event.ts'
import { FileJournal } from './events/file-journal.ts'
import type { Journal } from './events/journal.ts'
import type { JournalFigures } from './events/journal-figures.ts'
import { directoryOf, type Files, replace } from './files/files.ts'
import type { TokenKeeping } from './open-gate.ts'
import { Projected } from './projected.ts'
import type { CheckpointStatus, Checkpoints } from './projections/checkpoint/checkpoints.ts'
import { DATA_FILE_ACTOR, type DataFileStatus } from './projections/data-file/account.ts'
import { noFile } from './projections/data-file/adapter.ts'
import type { TakenInEdit } from './projections/data-file/connection.ts'
import { DataFile } from './projections/data-file/data-file.ts'
import type { Schedule } from './projections/data-file/writing.ts'
import type { History } from './projections/history.ts'
import type { Past } from './projections/past.ts'
import { Views } from './projections/views.ts'
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

/** Everything but the network: commands in, durable events out, projections kept. */
export interface Engine {
  readonly journal: Journal
  readonly views: Views
  readonly history: History
  readonly past: Past
  readonly handler: Pick<CommandHandler, 'handle' | 'restore'>
  readonly bus: EventBus
  /** Of a journal that this process writes itself. */
  readonly journalFigures?: JournalFigures
  /** Of this process, where several nodes share a journal. */
  readonly clusterFigures?: ClusterFigures
  /** Where nothing can be written: what those are told who try. */
  readonly readOnly?: string
  /** The present that is served. */
  now(): Date
  /** Where what tokens need is kept; undefined: in the journal's directory. */
  readonly tokens?: TokenKeeping
  /** What whoever runs the server should know of where the journal is. */
  readonly warnings?: readonly string[]
  /** Checks the journal that this process writes; `rest` is told how far it came and waited for in between. */
  verify?(rest: (checked: Position) => Promise<void>): Promise<void>
  /** Takes in what was edited by hand. */
  reload(): Promise<TakenInEdit>
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
  readonly checkpoint?: CheckpointStatus
}

/** How a node of a cluster sees itself and the others. */
export interface ClusterHealth {
  readonly role: 'decider' | 'follower'
  readonly node: string
  readonly decider?: string
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
  readonly checkpoints: Checkpoints
}

/** Opens journal and data file. What it throws has changed nothing that matters. */
export async function openEngine(settings: Settings, surroundings: EngineSurroundings): Promise<FileEngine> {
  const { files, now, newId, schedule, log, failed } = surroundings
  const rules = await rulesOf(settings)
  const path = await prepareFile(settings, surroundings)
  const views = new Views()
  const dataFile = new DataFile({
    files,
    path,
    journal: settings.journal,
    views,
    log,
    schedule,
    eager: settings.common.eagerDataReload,
    acceptJournal: settings.acceptJournal,
  })
  const isThere = await journalExists(files, settings.journal)
  await dataFile.checkJournalIsThere(isThere)
  if (!isThere) {
    const nothing = new Overlay(() => undefined, 0)
    await dataFile.checkFirstItems((file) => takingIn({ file, base: new Map() }, nothing, rules))
  }

  const projected = new Projected({ settings, surroundings, views, dataFile })
  const journal = await FileJournal.open({
    files,
    directory: settings.journal,
    now,
    newId,
    segmentBytes: settings.segmentBytes,
    locked: () => dataFile.prepare(),
    ...projected.opening,
    failed,
    prepare: (recorded) => projected.bus.prepare(recorded),
  })
  try {
    if (journal.cut) log.warn(journal.cut, 'a crash left the end of the journal torn; it was cut off and kept')
    const handler = projected.decide(journal, rules, now)
    await dataFile.start({
      journal,
      takeIn: (edit, hash) => handler.takeIn(edit, { actor: DATA_FILE_ACTOR, requestId: newId(), key: hash }),
    })
    projected.begin(journal)
    const { history, bus, checkpoints } = projected
    return {
      journal,
      views,
      history,
      past: projected.past(journal),
      handler,
      dataFile,
      checkpoints,
      bus,
      journalFigures: journal.figures,
      now,
      verify: (rest) => journal.verify(rest),
      reload: () => dataFile.reload(),
      health() {
        const isKept = dataFile.status.state === 'current' || dataFile.status.state === 'behind'
        const isQuick = checkpoints.status.state !== 'failing'
        return {
          status: !journal.writable ? 'unavailable' : isKept && isQuick ? 'ok' : 'degraded',
          journal: {
            id: journal.id,
            writable: journal.writable,
            segments: journal.segments(),
            ...(journal.cut && { cut: journal.cut }),
          },
          dataFile: dataFile.status,
          checkpoint: checkpoints.status,
        }
      },
      async close() {
        try {
          await dataFile.close()
        } finally {
          await checkpoints.close()
          await journal.close()
        }
      },
    }
  } catch (error) {
    await journal.close()
    throw error
  }
}

/** Without schemas, what compiles them is not loaded. */
export async function rulesOf({ api, limits }: Settings): Promise<Rules> {
  const { schemas } = api
  const hasSchemas = Object.keys(schemas).length > 0
  return {
    upsertOnPut: api.upsertOnPut,
    clientIdsOnPost: api.clientIdsOnPost,
    itemBytes: limits.bodyBytes,
    patchOperations: limits.patchOperations,
    faultsOf: hasSchemas ? (await import('./commands/schemas.ts')).compileSchemas(schemas) : () => [],
  }
}

/** The data file's real path; its directory is made, and the sample copied when no file was named. */
async function prepareFile(settings: Settings, { files, sampleFile }: EngineSurroundings): Promise<string> {
  const path = await files.resolve(settings.file)
  const there = await files.stat(path)
  if (there?.isFile === false) throw noFile(path)
  await files.makeDirectory(directoryOf(path))
  const isNew = !there && !(await journalExists(files, settings.journal))
  const sample = settings.isSample && isNew ? await files.read(sampleFile) : undefined
  if (sample) await replace(files, path, sample)
  return path
}
