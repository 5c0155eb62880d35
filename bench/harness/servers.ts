import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const MAIN = join(ROOT, 'dist', 'main.js')
const INSIDE = fileURLToPath(new URL('inside.mjs', import.meta.url))
const READY_MS = 180_000
/** For ten million readings. */
const BUILT_MS = 1_800_000

export interface Memory {
  readonly heapBytes: number
  /** Buffers, beside the heap. */
  readonly externalBytes: number
  readonly residentBytes: number
}

export interface Server {
  readonly url: string
  readonly pid: number
  /** From the start of the process until it listened. */
  readonly startedMs: number
  /** The memory of the process after a garbage collection. */
  memory(): Promise<Memory>
  /** The longest block of its event loop since the last call. */
  blockedMs(): Promise<number>
  /** Sets its clock, in milliseconds since 1970, if it was started with BENCH_CLOCK_MS. */
  setClock(ms: number): Promise<void>
  stop(): Promise<void>
  /** Ends it with SIGKILL. */
  kill(): Promise<void>
}

export interface Started {
  readonly command?: string
  readonly args: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** The output when it listens; a group is its address. */
  readonly ready: RegExp
  /** Its address, where it does not say. */
  readonly url?: string
  /** Watched from within, which costs a little. */
  readonly isWatched?: boolean
  /** Given to node. */
  readonly flags?: readonly string[]
}

/** All processes of a run, each ended by its own id. */
export class Servers {
  readonly #running = new Set<ChildProcess>()
  #isEnding = false

  async start({ command, args, env, ready, url, isWatched = false, flags = [] }: Started): Promise<Server> {
    const began = performance.now()
    const watching = isWatched ? ['--expose-gc', '--import', INSIDE] : []
    const child = spawn(command ?? process.execPath, command ? args : [...flags, ...watching, ...args], {
      cwd: ROOT,
      env: { ...process.env, NODE_ENV: 'production', ...env },
      stdio: ['ignore', 'pipe', 'pipe', ...(isWatched ? (['ipc'] as const) : [])],
    })
    this.#running.add(child)
    const ended = once(child, 'close').finally(() => this.#running.delete(child))
    let said = ''
    const address = await new Promise<string>((resolve, reject) => {
      const fail = (why: string) => reject(new Error(`${command ?? args[0]} ${why}:\n${said.slice(-2000)}`))
      const timer = setTimeout(() => fail('does not get ready'), READY_MS)
      ended.then(
        () => fail('ended before it was ready'),
        (error: Error) => fail(error.message),
      )
      for (const stream of [child.stdout, child.stderr]) {
        stream?.on('data', (bytes: Buffer) => {
          said = (said + bytes).slice(-10_000)
          const found = ready.exec(said)
          if (!found) return
          clearTimeout(timer)
          resolve(url ?? (found[1] as string))
        })
      }
    })
    let isToEnd = false
    child.once('close', (code) => {
      if (!isToEnd && !this.#isEnding)
        process.stderr.write(`${command ?? args[0]} ended by itself with ${code}:\n${said.slice(-2000)}\n`)
    })
    const answerTo = async <T>(question: string | number): Promise<T> => {
      const answered = once(child, 'message')
      child.send(question)
      const [answer] = await answered
      return answer as T
    }
    return {
      url: address,
      pid: child.pid as number,
      startedMs: performance.now() - began,
      memory: () => answerTo('memory'),
      blockedMs: async () => (await answerTo<{ readonly longestMs: number }>('blocked')).longestMs,
      setClock: (ms) => answerTo(ms),
      stop: async () => {
        isToEnd = true
        child.kill('SIGTERM')
        const impatient = setTimeout(() => child.kill('SIGKILL'), 30_000)
        await ended.catch(() => {})
        clearTimeout(impatient)
      },
      kill: async () => {
        isToEnd = true
        child.kill('SIGKILL')
        await ended.catch(() => {})
      },
    }
  }

  /** Recollect as it is built; its data file is waited for where it has to be written. */
  async recollect(
    {
      file,
      journal,
      flags = [],
    }: { readonly file: string; readonly journal?: string; readonly flags?: readonly string[] },
    {
      settle = true,
      main = MAIN,
      ...options
    }: Pick<Started, 'isWatched' | 'env'> & { readonly settle?: boolean; readonly main?: string } = {},
  ): Promise<Server> {
    const server = await this.start({
      args: [
        main,
        ...['--file', file, '--urls', 'http://127.0.0.1:0', '--settings', join(ROOT, 'appsettings.json')],
        ...(journal === undefined ? [] : ['--journal', journal]),
        ...flags,
      ],
      ready: /Recollect listens on (http:\/\/\S+)/,
      ...options,
    })
    if (settle) await settled(server)
    return server
  }

  /** A peer of bench/peers; it prints its address. */
  peer(name: string, args: readonly string[], isWatched = false): Promise<Server> {
    const script = fileURLToPath(new URL(`../peers/${name}.mjs`, import.meta.url))
    return this.start({ args: [script, ...args], ready: /listens on (http:\/\/\S+)/, isWatched })
  }

  /** Also those of a group that failed. */
  async stopAll(): Promise<void> {
    this.#isEnding = true
    await Promise.all(
      [...this.#running].map(async (child) => {
        const ended = once(child, 'close')
        child.kill('SIGTERM')
        const impatient = setTimeout(() => child.kill('SIGKILL'), 10_000)
        await ended
        clearTimeout(impatient)
      }),
    )
    this.#isEnding = false
  }

  /** The last resort, when the process itself is ending. */
  killAll(): void {
    for (const child of this.#running) child.kill('SIGKILL')
  }
}

interface Health {
  readonly dataFile?: { readonly state: string }
  readonly store?: { readonly state: string }
}

/** Has the data file written, and waits until nothing goes on by itself. */
export async function settled(server: Pick<Server, 'url'>): Promise<void> {
  await healthy(server, ({ store }) => store?.state !== 'building')
  await fetch(`${server.url}/admin/snapshot`, { method: 'POST' })
  await healthy(server, ({ dataFile, store }) => dataFile?.state === 'current' && store?.state !== 'building')
}

/** Waits until the store is built, and so are these indexes and all others. */
export async function built(server: Pick<Server, 'url'>, indexes: readonly string[]): Promise<void> {
  await healthy(server, ({ store }) => store?.state === 'current', BUILT_MS)
  await until(BUILT_MS, `${server.url} does not build the indexes of ${indexes.join(' and ')}`, async () => {
    const metrics = await (await fetch(`${server.url}/metrics`)).text()
    const ratios = new Map<string, string>()
    for (const [, path, ratio] of metrics.matchAll(/^recollect_index_built_ratio\{.*path="(.*?)".*\} (\S+)$/gm)) {
      ratios.set(path as string, ratio as string)
    }
    return indexes.every((path) => ratios.has(path)) && [...ratios.values()].every((ratio) => ratio === '1')
  })
}

async function healthy({ url }: Pick<Server, 'url'>, is: (health: Health) => boolean, ms = READY_MS): Promise<void> {
  await until(ms, `${url} does not settle`, async () =>
    // While the store is built, it is 503 with the same document.
    is((await (await fetch(`${url}/health`)).json()) as Health),
  )
}

/**
 * Asks again and again until it is true.
 * @throws {Error} that begins with `failure`, after so many milliseconds
 */
export async function until(ms: number, failure: string, is: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + ms
  while (!(await is())) {
    if (performance.now() > deadline) throw new Error(`${failure} within ${ms / 1000} s.`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}
