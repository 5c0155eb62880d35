import type { Context } from 'koa'

/** One JSON text a line. */
export const NDJSON_TYPE = 'application/x-ndjson'

/** Answers with JSON text that is already made. */
export function sendJson(ctx: Context, text: string | Buffer, status = 200): void {
  ctx.status = status
  ctx.set('Content-Type', 'application/json')
  ctx.body = text
}
