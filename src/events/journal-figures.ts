import { Histogram } from '../runtime/histogram.ts'

const FLUSH_SECONDS = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5]
const FLUSH_WRITES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096]

/** Metrics of a journal since it was opened. */
export class JournalFigures {
  events = 0
  bytes = 0
  readonly flushSeconds = new Histogram(FLUSH_SECONDS)
  readonly flushWrites = new Histogram(FLUSH_WRITES)
  /** Writes that failed for lack of space. */
  refusedForSpace = 0
}
