import { randomUUID } from 'node:crypto'
import { ItemSchemas } from '../commands/item-schemas.ts'
import { HOME_SETTINGS, homeIn } from '../demo/directory.ts'
import { pastOf } from '../demo/past.ts'

export { continueReadings } from '../demo/live.ts'

import type { Present } from '../demo/readings.ts'
import { rulesOf } from '../engine/rules.ts'
import { writeNewJournal } from '../events/new-journal.ts'
import { createFile, directoryOf, type Files } from '../files/files.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Settings } from '../settings/settings.ts'

/**
 * Writes the journal of a home and its settings. A start writes the data file from the journal.
 * @throws {Refusal} `Conflict` if the directory is not empty
 */
export async function makeHome(files: Files, settings: Settings, present: Present): Promise<void> {
  const directory = directoryOf(settings.file)
  if ((await files.list(directory)).length > 0) {
    throw new Refusal('Conflict', `${directory} is not empty. A home is only made in a new directory.`)
  }
  await files.makeDirectory(directory)
  const schemas = await ItemSchemas.open(settings.api.schemas)
  const rules = rulesOf(settings, schemas, { now: () => new Date(present.ms) })
  await writeNewJournal(files, settings.journal, randomUUID(), pastOf(present, rules))
  await createFile(files, homeIn(directory).settings, [Buffer.from(HOME_SETTINGS)])
  await files.syncDirectory(directory)
}
