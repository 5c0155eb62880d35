import type { Logger } from 'pino'

/** The interval between two log lines about the same file, in milliseconds. */
const TOLD_MS = 5000

export type ProgressLog = (facts: { readonly bytes: number; readonly of: number }, message: string) => void

/** Logs progress every few seconds. */
export function progressLog(log: Pick<Logger, 'info'>): ProgressLog {
  let toldMs = performance.now()
  return (facts, message) => {
    if (performance.now() - toldMs < TOLD_MS) return
    toldMs = performance.now()
    log.info(facts, message)
  }
}
