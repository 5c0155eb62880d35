import { type EventEmitter, once as nodeOnce } from 'node:events'
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'

/** Far beyond what a slow machine needs: it only ends a test that would hang. */
export const DEADLINE_MS = 120_000
/** Each look costs processor time, of the server, too. */
const LONGEST_PAUSE_MS = 80

/** Waits for a promise. Rejects with an error that names what was waited for when it has not settled by the deadline. */
export async function within<T>(what: string, promise: PromiseLike<T>, deadlineMs = DEADLINE_MS): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited ${deadlineMs / 1000} s in vain for: ${what}`)), deadlineMs)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/** Asks again and again until the answer is neither false nor undefined. The error at the deadline names `what`. */
export async function until<T>(
  what: string,
  ask: () => T | Promise<T>,
  deadlineMs = DEADLINE_MS,
): Promise<Exclude<T, false | undefined>> {
  const asking = new AbortController()
  const answered = async (): Promise<Exclude<T, false | undefined>> => {
    for (let pauseMs = 5; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
      const answer = await ask()
      if (answer !== false && answer !== undefined) return answer as Exclude<T, false | undefined>
      await sleep(pauseMs, undefined, { signal: asking.signal })
    }
  }
  try {
    return await within(what, answered(), deadlineMs)
  } finally {
    asking.abort()
  }
}

/** Lets the event loop turn until something is so: for work within this process that needs no time to pass. */
export async function turnsUntil(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = Date.now() + DEADLINE_MS; !(await isSo()); await turn()) {
    if (Date.now() > end) throw new Error(`let the event loop turn for ${DEADLINE_MS / 1000} s in vain for: ${what}`)
  }
}

/** The parts of a stream, with a deadline for each of them. */
export async function* each<T>(what: string, parts: AsyncIterable<T>): AsyncGenerator<T> {
  const iterator = parts[Symbol.asyncIterator]()
  try {
    for (;;) {
      const { value, done } = await within(what, iterator.next())
      if (done) return
      yield value
    }
  } finally {
    // Not awaited: one that does not give its next part may not end either.
    iterator.return?.().catch(() => {})
  }
}

/** The arguments of the next event of that name, like `once` of node:events. Rejects at an `error` event and at the deadline. */
// biome-ignore lint/suspicious/noExplicitAny: as `once` of node:events
export function once(emitter: unknown, event: string): Promise<any[]> {
  const name = (emitter as object).constructor.name
  return within(`the event ${event} of a ${name}`, eventOf(emitter, event))
}

/** The same without a deadline: for a promise that lives long, or that loses a race. Its waits need `within`. */
// biome-ignore lint/suspicious/noExplicitAny: as `once` of node:events
export function eventOf(emitter: unknown, event: string): Promise<any[]> {
  return nodeOnce(emitter as EventEmitter, event)
}

/** The global `fetch`, with a deadline for the headers, and one for the body when that is read as a whole. */
export async function fetch(input: string | URL, init?: RequestInit): Promise<Response> {
  const what = `${init?.method ?? 'GET'} ${input}`
  const response = await within(what, globalThis.fetch(input, init))
  for (const read of ['text', 'json', 'arrayBuffer', 'blob'] as const) {
    const reading = response[read].bind(response) as () => Promise<never>
    Object.defineProperty(response, read, { value: () => within(`the body of ${what}`, reading()) })
  }
  return response
}
