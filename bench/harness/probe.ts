import { Agent, request } from 'node:http'

const EVERY_MS = 5

export interface Probed {
  readonly p99Ms: number
  readonly longestMs: number
}

/** Asks for one path after another, every few milliseconds whatever the answers take, until it is stopped. */
export function probe(url: string, paths: readonly string[]): { stop(): Promise<Probed> } {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 })
  const times: number[] = []
  const open = new Set<Promise<void>>()
  let asked = 0
  const ask = (): void => {
    const began = performance.now()
    const path = paths[asked++ % paths.length] as string
    const answered = new Promise<void>((resolve, reject) => {
      const sent = request(url + path, { agent }, (response) => {
        response.resume()
        response.once('end', () => {
          times.push(performance.now() - began)
          resolve()
        })
      })
      sent.once('error', reject)
      sent.end()
    }).finally(() => open.delete(answered))
    answered.catch(() => {})
    open.add(answered)
  }
  const timer = setInterval(ask, EVERY_MS)
  return {
    async stop() {
      clearInterval(timer)
      await Promise.all(open)
      agent.destroy()
      const ascending = times.toSorted((a, b) => a - b)
      return {
        p99Ms: ascending[Math.floor(ascending.length * 0.99)] ?? Number.NaN,
        longestMs: ascending.at(-1) ?? Number.NaN,
      }
    },
  }
}
