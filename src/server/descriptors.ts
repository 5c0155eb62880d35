import { existsSync, readFileSync } from 'node:fs'
import { report } from 'node:process'
import { Refusal } from '../runtime/errors.ts'

/** Descriptors for the program itself, the journal, the data file, the store and searches. */
const RESERVED = 48
/** With it, 8 files and 8 connections can be open beside the reserved ones. */
const LEAST_LIMIT = 64

/** The division of the process's file descriptors. */
export interface Descriptors {
  readonly connections: number
  /** Files of `wwwroot` and `/swagger/` being sent. */
  readonly files: number
}

/** `limit` is that of the process, `ulimit -n`, and at least 64; Infinity if there is none. */
export function shareDescriptors(limit: number): Descriptors {
  // `limit - files` would not be a number without a limit.
  return { connections: Math.ceil((limit * 7) / 8) - RESERVED, files: Math.floor(limit / 8) }
}

/**
 * The number of descriptors that this process may open. Node has raised the limit to its maximum by now.
 * @throws {Refusal} `Unavailable` if they are too few: some modules could not be loaded, and Node would call them missing.
 */
export function descriptorLimit(): number {
  const limit = softLimit()
  if (limit >= LEAST_LIMIT) return limit
  const need = `It needs at least ${LEAST_LIMIT}, and one more for each connection.`
  throw new Refusal('Unavailable', `The process may not open enough files: ulimit -n is ${limit}. ${need}`)
}

function softLimit(): number {
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
