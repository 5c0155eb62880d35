import type { Turn } from '../runtime/turns.ts'

/** Elements sorted, or merged, between two looks at the turn. */
const CHUNK = 512

/** A merge sort with pauses, in the order of UTF-16 units. */
export async function mergeSort(texts: readonly string[], turn: Turn): Promise<readonly string[]> {
  let from = [...texts]
  for (let start = 0; start < texts.length; start += CHUNK) {
    const chunk = texts.slice(start, start + CHUNK).sort()
    if (chunk.length === texts.length) return chunk
    for (let index = 0; index < chunk.length; index++) from[start + index] = chunk[index] as string
    if (turn.isOver) await turn.next()
  }
  for (let length = CHUNK; length < texts.length; length *= 2) {
    const to = new Array<string>(texts.length)
    for (let start = 0; start < texts.length; start += 2 * length) {
      const middle = Math.min(start + length, texts.length)
      const end = Math.min(middle + length, texts.length)
      let left = start
      let right = middle
      for (let at = start; at < end; at++) {
        const takesLeft = left < middle && (right === end || (from[left] as string) <= (from[right] as string))
        to[at] = from[takesLeft ? left++ : right++] as string
        if (at % CHUNK === 0 && turn.isOver) await turn.next()
      }
    }
    from = to
  }
  return from
}
