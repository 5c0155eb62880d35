import { randomUUID } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, resolve } from 'node:path'
import type { Logger } from 'pino'
import { nodeFiles } from '../files/node-files.ts'
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
export type PlatformOptions = Pick<
  ServiceDependencies,
  'readSettings' | 'wwwroot' | 'descriptors' | 'ownsProcess' | 'middleware' | 'failed'
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
