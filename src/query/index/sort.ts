import type { Steps } from '../../runtime/time-slices.ts'

/** Keys sorted in one step. */
const CHUNK = 512

/** A merge sort in steps. */
export function* sorted(keys: readonly string[]): Steps<readonly string[]> {
  let from = [...keys]
  for (let start = 0; start < keys.length; start += CHUNK) {
    const chunk = keys.slice(start, start + CHUNK).sort(byBytes)
    for (let index = 0; index < chunk.length; index++) from[start + index] = chunk[index] as string
    yield
  }
  for (let length = CHUNK; length < keys.length; length *= 2) {
    const to = new Array<string>(keys.length)
    for (let start = 0; start < keys.length; start += 2 * length) {
      const middle = Math.min(start + length, keys.length)
      const end = Math.min(middle + length, keys.length)
      let left = start
      let right = middle
      for (let at = start; at < end; at++) {
        const takesLeft = left < middle && (right === end || (from[left] as string) <= (from[right] as string))
        to[at] = from[takesLeft ? left++ : right++] as string
        if (at % CHUNK === 0) yield
      }
    }
    from = to
  }
  return from
}

function byBytes(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
