import { Readable } from 'node:stream'
import type { Context } from 'koa'
import { LongText } from '../projections/query/answer.ts'

/** One JSON text a line. */
export const NDJSON_TYPE = 'application/x-ndjson'

/** Answers with JSON text that is already made. */
export function sendJson(ctx: Context, text: string | Buffer | LongText, status = 200): void {
  ctx.status = status
  ctx.set('Content-Type', 'application/json')
  if (text instanceof LongText) {
    ctx.body = Readable.from(text.pieces)
    ctx.length = text.bytes
  } else ctx.body = text
}
