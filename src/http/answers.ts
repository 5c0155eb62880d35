import type { Context } from 'koa'
import { matches } from '../commands/decide.ts'
import { parseTags } from './requests.ts'

/** Answers with JSON text that is already made. */
export function sendJson(ctx: Context, text: string, status = 200): void {
  ctx.status = status
  ctx.set('Content-Type', 'application/json')
  ctx.body = text
}

/**
 * Sets the entity tag; true when the client has that version already, and 304 is the whole answer. Compared
 * here and not by Koa, for which `Cache-Control: no-cache` (sent by Node's fetch) is never a match.
 */
export function isNotModified(ctx: Context, tag: string): boolean {
  ctx.set('ETag', tag)
  const tags = parseTags(ctx.headers['if-none-match'])
  if (tags === undefined || !matches(tags, tag, true)) return false
  ctx.status = 304
  return true
}
