import type { ChildProcess } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { once } from './deadline.ts'
import { type Scope, temporaryDirectory } from './directory.ts'
import { spawnServer, storeBuilt } from './server.ts'

/** Loaded into the server before its own code: measures from within what a client sees only in part. */
const PROBE = `data:text/javascript,${encodeURIComponent(`
  import { openSync, readSync } from 'node:fs'
  const elapsed = clock()
  let longest = 0
  let lookedAt = 0
  let looking
  function look() {
    const now = elapsed()
    longest = Math.max(longest, now - lookedAt)
    lookedAt = now
  }
  function clock() {
    try {
      const file = openSync('/proc/self/schedstat')
      const text = Buffer.alloc(64)
      return () => {
        // With this the kernel brings the file up to date.
        process.cpuUsage()
        return Number(text.latin1Slice(0, readSync(file, text, 0, 64, 0)).split(' ')[0]) / 1e6
      }
    } catch {
      return () => performance.now()
    }
  }
  const questions = {
    memory() {
      for (let times = 0; times < 3; times++) gc()
      const { heapUsed, external } = process.memoryUsage()
      return heapUsed + external
    },
    watch() {
      looking ??= setInterval(look, 1).unref()
      lookedAt = elapsed()
      longest = 0
    },
    spent: elapsed,
    longestBlock() {
      look()
      return longest
    },
  }
  process.on('message', (question) => process.send(questions[question]() ?? null))
  process.channel.unref()
  // A test that is killed cannot end its server.
  process.on('disconnect', () => process.exit())
`)}`

/** A server in a process of its own that can be asked what it costs to serve. */
export interface ProbedServer {
  readonly url: string
  readonly directory: string
  readonly process: ChildProcess
  readonly stderr: () => string
  /** Bytes in use after a garbage collection, in the heap and beside it. */
  memory(): Promise<number>
  /** Milliseconds of processor time that the main thread has taken so far; off Linux, of time. */
  spent(): Promise<number>
  /**
   * The longest time in milliseconds for which the work blocked the event loop. On Linux that is processor time of the
   * main thread, so that other processes do not count. The work is done several times and the shortest of the results
   * counts, as a garbage collection may fall into some of them.
   */
  longestBlock(work: (time: number) => Promise<unknown>, times?: number): Promise<number>
}

export async function startProbed(
  t: Scope,
  options: {
    readonly data?: unknown
    readonly flags?: readonly string[]
    readonly directory?: string
    /** More flags of Node. */
    readonly node?: readonly string[]
  } = {},
): Promise<ProbedServer> {
  const directory = options.directory ?? (await temporaryDirectory(t))
  if (options.data !== undefined) await writeFile(join(directory, 'db.json'), JSON.stringify(options.data))
  const node = ['--expose-gc', '--import', PROBE, ...(options.node ?? [])]
  const program = spawnServer(t, directory, { node, ...(options.flags && { flags: options.flags }) })
  const url = await program.listening()
  if (url === undefined) throw new Error(`the server ended before it listened:\n${program.stderr()}`)
  await storeBuilt(url)
  const ask = async (question: string): Promise<number> => {
    const answer = once(program.process, 'message')
    program.process.send(question)
    return (await answer)[0] as number
  }
  return {
    url,
    directory,
    process: program.process,
    stderr: program.stderr,
    memory: () => ask('memory'),
    spent: () => ask('spent'),
    async longestBlock(work, times = 3) {
      let shortest = Number.POSITIVE_INFINITY
      for (let time = 0; time < times; time++) {
        await ask('watch')
        await work(time)
        shortest = Math.min(shortest, await ask('longestBlock'))
      }
      return shortest
    },
  }
}
