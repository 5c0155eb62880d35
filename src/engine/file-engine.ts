import { checkItem } from '../commands/decide-edit.ts'
import type { EditedItem } from '../commands/edit.ts'
import type { CommandHandler, ImportOutcome } from '../commands/handler.ts'
import { ItemSchemas } from '../commands/item-schemas.ts'
import type { Rules } from '../commands/rules.ts'
import type { DataFile } from '../data-file/data-file.ts'
import { noFile } from '../data-file/file-content.ts'
import { checkFirstItems, whySetAside } from '../data-file/start-checks.ts'
import type { Damage } from '../events/damage.ts'
import { journalExists, lockDirectory, setDirectoryAside } from '../events/directory.ts'
import type { Position } from '../events/event.ts'
import { FileJournal } from '../events/file-journal.ts'
import { directoryOf, replace } from '../files/files.ts'
import type { Past } from '../projections/past.ts'
import type { Queries } from '../query/queries.ts'
import type { Settings } from '../settings/settings.ts'
import { CloseStack } from './close-stack.ts'
import { configuredDataFile, connectionOf } from './data-file.ts'
import type { EngineDependencies } from './dependencies.ts'
import { Engine, type EngineHealth } from './engine.ts'
import type { JournalCheck } from './journal-check.ts'
import { counter, histogram, type Metric, metric } from './metric.ts'
import { DurableProjections, type ReadState } from './projections.ts'
import type { Retention } from './retention.ts'
import { rulesOf } from './rules.ts'
import { type TokenStorage, tokensInDirectory } from './token-storage.ts'

/** How long a start waits for its store before it serves what does not need it. */
const PATIENCE_MS = 5000

interface FileEngineParts {
  readonly settings: Settings
  readonly dependencies: EngineDependencies
  readonly rules: Rules
  readonly schemas: ItemSchemas
  readonly projections: DurableProjections
  readonly dataFile: DataFile
  readonly journal: FileJournal
  readonly opened: CloseStack
}

/** A journal in a local directory, with the data file beside it. */
export class FileEngine extends Engine {
  readonly journal: FileJournal
  readonly projections: DurableProjections
  readonly past: Past
  readonly handler: CommandHandler
  readonly dataFile: DataFile
  readonly tokens: TokenStorage
  readonly retention: Retention
  readonly schemas: ItemSchemas
  readonly metrics: readonly Metric[]
  readonly #parts: FileEngineParts
  readonly #check: JournalCheck
  readonly #former: ReadState | undefined

