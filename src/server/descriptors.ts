import { existsSync, readFileSync } from 'node:fs'
import { report } from 'node:process'

/** Descriptors for the program itself, the journal, the data file, the store and searches. */
const RESERVED = 48
const LEAST = 8

/** The division of the process's file descriptors. */
export interface Descriptors {
  readonly connections: number
  /** Files of `wwwroot` and `/swagger/` being sent. */
  readonly files: number
}

/**
 * `limit` is that of the process, `ulimit -n`; Infinity if there is none. If it is too low, the minimum is returned
 * nevertheless.
 */
export function shareDescriptors(limit: number): Descriptors {
  const files = Math.max(LEAST, Math.floor(limit / 8))
  // `limit - files` would not be a number without a limit.
  return { connections: Math.max(LEAST, Math.ceil((limit * 7) / 8) - RESERVED), files }
}

/** The number of descriptors that this process may open. Node has raised the limit to its maximum by now. */
export function descriptorLimit(): number {
  const limits = '/proc/self/limits'
  if (existsSync(limits)) {
    const [, soft] = /^Max open files +(\d+) /m.exec(readFileSync(limits, 'utf8')) ?? []
    if (soft !== undefined) return Number(soft)
  }
  // The report takes about 20 ms.
  const { userLimits } = report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } }
  const soft = Number(userLimits?.open_files?.soft)
  return soft > 0 ? soft : Number.POSITIVE_INFINITY
}
