import {
  type Draft,
  type Journal,
  lastPosition,
  nextTime,
  type Recorded,
  recordedOf,
  slice,
} from '../../src/events/journal.ts'
import type { Sized } from '../../src/events/segment.ts'
import { Refusal } from '../../src/runtime/errors.ts'

/** A journal in memory. */
export function memoryJournal(
  id: string,
  now: () => Date,
  project: (batch: readonly Recorded[]) => void | Promise<void> = () => {},
): Journal & Sized {
  const records: Recorded[] = []
  const followers: ((recorded: Recorded) => void)[] = []
  let next = 1
  let head = 0
  let time = ''
  let settled: Promise<unknown> = Promise.resolve()
  let closed = false

  return {
    id,
    get head() {
      return head
    },
    get timeMs() {
      return time === '' ? Number.NEGATIVE_INFINITY : Date.parse(time)
    },
    writable: true,
    append(draft: Draft): Promise<Recorded> {
      if (closed) return Promise.reject(new Refusal('Unavailable', 'The journal is closed.'))
      if (draft.expected !== next) {
        return Promise.reject(new Refusal('Unavailable', `Position ${draft.expected} is not the next one (${next}).`))
      }
      time = nextTime(time, now())
      const recorded = recordedOf(draft, time)
      next = lastPosition(recorded) + 1
      const appended = settled.then(async () => {
        await new Promise<void>((resolve) => setImmediate(resolve))
        records.push(recorded)
        const projected = project([recorded])
        if (projected) await projected
        head = lastPosition(recorded)
        for (const follower of followers) follower(recorded)
        return recorded
      })
      settled = appended
      return appended
    },
    async *read(from, to = head) {
      for (const recorded of records) {
        if (recorded.position > to) return
        if (lastPosition(recorded) >= from) yield slice(recorded, from, to)
      }
    },
    /** It has no bytes. */
    bytesAfter: () => 0,
    follow(follower) {
      followers.push(follower)
    },
    async close() {
      closed = true
      await settled
    },
  }
}
