// Resources that are read again when collections change: so seldom that the server rests most of the time.
import { signal } from '@preact/signals'
import { onUpdated } from './app.ts'
import { type Resource, resource } from './resource.ts'

const TURN_MS = 500
/** The pause between two reads is at least so many times as long as a read took. */
const REST_TIMES = 10

/** Reads with each new key, and at most once in `leastMs` after a change of a collection that `follows` selects. */
export function following<K, T>(
  follows: (collection: string) => boolean,
  leastMs: number,
  key: () => K | undefined,
  read: (key: K) => Promise<T>,
): Resource<T> {
  const turn = signal(0)
  let isStale = false
  let next = 0
  onUpdated(({ collection }) => {
    if (follows(collection)) isStale = true
  })
  setInterval(() => {
    if (!isStale || document.hidden || performance.now() < next) return
    isStale = false
    turn.value++
  }, TURN_MS)
  return resource(
    () => {
      const asked = key()
      return asked === undefined ? undefined : { asked, turn: turn.value }
    },
    async ({ asked }) => {
      const began = performance.now()
      next = Number.POSITIVE_INFINITY
      try {
        return await read(asked)
      } finally {
        const now = performance.now()
        next = now + Math.max(leastMs, REST_TIMES * (now - began))
      }
    },
  )
}
