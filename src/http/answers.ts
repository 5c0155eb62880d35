import type { Context } from 'koa'

/** One JSON text per line. */
export const NDJSON_TYPE = 'application/x-ndjson'

/** Responds with existing JSON text. */
export function sendJson(ctx: Context, text: string | Buffer, status = 200): void {
  ctx.status = status
  ctx.set('Content-Type', 'application/json')
  ctx.body = text
}
