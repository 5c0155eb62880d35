import type { Steps } from '../runtime/steps.ts'

/** Elements sorted, or merged, in one step. */
const CHUNK = 512

/** A merge sort in steps. */
export function* mergeSort(texts: readonly string[], compare = byUnits): Steps<readonly string[]> {
  let from = [...texts]
  for (let start = 0; start < texts.length; start += CHUNK) {
    const chunk = texts.slice(start, start + CHUNK).sort(compare)
    if (chunk.length === texts.length) return chunk
    for (let index = 0; index < chunk.length; index++) from[start + index] = chunk[index] as string
    yield
  }
  for (let length = CHUNK; length < texts.length; length *= 2) {
    const to = new Array<string>(texts.length)
    for (let start = 0; start < texts.length; start += 2 * length) {
      const middle = Math.min(start + length, texts.length)
      const end = Math.min(middle + length, texts.length)
      let left = start
      let right = middle
      for (let at = start; at < end; at++) {
        const takesLeft = left < middle && (right === end || compare(from[left] as string, from[right] as string) <= 0)
        to[at] = from[takesLeft ? left++ : right++] as string
        if (at % CHUNK === 0) yield
      }
    }
    from = to
  }
  return from
}

function byUnits(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
