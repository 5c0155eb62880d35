import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { bytesOf, newestMeta } from './lmdb.ts'
import type { RecoveryPoint } from './recovery-file.ts'

/** The file of format 4 that says how the store was left. */
export const FORMAT_4_STATE = 'store.json'

interface StateOfFormat4 {
  readonly format: number
  readonly isOpen: boolean
  readonly boot?: string
  readonly writtenMs?: number
  readonly doubt?: string
}

/**
 * The recovery point of a store of format 4 at its newest commit, whose rows have the same format. Undefined if there
 * is no such store. It is in doubt if the system stopped while it was open: format 4 did not keep the pages of commits.
 */
export function pointOfFormat4(
  directory: string,
  { file, format, boot }: Pick<RecoveryPoint, 'file' | 'format' | 'boot'>,
): RecoveryPoint | undefined {
  let state: StateOfFormat4
  let meta: Buffer | undefined
  try {
    state = JSON.parse(readFileSync(join(directory, FORMAT_4_STATE), 'utf8')) as StateOfFormat4
    meta = newestMeta(join(directory, file))
  } catch {
    return undefined
  }
  if (!meta) return undefined
  const isLost = state.isOpen && (state.boot === undefined || state.boot !== boot)
  return {
    format: state.format === 4 ? format : state.format,
    file,
    meta: meta.toString('hex'),
    bytes: bytesOf(meta),
    boot,
    ended: 0,
    writtenMs: state.isOpen ? undefined : state.writtenMs,
    doubt: state.doubt ?? (isLost ? 'the system ended while it was open' : undefined),
  }
}
