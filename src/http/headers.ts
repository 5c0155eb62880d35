import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Middleware } from 'koa'
import { onFirstUse } from './late-modules.ts'

/** Allows only the server's own scripts and styles, and no framing of pages. */
export const CONTENT_SECURITY_POLICY = [
  "default-src 'self'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "object-src 'none'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

const INLINE_SCRIPT = /<script(?: data-[^>]*)?>(.+?)<\/script>/gs

/** Allows the scripts within a page, by their hashes. */
export function allowingScripts(policy: string, html: string): string {
  const hashes = Array.from(
    html.matchAll(INLINE_SCRIPT),
    ([, script = '']) => `'sha256-${hash('sha256', script, 'base64')}'`,
  )
  return policy.replace("script-src 'self'", ["script-src 'self'", ...hashes].join(' '))
}

/** Sets security headers on pages. An empty policy is not sent. The packaged pages begin with the same script as `page`. */
export function securityHeaders(policy: string, page: string): Middleware {
  const allowing = onFirstUse(async () => allowingScripts(policy, await readFile(page, 'utf8')))
  return async (ctx, next) => {
    await next()
    if (!ctx.response.is('html')) return
    ctx.set('Referrer-Policy', 'no-referrer')
    if (policy === '' || ctx.response.get('Content-Security-Policy')) return
    ctx.set('Content-Security-Policy', await allowing().catch(() => policy))
  }
}
