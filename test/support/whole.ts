import { Readable } from 'node:stream'
import { LongText } from '../../src/query/page-text.ts'

/** A text in one piece. */
export function whole(text: string | LongText | Readable | undefined): string {
  if (text instanceof Readable) throw new Error('a stream is not there in one piece')
  return text instanceof LongText ? text.pieces.join('') : (text ?? '')
}
