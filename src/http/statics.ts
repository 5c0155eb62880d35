import { realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import type { Middleware } from 'koa'
import serve from 'koa-static'

/** The files of a directory; what a symbolic link would lead out of it is not served. */
export function statics(root: string): Middleware {
  const files = serve(root, { gzip: false, brotli: false })
  return async (ctx, next) => {
    if ((ctx.method === 'GET' || ctx.method === 'HEAD') && (await isWithin(root, ctx.path))) await files(ctx, next)
    else await next()
  }
}

async function isWithin(root: string, path: string): Promise<boolean> {
  try {
    const [realRoot, real] = await Promise.all([realpath(root), realpath(join(root, decodeURIComponent(path)))])
    return real === realRoot || real.startsWith(realRoot + sep)
  } catch {
    return false
  }
}
