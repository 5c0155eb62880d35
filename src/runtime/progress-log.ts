import type { Logger } from 'pino'

/** When to log the first line, and the interval between two lines, in milliseconds. */
const FIRST_MS = 1000
const INTERVAL_MS = 5000

export type ProgressLog = (facts: Readonly<Record<string, number>>, message: string) => void

/** Logs the progress of long work every few seconds. */
export function progressLog(log: Pick<Logger, 'info'>, elapsedMs: () => number = () => performance.now()): ProgressLog {
  let dueMs = elapsedMs() + FIRST_MS
  return (facts, message) => {
    if (elapsedMs() < dueMs) return
    dueMs = elapsedMs() + INTERVAL_MS
    log.info(facts, message)
  }
}
