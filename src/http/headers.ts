import type { Middleware } from 'koa'

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

/** Sets security headers on pages. An empty policy is not sent. */
export function securityHeaders(policy: string): Middleware {
  return async (ctx, next) => {
    await next()
    if (!ctx.response.is('html')) return
    ctx.set('Referrer-Policy', 'no-referrer')
    if (policy !== '' && !ctx.response.get('Content-Security-Policy')) ctx.set('Content-Security-Policy', policy)
  }
}
