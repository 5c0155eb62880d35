import { existsSync, readFileSync } from 'node:fs'
import { report } from 'node:process'

/** Descriptors for the program itself, the journal, the data file, the store and searches. */
const RESERVED = 48
const LEAST = 8

/** How the descriptors that the process may open are shared out. */
export interface Descriptors {
  readonly connections: number
  /** Files of `wwwroot` and `/swagger/` that are being sent. */
  readonly files: number
}

/** `limit` is the process's own, `ulimit -n`. Where it is too low, the least is given and may not be there. */
export function shareDescriptors(limit: number): Descriptors {
  const files = Math.max(LEAST, Math.floor(limit / 8))
  return { connections: Math.max(LEAST, limit - RESERVED - files), files }
}

/** How many descriptors this process may have open: Node has raised the limit as far as it may by now. */
export function descriptorLimit(): number {
  const limits = '/proc/self/limits'
  if (existsSync(limits)) {
    const [, soft] = /^Max open files +(\d+) /m.exec(readFileSync(limits, 'utf8')) ?? []
    if (soft !== undefined) return Number(soft)
  }
  // The report takes some 20 ms.
  const { userLimits } = report.getReport() as { userLimits?: { open_files?: { soft?: unknown } } }
  const soft = Number(userLimits?.open_files?.soft)
  return soft > 0 ? soft : Number.POSITIVE_INFINITY
}
