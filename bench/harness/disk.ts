import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const BLOCK_BYTES = 512
/** Longer than a server waits before it compresses what is complete. */
const STILL_MS = 75_000
const EVERY_MS = 1000
const MOST_MS = 600_000

/** The space on the disk of a file, or of all files in a directory. */
export function bytesOf(path: string): number {
  try {
    const found = statSync(path)
    if (!found.isDirectory()) return found.blocks * BLOCK_BYTES
    return readdirSync(path).reduce((sum, name) => sum + bytesOf(join(path, name)), 0)
  } catch (error) {
    // A server removes files meanwhile.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
}

/** Waits until directories have not changed their sizes for a while. */
export async function still(directories: readonly string[]): Promise<void> {
  const sizes = () => directories.map(bytesOf).join()
  const deadline = performance.now() + MOST_MS
  let last = { sizes: sizes(), at: performance.now() }
  while (performance.now() - last.at < STILL_MS) {
    if (performance.now() > deadline) throw new Error(`The sizes of ${directories.join()} change for too long.`)
    await sleep(EVERY_MS)
    const now = sizes()
    if (now !== last.sizes) last = { sizes: now, at: performance.now() }
  }
}
