import { LongText } from '../../src/projections/query/answer.ts'

/** A text in one piece. */
export function whole(text: string | LongText | undefined): string {
  return text instanceof LongText ? text.pieces.join('') : (text ?? '')
}
