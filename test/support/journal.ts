import { randomUUID } from 'node:crypto'
import { pino } from 'pino'
import type { Checkpoint } from '../../src/events/checkpoint.ts'
import type { Damage } from '../../src/events/damage.ts'
import type { Position } from '../../src/events/event.ts'
import { FileJournal, type FileJournalOptions } from '../../src/events/file-journal.ts'
import {
  type Draft,
  type Journal,
  lastPosition,
  nextTime,
  type Recorded,
  recordedOf,
  slice,
} from '../../src/events/journal.ts'
import { BEGINNING, FORMAT } from '../../src/events/record-format.ts'
import { encodeEvents, encodeHeader, WriteEncoder } from '../../src/events/record-writer.ts'
import type { Sized } from '../../src/events/segment.ts'
import { checkUpTo, walk } from '../../src/events/walk.ts'
import type { Files } from '../../src/files/files.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { LimitedLog } from '../../src/runtime/limited-log.ts'

/** Each segment is compressed as soon as it is sealed, without rests. */
export const COMPRESSED_AT_ONCE = {
  afterMs: 0,
  schedule: (work: () => void) => {
    const timer = setImmediate(work)
    return { cancel: () => clearImmediate(timer) }
  },
  log: { info: () => {}, warn: () => {} },
}

/** The damage that a check of the journal before a checkpoint finds. */
export async function damageUpTo(files: Files, directory: string, checkpoint: Checkpoint): Promise<readonly Damage[]> {
  const found: Damage[] = []
  await checkUpTo(files, directory, checkpoint, { rest: async () => {}, damaged: (damage) => found.push(damage) })
  return found
}

interface OpenedJournal {
  readonly journal: FileJournal
  /** The writes that it had when it was opened, from the checkpoint on. */
  readonly recovered: readonly Recorded[]
  /** The error that made the journal unusable, if there was one. */
  readonly failures: readonly unknown[]
}

export async function openJournal(
  files: Files,
  directory: string,
  options: Partial<Pick<FileJournalOptions, 'now' | 'segmentBytes' | 'newId' | 'from' | 'compress'>> = {},
): Promise<OpenedJournal> {
  const failures: unknown[] = []
  const journal = await FileJournal.open({
    files,
    directory,
    now: options.now ?? (() => new Date('2026-11-20T12:00:00.000Z')),
    log: new LimitedLog(pino({ level: 'silent' }), () => 0),
    newId: options.newId ?? randomUUID,
    segmentBytes: options.segmentBytes ?? 64 * 1024 * 1024,
    ...(options.compress && { compress: options.compress }),
    from: options.from,
    failed: (error) => failures.push(error),
  })
  const recovered: Recorded[] = []
  await walk(files, directory, (recorded) => recovered.push(recorded), { from: options.from })
  return { journal, recovered, failures }
}

/** The segments that a version with such limits writes, each write as a flush of its own. */
export function segmentsOf(
  writes: readonly Recorded[],
  recordBytes: number,
  segmentBytes = Number.POSITIVE_INFINITY,
): readonly { readonly first: Position; readonly bytes: Buffer }[] {
  const segments: { readonly first: Position; bytes: Buffer }[] = []
  let { previous } = BEGINNING
  for (const write of writes) {
    const { position, time } = write
    const last = segments.at(-1)
    if (!last || last.bytes.length >= segmentBytes) {
      const { bytes } = encodeHeader({ format: FORMAT, journal: 'a journal', first: position, previous })
      segments.push({ first: position, bytes })
    }
    const segment = segments.at(-1) as { bytes: Buffer }
    const encoder = new WriteEncoder({ position, previous, flush: position, time }, write, recordBytes)
    const records = [...encodeEvents(write.events).flatMap((text) => encoder.add(text) ?? []), encoder.end()]
    segment.bytes = Buffer.concat([segment.bytes, ...records.map(({ bytes }) => bytes)])
    previous = records.at(-1)?.crc as string
  }
  return segments
}

/** Reads events one after the other. */
export function eachAt(read: Journal['read']): Journal['at'] {
  return async function* (positions) {
    for (const position of positions) yield* read(position, position)
  }
}

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
    at(positions) {
      return eachAt(this.read)(positions)
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
