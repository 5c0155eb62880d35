import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { pino } from 'pino'
import type { MigrationProgress, MigrationResult } from '../engine/remote-journal.ts'
import type { Position } from '../events/event.ts'
import { lastPosition } from '../events/journal.ts'
import { NO_PREVIOUS } from '../events/record-format.ts'
import type { Segment } from '../events/segment.ts'
import { SegmentReader } from '../events/segment-reader.ts'
import { walk } from '../events/walk.ts'
import type { Files } from '../files/files.ts'
import { Corruption, Locked, Refusal } from '../runtime/errors.ts'
import { ClusterJournal } from './cluster-journal.ts'
import { connect, retryWhileUnavailable } from './connection.ts'
import { ClusterFigures } from './figures.ts'
import { JetStream } from './jetstream.ts'
import { decodeBeginning, decodeContent, encodeBeginning, encodeSuccession } from './message.ts'
import type { Message, RecordStream, Sequence } from './record-stream.ts'
import type { Move } from './settings.ts'
import { streamSource } from './stream-source.ts'

const SEGMENT_BYTES = 64 * 1024 * 1024

/** Copies a journal completely and unchanged. Resumes after an interruption. */
export async function migrate(
  files: Files,
  { settings, directory, isToStream }: Move,
  progress: MigrationProgress,
): Promise<MigrationResult> {
  const log = pino({ level: 'silent' })
  const nc = await retryWhileUnavailable(log, () => connect(settings, 'recollect migrate', files))
  try {
    const stream = await retryWhileUnavailable(log, () => JetStream.open(nc, settings.stream, settings.replicas, log))
    return isToStream
      ? await moveToStream(files, directory, stream, randomUUID, progress)
      : await moveToDirectory(stream, files, directory, SEGMENT_BYTES, progress)
  } finally {
    await nc.close()
  }
}

/**
 * Copies a journal from disk, which no process may have open, into a stream. Lines are copied as they are, so
 * positions, times, actors and revisions are the same. Resumes an interrupted copy, and compares both at the end.
 */
export async function moveToStream(
  files: Files,
  directory: string,
  stream: RecordStream,
  newId: () => string,
  progress: MigrationProgress,
): Promise<MigrationResult> {
  if ((await files.list(directory)).length === 0) throw new Refusal('NotFound', `There is no journal in ${directory}.`)
  const lock = await files.lock(`${directory}/lock`)
  if (!lock) throw new Locked(`The journal ${directory} is in use by another process.`)
  try {
    const { id, segments, next, torn } = await walk(files, directory)
    if (id === undefined) throw new Refusal('NotFound', `There is no journal in ${directory}.`)
    if (torn) {
      throw new Refusal('Conflict', `${directory} ends with ${torn.why}; a server that opens it cuts that off first.`)
    }
    const head = next.position - 1
    const beginning = encodeBeginning(id)
    const begun = await stream.find(1)
    if (!begun) await append(stream, beginning, 0)
    else if (decodeBeginning(begun) !== id) {
      throw new Refusal('Conflict', `The stream holds another journal, ${decodeBeginning(begun)}; this one is ${id}.`)
    }
    const end = await findEnd(stream)
    await checkBeginning(files, segments, end, head)
    const { position, previous } = end
    // From here on other writers are detected, and a write that an interrupted copy left incomplete is void.
    await append(stream, encodeSuccession({ decider: 'migrate', token: newId(), position, previous }), end.sequence)
    let sequence = end.sequence + 1
    for await (const { message, last } of packMessages(files, segments, position, head, stream.messageBytes)) {
      await append(stream, message, sequence++)
      progress(last, head)
    }
    await compareCopy(files, segments, { id, head }, stream)
    return { id, head }
  } finally {
    await lock.release()
  }
}

/** Copies the journal of a stream into a directory that is empty or has its beginning. Verifies every record. */
export async function moveToDirectory(
  stream: RecordStream,
  files: Files,
  directory: string,
  segmentBytes: number,
  progress: MigrationProgress,
): Promise<MigrationResult> {
  if (!(await stream.find(1))) throw new Refusal('NotFound', 'The stream holds no journal.')
  let failure: unknown
  const journal = await ClusterJournal.open({
    stream,
    files,
    directory,
    segmentBytes,
    node: 'migrate',
    now: () => new Date(),
    newId: () => '',
    figures: new ClusterFigures(),
    lost: () => {},
    failed: (error) => {
      failure = error
    },
  })
  const end = await findEnd(stream)
  journal.follow((recorded) => progress(lastPosition(recorded), end.position - 1))
  try {
    await journal.begin()
    await journal.caughtUp()
  } catch (error) {
    throw failure ?? error
  } finally {
    await journal.close()
  }
  const { id, next } = await walk(files, directory)
  if (next.position < end.position || (next.position === end.position && next.previous !== end.previous)) {
    throw new Corruption(`${directory} ends at position ${next.position - 1}, and not as the stream does.`)
  }
  return { id: id as string, head: next.position - 1 }
}

