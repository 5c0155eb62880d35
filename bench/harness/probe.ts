import { Agent, request } from 'node:http'
import type { Sent } from './load.ts'

export interface Probed {
  readonly p99Ms: number
  readonly longestMs: number
}

/**
 * Sends one request after another, every few milliseconds whatever the answers take, until it is stopped. An answer that is
 * an error fails the measurement.
 */
export function probe(url: string, requests: readonly Sent[], everyMs = 5): { stop(): Promise<Probed> } {
  const agent = new Agent({ keepAlive: true, maxSockets: 64 })
  const times: number[] = []
  const open = new Set<Promise<void>>()
  let asked = 0
  let failure: Error | undefined
  const ask = (): void => {
    const began = performance.now()
    const { method = 'GET', path, body } = requests[asked++ % requests.length] as Sent
    const headers = body === undefined ? {} : { 'Content-Type': 'application/json' }
    const answered = new Promise<void>((resolve, reject) => {
      const sent = request(url + path, { method, headers, agent }, (response) => {
        const { statusCode = 0 } = response
        if (statusCode >= 400) failure ??= new Error(`${method} ${url}${path} is ${statusCode}`)
        response.resume()
        response.once('end', () => {
          times.push(performance.now() - began)
          resolve()
        })
      })
      sent.once('error', reject)
      sent.end(body)
    }).finally(() => open.delete(answered))
    answered.catch(() => {})
    open.add(answered)
  }
  const timer = setInterval(ask, everyMs)
  return {
    async stop() {
      clearInterval(timer)
      await Promise.all(open)
      agent.destroy()
      if (failure) throw failure
      const ascending = times.toSorted((a, b) => a - b)
      return {
        p99Ms: ascending[Math.floor(ascending.length * 0.99)] ?? Number.NaN,
        longestMs: ascending.at(-1) ?? Number.NaN,
      }
    },
  }
}
