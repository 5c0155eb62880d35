import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { open, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DEADLINE_MS } from './deadline.ts'

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

/** Each file below a directory with its inode, time and hash, without the store, which is built from the rest. */
export async function stateOf(directory: string): Promise<Readonly<Record<string, string>>> {
  const state: Record<string, string> = {}
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    if (/\/store(\/|$)/.test(path)) continue
    const { mtimeNs, ino } = await stat(path, { bigint: true })
    state[path] = entry.isFile() ? `${ino} ${mtimeNs} ${await hashOf(path)}` : `${ino}`
  }
  return state
}

async function hashOf(path: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(path))
    .digest('hex')
}

/** A disk of its own, or why there is none: only root may mount one. */
type SmallDisk = { readonly directory: string; unmount(): void } | { readonly missing: string }

export async function mountSmallDisk(t: Scope, kib: number): Promise<SmallDisk> {
  const directory = await temporaryDirectory(t)
  const command = ['-t', 'tmpfs', '-o', `size=${kib}k`, 'tmpfs', directory]
  const mounted = spawnSync('mount', command, { encoding: 'utf8', timeout: DEADLINE_MS })
  if (mounted.status === 0) {
    return {
      directory,
      // Lazily: a server that is to be killed at the end of the test may still have it open.
      unmount: () => void spawnSync('umount', ['-l', directory], { timeout: DEADLINE_MS }),
    }
  }
  const missing = `a small disk cannot be mounted (it takes root): ${mounted.stderr || mounted.error?.message}`.trim()
  if (process.env.CI === 'true') throw new Error(missing)
  return { missing }
}

/** Takes all the space that is left. */
export async function fill(path: string): Promise<void> {
  const file = await open(path, 'a')
  try {
    const page = Buffer.alloc(4096, 'f')
    for (;;) await file.write(page)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  } finally {
    await file.close()
  }
}
