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
