import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Scope } from '../support/directory.ts'

export const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url))

/** The program as a process that may end at any moment, before it listens too. */
export interface Program {
  readonly process: ChildProcess
  /** Where it listens; undefined when it ended before. */
  readonly listening: Promise<string | undefined>
  readonly ended: Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>
  readonly stderr: () => string
}

export interface ProgramOptions {
  readonly flags?: readonly string[]
  readonly env?: NodeJS.ProcessEnv
  /** What runs Node, such as strace with its flags. */
  readonly under?: readonly string[]
  /** Flags of Node itself; with any, it takes messages from the test, too. */
  readonly node?: readonly string[]
}

/** Serves `db.json` of a directory on a free port; it ends with the test. */
export function spawnServer(
  t: Scope,
  directory: string,
  { flags = [], env = {}, under = [], node = [] }: ProgramOptions = {},
): Program {
  const serving = ['--file', join(directory, 'db.json'), '--urls', 'http://127.0.0.1:0', ...flags]
  const [command, ...rest] = [...under, process.execPath, ...node, MAIN, ...serving]
  const child = spawn(command as string, rest, {
    cwd: directory,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe', ...(node.length > 0 ? ['ipc'] : [])] as ['ignore', 'pipe', 'pipe'],
  })
  let out = ''
  let err = ''
  child.stderr.on('data', (bytes) => {
    err += bytes
  })
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal }))
  const listening = new Promise<string | undefined>((resolve) => {
    child.stdout.on('data', (bytes) => {
      out += bytes
      if (out.includes('\n')) resolve(/http:\/\/\S+/.exec(out)?.[0])
    })
    ended.then(() => resolve(undefined))
  })
  t.after(async () => {
    if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
    await ended
  })
  return { process: child, listening, ended, stderr: () => err }
}

async function hashOf(path: string): Promise<string> {
  return createHash('sha256')
    .update(await readFile(path))
    .digest('hex')
}

/** Every file of a directory and its subdirectories with all that a change would change: for finding that there was none. */
export async function picture(directory: string): Promise<Readonly<Record<string, string>>> {
  const seen: Record<string, string> = {}
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name)
    // It is built again from the rest.
    if (/\/store(\/|$)/.test(path)) continue
    const { mtimeNs, ino } = await stat(path, { bigint: true })
    seen[path] = entry.isFile() ? `${ino} ${mtimeNs} ${await hashOf(path)}` : `${ino}`
  }
  return seen
}