  private constructor(parts: FileEngineParts) {
    super()
    const { settings, dependencies, rules, schemas, projections, dataFile, journal } = parts
    this.#parts = parts
    this.journal = journal
    this.projections = projections
    this.dataFile = dataFile
    this.handler = projections.createHandler(journal, rules, dependencies.now)
    this.retention = projections.retention(this.handler)
    projections.follow(journal, { handler: this.handler, dataFile, retention: this.retention })
    this.past = projections.past(journal, dependencies.memory, settings.limits.pastItems)
    this.#former = projections.former(journal)
    this.schemas = schemas
    this.tokens = tokensInDirectory(dependencies.files, settings.journal, false)
    this.#check = projections.check(journal)
    this.metrics = [...metricsOf(journal), ...this.#check.metrics]
  }

  static async open(settings: Settings, dependencies: EngineDependencies): Promise<FileEngine> {
    const { files, log, failed } = dependencies
    const schemas = await ItemSchemas.open(settings.api.schemas)
    const rules = rulesOf(settings, schemas, dependencies)
    await prepareDataFile(settings, dependencies)
    const { file, journal: directory, acceptJournal, api } = settings
    const why = await whySetAside(files, { dataFile: file, journal: directory, acceptJournal, readOnly: api.readOnly })
    const isNew = why !== undefined || !(await journalExists(files, directory))
    const options = {
      idField: rules.idField,
      check: (collection: string, item: EditedItem) => checkItem(rules, collection, item, 'first items'),
    }
    const first = { dataFile: file, journal: directory, isAccepted: acceptJournal || why !== undefined }
    const checked = isNew ? await checkFirstItems(files, first, options, log) : undefined
    if (why !== undefined) {
      const aside = await setDirectoryAside(files, directory)
      log.warn(`The journal ${directory} is now ${aside}, and a new one begins: ${why}.`)
    }
    const opened = new CloseStack()
    try {
      const lock = await lockDirectory(files, settings.journal)
      opened.add(() => lock.release())
      const projections = await DurableProjections.open({ settings, keyFields: rules.keyFields, dependencies })
      opened.add(() => projections.close())
      const dataFile = configuredDataFile(settings, dependencies, projections, checked)
      const journal = await FileJournal.open({ ...projections.opening, lock, failed })
      opened.add(() => journal.close())
      if (journal.cut) log.warn(journal.cut, 'a crash left the end of the journal torn; it was cut off and kept')
      return new FileEngine({ settings, dependencies, rules, schemas, projections, dataFile, journal, opened })
    } catch (error) {
      await opened.close().catch(() => {})
      throw error
    }
  }

  override get former(): ReadState | undefined {
    return this.isStarted ? undefined : this.#former
  }

  get queries(): Queries {
    return this.projections.queries
  }

  now(): Date {
    return this.#parts.dependencies.now()
  }

  verify(rest: (checked: Position) => Promise<void>): Promise<readonly Damage[]> {
    return this.journal.verify(rest)
  }

  reload(): Promise<ImportOutcome> {
    return this.dataFile.reload()
  }

  snapshot(): Promise<Position> {
    return this.dataFile.snapshot()
  }

  health(): EngineHealth {
    const { journal, dataFile, projections } = this
    const { id, writable, cut } = journal
    const isFileCurrent = ['current', 'behind', 'merging'].includes(dataFile.status.state)
    const damage = this.#check.status()
    const retention = this.retention.status
    const isExpiring = retention.every(({ state }) => state !== 'stopped')
    const isComplete = isFileCurrent && !damage && isExpiring && projections.status.state === 'current'
    return {
      status: !writable || !this.isStarted ? 'unavailable' : isComplete ? 'ok' : 'degraded',
      journal: { id, writable, segments: journal.segments(), ...(cut && { cut }), ...(damage && { damage }) },
      dataFile: dataFile.status,
      store: projections.status,
      ...(retention.length > 0 && { retention }),
    }
  }

  protected async begin(): Promise<void> {
    const { journal, past, handler, dataFile, projections } = this
    const { rules, dependencies, opened } = this.#parts
    await projections.catchUp(journal, rules.idField)
    projections.views.trustDecisions()
    await dataFile.start(connectionOf({ journal, past, handler, rules, requestId: dependencies.newId }))
    opened.add(() => dataFile.close())
    projections.begin()
    void this.retention.begin()
  }

  protected untilServable(): Promise<void> {
    if (this.#former) return Promise.resolve()
    return new Promise((resolve) => void this.#parts.dependencies.schedule(resolve, PATIENCE_MS))
  }

  protected async end(starting: Promise<void>): Promise<void> {
    this.dataFile.end()
    this.projections.end()
    await starting
    await this.retention.end()
    await this.#parts.opened.close()
  }
}

function metricsOf(journal: FileJournal): readonly Metric[] {
  const { figures } = journal
  return [
    metric('gauge', 'journal_file_bytes', 'Bytes of the files of the journal, plain and compressed.', () =>
      [false, true].map((compressed) => {
        const segments = journal.segments().filter((segment) => segment.compressed === compressed)
        const bytes = segments.reduce((sum, { size }) => sum + size, 0)
        return { value: bytes, labels: { form: compressed ? 'compressed' : 'plain' } }
      }),
    ),
    counter('journal_appended_events_total', 'Events that became durable since the start.', () => figures.events),
    counter('journal_appended_bytes_total', 'Bytes of these events in the journal.', () => figures.bytes),
    histogram(
      'journal_flush_duration_seconds',
      'From the first byte of a flush until it was synced.',
      figures.flushSeconds,
    ),
    histogram('journal_flush_writes', 'Writes that shared a flush.', figures.flushWrites),
    counter(
      'journal_refused_for_space_total',
      'Writes that there was no space for on the disk.',
      () => figures.refusedForSpace,
    ),
  ]
}

/** Creates the directory of the data file, and copies the sample if no file was named. */
async function prepareDataFile(settings: Settings, { files, sampleFile, log }: EngineDependencies): Promise<void> {
  const target = await files.follow(settings.file)
  const there = await files.stat(target)
  if (there?.isFile === false) throw noFile(target)
  await files.makeDirectory(directoryOf(target))
  const isNew = !there && !(await journalExists(files, settings.journal))
  const sample = settings.isSample && isNew ? await files.read(sampleFile) : undefined
  if (sample) await replace(files, target, sample)
  else if (isNew) log.info(`${target} does not exist and begins empty. recollect init writes a sample.`)
}
