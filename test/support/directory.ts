import { mkdtempSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The lifetime of a resource: a test's context, or a file's `after` of node:test. */
export interface Scope {
  after(end: () => Promise<unknown>): void
}

/** A directory of a test's. */
export interface Directory {
  readonly path: string
  remove(): Promise<void>
}

const PREFIX = join(tmpdir(), 'recollect-')

const left = new Set<string>()
process.on('exit', () => {
  for (const path of left) rmSync(path, { recursive: true, force: true })
})

/**
 * A new directory that goes away with the test; at the latest with the process, as hooks run in the order in
 * which they were set and a server of the test's may still be writing when this one's turn comes.
 */
export async function temporaryDirectory(t: Scope): Promise<string> {
  const { path, remove } = directoryUntilExit()
  t.after(remove)
  return path
}

/** The same for what knows of no test; whoever made it may remove it earlier. */
export function directoryUntilExit(): Directory {
  const path = mkdtempSync(PREFIX)
  left.add(path)
  const remove = (): Promise<void> =>
    rm(path, { recursive: true, force: true }).then(
      () => void left.delete(path),
      () => {},
    )
  return { path, remove }
}
