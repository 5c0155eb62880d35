import { setTimeout as sleep } from 'node:timers/promises'

/** Far beyond what a slow machine needs: it only ends a test that would hang. */
const DEADLINE_MS = 120_000
/** Each look costs processor time, of the server, too. */
const LONGEST_PAUSE_MS = 80

/** Asks again and again until the answer is neither false nor undefined; says after a while that it never came. */
export async function until<T>(what: string, ask: () => T | Promise<T>): Promise<Exclude<T, false | undefined>> {
  const deadline = Date.now() + DEADLINE_MS
  for (let pause = 5; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    const answer = await ask()
    if (answer !== false && answer !== undefined) return answer as Exclude<T, false | undefined>
    if (Date.now() > deadline) throw new Error(`waited in vain for: ${what}`)
    await sleep(pause)
  }
}
