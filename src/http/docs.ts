import { hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import Router from '@koa/router'
import type { Middleware } from 'koa'
import { Refusal } from '../runtime/errors.ts'
import { CONTENT_SECURITY_POLICY } from './headers.ts'
import { onFirstUse } from './koa-body.ts'
import { sendJson } from './media-types.ts'
import { OpenApi, type OpenApiOptions } from './openapi/openapi.ts'
import { resource } from './resource.ts'
import type { FileStreams } from './statics.ts'

export interface DocsOptions extends OpenApiOptions {
  /** The directory of Swagger UI's files, created by the build. */
  readonly swaggerAssets: string
  readonly streams: FileStreams
}

/** Files of the page, by the names under which it requests them. */
const ASSETS: Readonly<Record<string, { readonly file: string; readonly type: string }>> = {
  'swagger-ui.min.css': { file: 'swagger-ui.css', type: 'text/css' },
  'swagger-ui-bundle.js': { file: 'swagger-ui-bundle.js', type: 'text/javascript' },
  'swagger-ui-standalone-preset.js': { file: 'swagger-ui-standalone-preset.js', type: 'text/javascript' },
  'favicon-32x32.png': { file: 'favicon-32x32.png', type: 'image/png' },
}

/** `/openapi.json` and Swagger UI. Nothing is loaded from other hosts. */
export function docRoutes(options: DocsOptions): Router {
  const router = new Router({ sensitive: true, strict: true })
  const description = new OpenApi(options)
  // Created on first use, so that the server starts faster.
  const page = onFirstUse(makeSwaggerPage)

  resource(router, '/openapi.json', { GET: async (ctx) => sendJson(ctx, await description.text()) })

  resource(router, '/swagger', {
    GET: (ctx) => {
      ctx.status = 301
      // Relative like all addresses of the page, because of proxies with a path.
      ctx.redirect('swagger/')
    },
  })

  resource(router, '/swagger/', {
    GET: async (ctx) => {
      await (await page())(ctx, async () => {})
      const html = withoutWebFonts(String(ctx.body))
      ctx.body = html
      ctx.set('Content-Security-Policy', swaggerPolicy(html))
    },
  })

  resource(router, '/swagger/assets/:name', {
    GET: async (ctx) => {
      const name = ctx.path.slice('/swagger/assets/'.length)
      const asset = Object.hasOwn(ASSETS, name) ? ASSETS[name] : undefined
      if (!asset) throw new Refusal('NotFound', `There is no ${name} here.`)
      ctx.type = asset.type
      ctx.set('Cache-Control', 'public, max-age=86400')
      await options.streams.run(ctx, () => {
        ctx.body = createReadStream(`${options.swaggerAssets}/${asset.file}`)
      })
    },
  })

  return router
}

/** Swagger UI by koa2-swagger-ui. All addresses are relative to `/swagger/`, so that they work below any path. */
async function makeSwaggerPage(): Promise<Middleware> {
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
function swaggerPolicy(html: string): string {
  const script = html.slice(html.lastIndexOf('<script>') + '<script>'.length, html.lastIndexOf('</script>'))
  const allowed = `script-src 'self' 'sha256-${hash('sha256', script, 'base64')}'`
  return CONTENT_SECURITY_POLICY.replace("script-src 'self'", allowed)
}
