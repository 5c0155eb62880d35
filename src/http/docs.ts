import { hash } from 'node:crypto'
import type { Context, Middleware } from 'koa'
import type { HttpRequest, Reply, Resource } from './exchange.ts'
import { CONTENT_SECURITY_POLICY } from './headers.ts'
import { onFirstUse } from './late-modules.ts'
import { acceptsGzip } from './media-types.ts'
import { type Document, OpenApi, type OpenApiOptions } from './openapi/openapi.ts'

/** `/openapi.json` and Swagger UI, whose files are static. Nothing is loaded from other hosts. */
export function docResources(options: OpenApiOptions): readonly Resource[] {
  const description = new OpenApi(options)
  // Created on first use, so that the server starts faster.
  const page = onFirstUse(makeSwaggerPage)
  return [
    {
      path: '/openapi.json',
      routes: { GET: async (request, reply) => sendDocument(request, reply, await description.document()) },
    },
    {
      path: '/swagger',
      isKoaOnly: true,
      routes: {
        GET: async ({ path }, reply) => {
          if (!path.endsWith('/')) {
            reply.status = 301
            reply.set('Location', 'swagger/')
            reply.body = ''
            return
          }
          const html = await page()
          reply.send('text/html; charset=utf-8', html)
          reply.set('Content-Security-Policy', swaggerPolicy(html))
        },
      },
    },
  ]
}

/** Compressed if the client accepts that: it is 131 KB for two collections, and 13 KB then. */
function sendDocument({ headers }: HttpRequest, reply: Reply, { text, gzipped }: Document): void {
  const isCompressed = acceptsGzip(headers)
  reply.json(isCompressed ? gzipped : text)
  reply.vary('Accept-Encoding')
  if (isCompressed) reply.set('Content-Encoding', 'gzip')
}

/** Swagger UI by koa2-swagger-ui. All addresses are relative to `/swagger/`, so that they work below any path. */
async function makeSwaggerPage(): Promise<string> {
  const { koaSwagger } = await import('koa2-swagger-ui')
  const middleware = koaSwagger({
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
  // It only sets the body, which is always the same.
  const shown = { body: '' }
  await middleware(shown as Context, async () => {})
  return withoutWebFonts(shown.body)
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
function swaggerPolicy(html: string): string {
  const script = html.slice(html.lastIndexOf('<script>') + '<script>'.length, html.lastIndexOf('</script>'))
  const allowed = `script-src 'self' 'sha256-${hash('sha256', script, 'base64')}'`
  return CONTENT_SECURITY_POLICY.replace("script-src 'self'", allowed)
}
