import { realpath, stat } from 'node:fs/promises'
import { join, sep } from 'node:path'
import type { Middleware } from 'koa'
import serve from 'koa-static'
import { Refusal } from '../errors.ts'

/** The files of a directory; what a symbolic link would lead out of it is not served. */
export function statics(root: string): Middleware {
  const files = serve(root, { gzip: false, brotli: false })
  return async (ctx, next) => {
    if ((ctx.method !== 'GET' && ctx.method !== 'HEAD') || !(await isWithin(root, ctx.path))) return next()
    try {
      await files(ctx, next)
    } catch (error) {
      const { status = 500, message } = error as { status?: number; message: string }
      throw status < 500 ? new Refusal('Invalid', `The path is not acceptable: ${message}.`) : error
    }
  }
}

async function isWithin(root: string, path: string): Promise<boolean> {
  try {
    const [realRoot, real] = await Promise.all([realpath(root), realpath(join(root, decodeURIComponent(path)))])
    // For a directory its index is what is served.
    const served = (await stat(real)).isDirectory() ? await realpath(join(real, 'index.html')) : real
    return served.startsWith(realRoot + sep)
  } catch {
    return false
  }
}
