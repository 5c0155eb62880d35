import type { Position } from '../events/event.ts'
import { lastPosition } from '../events/journal.ts'
import type { RecordLine } from '../events/record-reader.ts'
import type { RecordSource } from '../events/repair.ts'
import { decodeContent } from './message.ts'
import type { RecordStream, Sequence } from './record-stream.ts'

/** The records of a stream, from which a node repairs its copy. */
export function streamSource(stream: RecordStream, id: string): RecordSource {
  return { name: 'the stream', id, lines: (from, to) => lines(stream, from, to) }
}

/** The sequence of the last message that begins or continues a write at or before a position; 1 if there is none. */
export async function lastMessageUpTo(stream: RecordStream, position: Position): Promise<Sequence> {
  let low = 1
  let high = await stream.last()
  while (low < high) {
    const middle = (low + high + 1) >> 1
    const message = await stream.find(middle)
    if (message && message.position <= position) low = middle
    else high = middle - 1
  }
  return low
}

/** Records of writes that were never completed are void. */
async function* lines(stream: RecordStream, from: Position, to: Position): AsyncGenerator<RecordLine> {
  const write = (await stream.find(await lastMessageUpTo(stream, from)))?.position ?? 1
  const last = await stream.last()
  let incomplete: RecordLine[] = []
  for (let sequence = (await lastMessageUpTo(stream, write - 1)) + 1; sequence <= last; sequence++) {
    const message = await stream.find(sequence)
    const content = message && decodeContent(message)
    if (content?.kind !== 'records') incomplete = []
    else
      for (const line of content.lines) {
        incomplete.push(line)
        if (line.record.more) continue
        for (const one of incomplete) {
          if (one.record.position > to) return
          if (lastPosition(one.record) >= from) yield one
        }
        incomplete = []
      }
  }
}
