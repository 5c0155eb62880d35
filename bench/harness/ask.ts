const ANSWERED_MS = 180_000

/**
 * A request that may be made twice, and is, when its connection failed: a connection that was idle may be closed by the
 * server in the moment in which it is used again.
 */
export async function ask(url: string, init: RequestInit = {}): Promise<Response> {
  const answer = await fetch(url, init).catch((error: unknown) => {
    if (!(error instanceof TypeError)) throw error
    return fetch(url, init)
  })
  if (!answer.ok && answer.status !== 304) {
    throw new Error(`${init.method ?? 'GET'} ${url} is ${answer.status}: ${await answer.text()}`)
  }
  return answer
}

/** The same, for an answer that nobody looks at. */
export async function told(url: string, init?: RequestInit): Promise<Headers> {
  const answer = await ask(url, init)
  await answer.arrayBuffer()
  return answer.headers
}

/**
 * Waits until a server that has just started answers a path. It may not listen yet, and is 503 while it reads the end of its
 * journal.
 */
export async function answered(url: string): Promise<void> {
  const deadline = performance.now() + ANSWERED_MS
  const isAnswered = async (): Promise<boolean> => {
    const answer = await fetch(url)
    await answer.arrayBuffer()
    return answer.ok
  }
  while (!(await isAnswered().catch(() => false))) {
    if (performance.now() > deadline) throw new Error(`${url} is not answered within ${ANSWERED_MS / 1000} s.`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** Milliseconds for each of so many requests, one after the other. */
export function timed(count: number, urlOf: (index: number) => string): () => Promise<number> {
  return async () => {
    const urls = Array.from({ length: count }, (_, index) => urlOf(index))
    const began = performance.now()
    for (const url of urls) await told(url)
    return (performance.now() - began) / count
  }
}
