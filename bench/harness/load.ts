import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

const SCRIPT = fileURLToPath(new URL('load.lua', import.meta.url))

/** One request of a load; wrk sends them in turn. */
export interface Sent {
  readonly method?: 'GET' | 'POST' | 'PUT'
  readonly path: string
  readonly ifNoneMatch?: string
  readonly body?: string
}

export interface Load {
  readonly seconds: number
  readonly connections?: number
}

export interface Loaded {
  /** Answers a second. */
  readonly rate: number
  readonly p50Ms: number
  readonly p99Ms: number
}

/** The requests in the file that wrk's script reads. */
export async function writeRequests(path: string, requests: readonly Sent[]): Promise<string> {
  const lines = requests.map(({ method = 'GET', path: target, ifNoneMatch = '', body = '' }) =>
    [method, target, ifNoneMatch, body].join('\t'),
  )
  await writeFile(path, `${lines.join('\n')}\n`)
  return path
}

/** Loads a server with the requests of a file; an answer that is an error fails the measurement. */
export async function load(url: string, requests: string, { seconds, connections = 64 }: Load): Promise<Loaded> {
  await idle(url)
  const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '60s', '--latency', '-s', SCRIPT, url]
  const text = await run('wrk', [...args, '--', requests], (seconds + 90) * 1000)
  const answered = JSON.parse(/^result (\{.*\})$/m.exec(text)?.[1] ?? 'null') as Answered | null
  if (!answered) throw new Error(`wrk said nothing of ${url}:\n${text}`)
  const { errors, requests: count, us } = answered
  if (errors > 0) throw new Error(`${errors} of ${count} answers of ${url} were errors:\n${text}`)
  return { rate: count / (us / 1e6), p50Ms: answered.p50 / 1000, p99Ms: answered.p99 / 1000 }
}

/** Who has not answered by then does not answer. */
const IDLE_MS = 60_000

/** Waits until the previous load is done: a server that answers requests in order answers this one last. */
async function idle(url: string): Promise<void> {
  const asked = (): Promise<Response> => fetch(url, { signal: AbortSignal.timeout(IDLE_MS) })
  const answer = await asked().catch(asked)
  await answer.arrayBuffer()
}

interface Answered {
  readonly requests: number
  readonly us: number
  readonly errors: number
  readonly p50: number
  readonly p99: number
}

/** The standard output of a program. */
export function run(command: string, args: readonly string[], atMostMs: number): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(command, args, { timeout: atMostMs, maxBuffer: 64 * 1024 * 1024 }, (error, stdout, stderr) => {
      if (error) reject(new Error(`${command}: ${error.message}\n${stdout}${stderr}`))
      else resolve(stdout)
    })
  })
}
