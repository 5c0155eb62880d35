import { hash } from 'node:crypto'
import type { Middleware } from 'koa'
import { CONTENT_SECURITY_POLICY } from './headers.ts'

/** Swagger UI by koa2-swagger-ui. All addresses are relative to `/swagger/`, so that they work below any path. */
export async function makeSwaggerPage(): Promise<Middleware> {
  const { koaSwagger } = await import('koa2-swagger-ui')
  return koaSwagger({
    title: 'Recollect API',
    // Its route would match any path that ends like it.
    routePrefix: false,
    swaggerCdnUrl: '.',
    swaggerVersion: 'assets',
    swaggerOptions: { url: '../openapi.json', validatorUrl: null, deepLinking: true },
    customCSS: '.opblock-tag { overflow-wrap: anywhere; }',
    favicon: 'assets/favicon-32x32.png',
    hideTopbar: true,
  }) as unknown as Middleware
}

/**
 * Removes the line with Google's fonts, which koa2-swagger-ui's template contains and no option omits. The policy would
 * block it, with an error in the browser's console.
 */
export function withoutWebFonts(html: string): string {
  return html
    .split('\n')
    .filter((line) => !line.includes('https://fonts.googleapis.com/'))
    .join('\n')
}

/** The default policy, which also allows the page's only inline script, by its hash. */
export function swaggerPolicy(html: string): string {
  const script = html.slice(html.lastIndexOf('<script>') + '<script>'.length, html.lastIndexOf('</script>'))
  const allowed = `script-src 'self' 'sha256-${hash('sha256', script, 'base64')}'`
  return CONTENT_SECURITY_POLICY.replace("script-src 'self'", allowed)
}
