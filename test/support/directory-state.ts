import { createHash } from 'node:crypto'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'

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
