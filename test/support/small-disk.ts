import { spawnSync } from 'node:child_process'
import { open } from 'node:fs/promises'
import { DEADLINE_MS } from './deadline.ts'
import { type Scope, temporaryDirectory } from './directory.ts'

/** A disk of its own, or why there is none: only root may mount one. */
export type SmallDisk = { readonly directory: string; unmount(): void } | { readonly missing: string }

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
