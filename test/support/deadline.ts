import { type EventEmitter, once as nodeOnce } from 'node:events'

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
  let isOver = false
  const answered = async (): Promise<T> => {
    for (let pauseMs = 5; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
      const answer = await ask()
      if (isOver || (answer !== false && answer !== undefined)) return answer
      await sleep(pauseMs)
    }
  }
  try {
    return (await within(what, answered(), deadlineMs)) as Exclude<T, false | undefined>
  } finally {
    isOver = true
  }
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** The arguments of the next event of that name, like `once` of node:events. Rejects at an `error` event and at the deadline. */
// biome-ignore lint/suspicious/noExplicitAny: as `once` of node:events
export function once(emitter: unknown, event: string): Promise<any[]> {
  const name = (emitter as object).constructor.name
  return within(`the event ${event} of a ${name}`, nodeOnce(emitter as EventEmitter, event))
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
