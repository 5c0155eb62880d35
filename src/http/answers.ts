import type { Context } from 'koa'
import { JSON_TYPE } from './bodies.ts'

/** One JSON text per line. */
export const NDJSON_TYPE = 'application/x-ndjson'

export const EVENT_STREAM = 'text/event-stream'
/** The types of `/events`, the default first. */
export const EVENT_MEDIA_TYPES = [JSON_TYPE, NDJSON_TYPE, EVENT_STREAM] as const

/** Responds with existing JSON text. */
export function sendJson(ctx: Context, text: string | Buffer, status = 200): void {
  ctx.status = status
  ctx.set('Content-Type', JSON_TYPE)
  ctx.body = text
}
