import type { Logger } from 'pino'
import type { Files } from './files/files.ts'
import type { Schedule } from './schedule.ts'

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
