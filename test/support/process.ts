import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { createServer } from 'node:net'
import { basename, isAbsolute } from 'node:path'
import { eventOf, once, within } from './deadline.ts'
import type { Scope } from './directory.ts'

interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** A child process of a test, and what it has printed so far. */
export interface RunningProcess {
  readonly process: ChildProcess
  readonly stdout: () => string
  readonly stderr: () => string
  /** Standard output and standard error as they came. */
  readonly output: () => string
  /** Waits for its end. */
  ended(deadlineMs?: number): Promise<Exit>
  /** Resolves with the first match on standard output; with undefined when the process ends without one. */
  printed(pattern: RegExp): Promise<RegExpExecArray | undefined>
}

interface ProcessOptions {
  readonly cwd?: string
  readonly env?: NodeJS.ProcessEnv
  /** Whether it exchanges messages with the test. */
  readonly ipc?: boolean
  /** Whether the test writes to its standard input. */
  readonly hasInput?: boolean
  /** Whether signals at the end of the test go to the children of the process, too. */
  readonly isGroup?: boolean
}

/** Longer words of a command are texts of programs. */
const LONGEST_WORD = 60

/** Starts a command, which is killed at the end of the test unless it has ended before. */
export function startProcess(t: Scope, command: readonly string[], options: ProcessOptions = {}): RunningProcess {
  const { cwd, env, ipc = false, hasInput = false, isGroup = false } = options
  const child = spawn(command[0] as string, command.slice(1), {
    ...(cwd !== undefined && { cwd }),
    env: { ...process.env, ...env },
    detached: isGroup,
    stdio: [hasInput ? 'pipe' : 'ignore', 'pipe', 'pipe', ...(ipc ? ['ipc' as const] : [])],
  })
  const printed = { stdout: '', stderr: '', all: '' }
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.setEncoding('utf8').on('data', (text: string) => {
      printed[name] += text
      printed.all += text
    })
  }
  const name = nameOf(command)
  const closed = eventOf(child, 'close').then(([code, signal]): Exit => ({ code, signal }))
  const ended = (deadlineMs?: number): Promise<Exit> => within(`the exit of ${name}`, closed, deadlineMs)
  t.after(async () => {
    if (child.exitCode === null && child.signalCode === null) {
      if (isGroup && child.pid !== undefined) process.kill(-child.pid, 'SIGKILL')
      else child.kill('SIGKILL')
    }
    await ended()
  })
  return {
    process: child,
    stdout: () => printed.stdout,
    stderr: () => printed.stderr,
    output: () => printed.all,
    ended,
    printed: (pattern) =>
      within(
        `${pattern} on the standard output of ${name}`,
        new Promise((resolve) => {
          const look = (): void => {
            const found = pattern.exec(printed.stdout)
            if (found) resolve(found)
          }
          child.stdout?.on('data', look)
          closed.then(() => resolve(undefined))
          look()
        }),
      ),
  }
}

/** A command as an error names it: without directories and without program texts. */
function nameOf(command: readonly string[]): string {
  return command
    .filter((word) => word.length < LONGEST_WORD || isAbsolute(word))
    .map((word) => (isAbsolute(word) ? basename(word) : word))
    .join(' ')
}

/** Asserts that a log that began then has some of the messages, each at most once a minute. */
export function assertOnceAMinute(log: string, beganMs: number, ...messages: readonly string[]): void {
  const most = 1 + Math.floor((performance.now() - beganMs) / 60_000)
  const counts = messages.map((message) => log.split(`"${message}`).length - 1)
  assert.ok(Math.max(...counts) > 0 && Math.max(...counts) <= most, `${counts} of at most ${most}:\n${log}`)
}

/**
 * Kernels give ports above these to outgoing connections: 32768 and up on Linux. A port within the range stays free
 * while the server that has it is stopped.
 */
const [FIRST, LAST] = [10_000, 31_999]
/** Processes that run at the same time begin at different ports. */
const PER_PROCESS = 16

let next = FIRST + ((process.pid * PER_PROCESS) % (LAST - FIRST + 1))

/** A port that a server can have, stop, and have again. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = next
    next = port === LAST ? FIRST : port + 1
    if (await isFree(port)) return port
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  try {
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
  } catch {
    return false
  }
  server.close()
  await once(server, 'close')
  return true
}