const TRIES = 20
const RETRY_MS = 500

async function append(stream: RecordStream, message: Message, after: Sequence): Promise<void> {
  for (let tries = 0; tries < TRIES; tries++) {
    const outcome = await stream.publish(message, after)
    if (outcome === 'stored') return
    const there = await stream.find(after + 1).catch(() => undefined)
    if (there && Buffer.from(there.bytes).equals(message.bytes)) return
    if (there) throw new Refusal('Conflict', 'Another process writes to the stream.')
    await delay(RETRY_MS)
  }
  throw new Refusal('Unavailable', 'The NATS servers do not respond. When they do, the same command continues.')
}

/** The end of a stream's last complete write. */
interface StreamEnd {
  readonly sequence: Sequence
  /** Position of the next record. */
  readonly position: Position
  readonly previous: string
}

async function findEnd(stream: RecordStream): Promise<StreamEnd> {
  const sequence = await stream.last()
  for (let at = sequence; at > 1; at--) {
    const message = await stream.find(at)
    if (!message) throw new Corruption(`Message ${at} of the stream is missing.`)
    const content = decodeContent(message)
    if (content.kind === 'succession') return { sequence, ...content.succession }
    const line = content.lines.findLast(({ record }) => !record.more)
    if (line) return { sequence, position: lastPosition(line.record) + 1, previous: line.crc }
  }
  return { sequence, position: 1, previous: NO_PREVIOUS }
}

/** Checks that the stream is a prefix of the journal on disk. */
async function checkBeginning(
  files: Files,
  segments: readonly Segment[],
  end: StreamEnd,
  head: Position,
): Promise<void> {
  const last = end.position - 1
  if (last > head) {
    throw new Refusal('Conflict', `The stream continues to position ${last}, and the journal ends at ${head}.`)
  }
  if (last === 0) return
  for await (const { record, crc } of new SegmentReader(files, segments).lines(last, last)) {
    if (lastPosition(record) === last && crc === end.previous) return
  }
  throw new Refusal('Conflict', `The stream holds another history: it differs at position ${last}.`)
}

/** Packs the lines from a position on into messages. */
async function* packMessages(
  files: Files,
  segments: readonly Segment[],
  from: Position,
  to: Position,
  messageBytes: number,
): AsyncGenerator<{ readonly message: Message; readonly last: Position }> {
  let gathered: Uint8Array[] = []
  let size = 0
  let last = 0
  /** Position of the write with which the message begins, and of the write of the current line. */
  let position = from
  let write = from
  for await (const { record, bytes } of new SegmentReader(files, segments).lines(from, to)) {
    if (bytes.length > messageBytes) {
      throw new Refusal(
        'TooLarge',
        `The record at position ${record.position} has ${bytes.length} bytes, and a message at most ${messageBytes}: raise max_payload of the NATS servers.`,
      )
    }
    if (size > 0 && size + bytes.length > messageBytes) {
      yield { message: { position, bytes: Buffer.concat(gathered) }, last }
      gathered = []
      size = 0
      position = write
    }
    gathered.push(bytes)
    size += bytes.length
    last = lastPosition(record)
    if (!record.more) write = last + 1
  }
  if (size > 0) yield { message: { position, bytes: Buffer.concat(gathered) }, last }
}

/** Reads the journal and the stream, and throws at the first difference. */
async function compareCopy(
  files: Files,
  segments: readonly Segment[],
  { id, head }: MigrationResult,
  stream: RecordStream,
): Promise<void> {
  const copied = streamSource(stream, id).lines(1, head)[Symbol.asyncIterator]()
  for await (const { record, bytes } of new SegmentReader(files, segments).lines(1, head)) {
    const { value } = await copied.next()
    if (!value) throw new Corruption(`The copy ends before position ${record.position}.`)
    if (!Buffer.from(value.bytes).equals(bytes))
      throw new Corruption(`The copy differs at position ${record.position}.`)
  }
}
