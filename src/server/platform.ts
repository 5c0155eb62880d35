import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, resolve } from 'node:path'
import { report } from 'node:process'
import type { Logger } from 'pino'
import { nodeFiles } from '../files/node-files.ts'
import { Refusal } from '../runtime/errors.ts'
import { BadSettings, type Settings } from '../settings/settings.ts'
import type { ServiceDependencies } from './dependencies.ts'

/** Resolved by the package's own name, so that it is the same for a source file and for the bundle. */
const packageRoot = dirname(createRequire(import.meta.url).resolve('recollect/package.json'))

export function packaged(path: string): string {
  return resolve(packageRoot, path)
}

export function packageVersion(): string {
  return (JSON.parse(readFileSync(packaged('package.json'), 'utf8')) as { version: string }).version
}

/**
 * The directory of `Http.Static`.
 * @throws {BadSettings} when it does not exist.
 */
export function staticFilesOf({ staticFiles }: Settings): string | undefined {
  if (staticFiles === undefined || statSync(staticFiles, { throwIfNoEntry: false })?.isDirectory()) return staticFiles
  throw new BadSettings([`The directory of static files, ${staticFiles}, does not exist.`])
}

/** The differences between the program and a server inside another program. */
type PlatformOptions = Pick<
  ServiceDependencies,
  'remoteJournal' | 'readSettings' | 'wwwroot' | 'descriptors' | 'ownsProcess' | 'middleware' | 'failed'
> & {
  readonly log: Logger
}

/** The real file system, clocks and timers, and the package's files. */
export function platformDependencies(options: PlatformOptions): ServiceDependencies {
  return {
    files: nodeFiles,
    now: () => new Date(),
    newId: randomUUID,
    schedule: (work, delayMs) => {
      const timer = setTimeout(work, delayMs).unref()
      return { cancel: () => clearTimeout(timer) }
    },
    elapsedMs: () => performance.now(),
    version: packageVersion(),
    sampleFile: packaged('data/sensors.json'),
    pages: packaged('wwwroot'),
    swaggerAssets: packaged('dist/swagger'),
    builtPages: packaged('dist/pages'),
    ...options,
  }
}

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
