import type { Logger } from 'pino'
import type { Files } from '../files/files.ts'
import type { MemoryBudget } from '../runtime/memory.ts'
import type { Schedule } from '../runtime/turns.ts'

export interface EngineDependencies {
  readonly files: Files
  readonly now: () => Date
  readonly newId: () => string
  readonly schedule: Schedule
  /** A monotonic clock in milliseconds. */
  readonly elapsedMs: () => number
  /** The memory for requests. */
  readonly memory: MemoryBudget
  readonly log: Logger
  /** The initial content of `data/datastore.json`. */
  readonly sampleFile: string
  /** Called when the service cannot keep its guarantees any more: the process must end with an error. */
  readonly failed: (error: unknown) => void
}
