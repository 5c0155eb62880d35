import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Context, Middleware } from 'koa'
import type { HttpRequest, Reply, Resource } from './exchange.ts'
import { allowingScripts, CONTENT_SECURITY_POLICY } from './headers.ts'
import { onFirstUse } from './late-modules.ts'
import { acceptsGzip } from './media-types.ts'
import { type Document, OpenApi, type OpenApiOptions } from './openapi/openapi.ts'

/** Relative to the page. */
const DOCUMENT = '../openapi.json'

/** `/openapi.json` and Swagger UI, whose files are static. Nothing is loaded from other hosts. */
export function docResources(options: OpenApiOptions, builtPages: string): readonly Resource[] {
  const description = new OpenApi(options)
  // Created on first use, so that the server starts faster.
  const page = onFirstUse(() => makeSwaggerPage(builtPages))
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
          // The page of koa2-swagger-ui has styles of its own, which another policy may not allow.
          reply.set('Content-Security-Policy', allowingScripts(CONTENT_SECURITY_POLICY, html))
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
async function makeSwaggerPage(builtPages: string): Promise<string> {
  const assets = await assetsIn(join(builtPages, 'swagger'))
  const { koaSwagger } = await import('koa2-swagger-ui')
  const middleware = koaSwagger({
    title: 'Recollect API',
    // Its route would match any path that ends like it.
    routePrefix: false,
    swaggerCdnUrl: '.',
    swaggerVersion: assets,
    // Another layout would need the standalone preset.
    swaggerOptions: {
      url: DOCUMENT,
      validatorUrl: null,
      deepLinking: true,
      docExpansion: 'none',
      layout: 'BaseLayout',
      syntaxHighlight: { theme: 'obsidian' },
    },
    hideTopbar: true,
  }) as unknown as Middleware
  // It only sets the body, which is always the same.
  const shown = { body: '' }
  await middleware(shown as Context, async () => {})
  return ownPage(shown.body, `${assets}/icon.svg`)
}

/** The directory of the page's files, whose name has a hash of them. */
async function assetsIn(directory: string): Promise<string> {
  const found = (await readdir(directory)).find((name) => name.startsWith('assets-'))
  if (found === undefined) throw new Error(`${directory} has no assets`)
  return found
}

/**
 * Adds to the page of koa2-swagger-ui what no option does: a header, and what phones need. Removes its lines with an
 * icon, and with Google's fonts, which the policy would block with an error in the browser's console.
 */
export function ownPage(html: string, icon: string): string {
  const own = html
    .split('\n')
    .filter((line) => !line.includes('https://fonts.googleapis.com/') && !line.includes('<link rel="icon"'))
    .join('\n')
  return own.replace('<head>', `<head>${headOf(icon)}`).replace('<body>', `<body>${headerOf(icon)}`)
}

/** The document is loaded together with the scripts, and not after them. */
const headOf = (icon: string) => `
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <meta name="color-scheme" content="light dark">
  <link rel="preload" href="${DOCUMENT}" as="fetch" crossorigin>
  <link rel="icon" href="${icon}" type="image/svg+xml">`

const headerOf = (icon: string) => `
<header>
  <a class="brand" href="../" title="To the start page"><span aria-hidden="true">‹</span><img src="${icon}" alt="">Recollect</a>
  <span class="here">API</span>
</header>
<noscript><p class="note">This page needs JavaScript. Without it the description is at <a href="${DOCUMENT}">/openapi.json</a>.</p></noscript>
`
