import { checkEdited } from '../commands/edited-items.ts'
import type { CommandHandler } from '../commands/handler.ts'
import type { Rules } from '../commands/rules.ts'
import { noFile } from '../data-file/adapter.ts'
import type { DataFile } from '../data-file/data-file.ts'
import type { Read } from '../data-file/edits.ts'
import { checkFirstItems, checkNoJournalIsMissing, checkNotRenamed } from '../data-file/first-items.ts'
import { DATA_FILE_ACTOR } from '../data-file/merged-edits.ts'
import { journalExists, lockDirectory } from '../events/directory.ts'
import { FileJournal } from '../events/file-journal.ts'
import { directoryOf, replace } from '../files/files.ts'
import { checkIdField } from '../projections/id-field.ts'
import type { Settings } from '../settings/settings.ts'
import { configuredDataFile } from './configured-data-file.ts'
import type { EngineDependencies } from './dependencies.ts'
import { DurableProjections } from './durable-projections.ts'
import { compressing, type Engine, type EngineHealth, type JournalHost, rulesOf } from './engine.ts'
import { tokensInDirectory } from './open-gate.ts'

/** How long a start waits for its store before it serves what does not need it. */
const PATIENCE_MS = 5000

/** A journal in a local directory, with the data file beside it. */
export interface FileHost extends JournalHost {
  readonly journal: FileJournal
  readonly projections: DurableProjections
  readonly handler: CommandHandler
  readonly dataFile: DataFile
}

export type FileEngine = FileHost & Engine

/** Opens journal and data file. */
export async function openFileHost(settings: Settings, dependencies: EngineDependencies): Promise<FileHost> {
  const { files, now, newId, schedule, log, failed } = dependencies
  const rules = await rulesOf(settings)
  const path = await prepareFile(settings, dependencies)
  const checked = await checkedFirstItems(path, settings, dependencies, rules)
  const lock = await lockDirectory(files, settings.journal)
  const ends: (() => Promise<unknown>)[] = [() => lock.release()]
  try {
    const projections = await DurableProjections.open({ settings, dependencies })
    ends.push(() => projections.close())
    const dataFile = configuredDataFile(path, settings, dependencies, projections, checked)
    await dataFile.prepare()
    const journal = await FileJournal.open({
      files,
      directory: settings.journal,
      now,
      newId,
      segmentBytes: settings.segmentBytes,
      ...compressing(settings, dependencies),
      lock,
      ...projections.opening,
      failed,
    })
    if (journal.cut) log.warn(journal.cut, 'a crash left the end of the journal torn; it was cut off and kept')
    const handler = projections.decide(journal, rules, now)
    projections.follow(journal, handler, dataFile)
    const past = projections.past(journal)
    let isStarted = false
    let starting = Promise.resolve()
    const start = async (): Promise<void> => {
      await projections.catchUp(journal)
      checkIdField(projections.views, rules.idField)
      await projections.buildNaturalKeys()
      await dataFile.start({
        journal,
        past,
        check: (file) => checkEdited(file, rules),
        merge: (edit, hash) => handler.merge(edit, { actor: DATA_FILE_ACTOR, requestId: newId(), key: hash }),
      })
      isStarted = true
      projections.begin()
    }
    return {
      journal,
      projections,
      past,
      handler,
      dataFile,
      get queries() {
        return projections.queries
      },
      figures: [{ kind: 'journal', figures: journal.figures, segments: () => journal.segments() }],
      readOnly: undefined,
      tokens: tokensInDirectory(files, settings.journal, false),
      warnings: [],
      now,
      verify: (rest) => journal.verify(rest),
      reload: () => dataFile.reload(),
      snapshot: () => dataFile.snapshot(),
      start() {
        starting = start()
        return starting
      },
      patience: () => new Promise((resolve) => void schedule(resolve, PATIENCE_MS)),
      healthOf: (isStarted) => healthOf({ journal, dataFile, projections }, isStarted),
      async close() {
        dataFile.end()
        projections.end()
        await starting.catch(() => {})
        try {
          if (isStarted) await dataFile.close()
        } finally {
          await journal.close()
          await projections.close()
        }
      },
    }
  } catch (error) {
    for (const end of ends.reverse()) await end().catch(() => {})
    throw error
  }
}

function healthOf(
  { journal, dataFile, projections }: Pick<FileHost, 'journal' | 'dataFile' | 'projections'>,
  isStarted: boolean,
): EngineHealth {
  const isKept = ['current', 'behind', 'merging'].includes(dataFile.status.state)
  const isWhole = isKept && projections.status.state === 'current'
  const { id, writable, cut } = journal
  return {
    status: !writable || !isStarted ? 'unavailable' : isWhole ? 'ok' : 'degraded',
    journal: { id, writable, segments: journal.segments(), ...(cut && { cut }) },
    dataFile: dataFile.status,
    store: projections.status,
  }
}

/** Checks the data file that a new journal begins with; undefined if there is a journal or no file. */
async function checkedFirstItems(
  path: string,
  { journal, acceptJournal, dataStore }: Settings,
  { files, log }: EngineDependencies,
  rules: Rules,
): Promise<Read | undefined> {
  if (await journalExists(files, journal)) return undefined
  if (!acceptJournal) await checkNoJournalIsMissing(files, path, journal)
  const checked = await checkFirstItems(files, path, dataStore.idField, log, (file) => checkEdited(file, rules))
  if (!acceptJournal) await checkNotRenamed(files, path, journal, log, checked?.content.hash)
  return checked
}

/** The real path of the data file; creates its directory, and copies the sample if no file was named. */
async function prepareFile(settings: Settings, { files, sampleFile, log }: EngineDependencies): Promise<string> {
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
