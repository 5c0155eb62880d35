import { once } from 'node:events'
import { ReadStream, type Stats } from 'node:fs'
import { realpath, stat } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { join, sep } from 'node:path'
import type { Context, Middleware } from 'koa'
import serve from 'koa-static'
import { matches } from '../commands/command.ts'
import { Refusal } from '../runtime/errors.ts'
import { parseTags } from './exchange.ts'

const ALLOWED = 'GET, HEAD, OPTIONS'

/** A file or a directory whose name ends with a hash of its content, such as `page-4F2A9C01.js`. */
const HASHED = /-[0-9A-Z]{8}[./]/
const IMMUTABLE = 'public, max-age=31536000, immutable'

interface StaticsOptions {
  /** The page of a directory; default: index.html. */
  readonly index?: string
  /** Whether the build made the files: it wrote compressed ones (`.br`, `.gz`) beside them, and hashes into names. */
  readonly isBuilt?: boolean
}

/** Serves the files of a directory, but no symbolic links that lead out of it. */
export function statics(root: string, streams: FileStreams, options: StaticsOptions = {}): Middleware {
  const { index = 'index.html', isBuilt = false } = options
  const files = serve(root, {
    index,
    gzip: isBuilt,
    brotli: isBuilt,
    setHeaders: (response, path, stats) => {
      setTag(response, stats)
      response.setHeader('Cache-Control', isBuilt && HASHED.test(path.slice(root.length)) ? IMMUTABLE : 'no-cache')
    },
  })
  return async (ctx, next) => {
    const served = await servedAt(root, ctx.path, index)
    if (!served) return next()
    if (ctx.method === 'GET' || ctx.method === 'HEAD') {
      // The relative addresses of its index need the slash.
      if (served === 'directory' && !ctx.path.endsWith('/')) return redirectInto(ctx)
      try {
        await streams.run(ctx, () => files(ctx, next))
      } catch (error) {
        if (error instanceof Refusal) throw error
        const { status = 500, message } = error as { status?: number; message: string }
        throw status < 500 ? new Refusal('Invalid', `The path is not acceptable: ${message}.`) : error
      }
      if (isBuilt) ctx.vary('Accept-Encoding')
      if (isNotModified(ctx)) leaveOut(ctx)
      return
    }
    ctx.set('Allow', ALLOWED)
    if (ctx.method !== 'OPTIONS') {
      throw new Refusal('MethodNotAllowed', `${ctx.method} is not allowed on a file; these are: ${ALLOWED}.`)
    }
    ctx.status = 200
    ctx.body = ''
  }
}

function redirectInto(ctx: Context): void {
  ctx.status = 301
  ctx.redirect(`./${ctx.path.slice(ctx.path.lastIndexOf('/') + 1)}/${ctx.search}`)
}

/** Weak, since it is derived from metadata. Each encoding has a tag of its own (RFC 9110 §8.8.3.3). */
function setTag(response: ServerResponse, { size, mtimeMs }: Stats): void {
  const encoding = response.getHeader('Content-Encoding')
  const version = `${size.toString(16)}-${Math.round(mtimeMs * 1000).toString(16)}`
  response.setHeader('ETag', `W/"${version}${encoding === undefined ? '' : `-${encoding}`}"`)
}

/**
 * RFC 9110 §13.2.2. Koa's `fresh`, used by koa-conditional-get, is disabled by `Cache-Control: no-cache`, which Node's
 * fetch sends with If-None-Match.
 */
function isNotModified({ headers, response, status }: Context): boolean {
  const tag = response.get('ETag')
  if (tag === '' || status !== 200) return false
  const tags = parseTags(headers['if-none-match'])
  if (tags !== undefined) return matches(tags, tag.slice('W/'.length))
  return Date.parse(headers['if-modified-since'] ?? '') >= Date.parse(response.get('Last-Modified'))
}

function leaveOut(ctx: Context): void {
  ;(ctx.body as ReadStream).destroy()
  ctx.status = 304
  ctx.body = null
  ctx.remove('Content-Encoding')
}

async function servedAt(root: string, path: string, index: string): Promise<'file' | 'directory' | undefined> {
  // An encoded slash would be part of a name, and no file has it in its name.
  if (/%2f/i.test(path)) return undefined
  try {
    const decoded = decodeURIComponent(path)
    // Hidden files, and steps upwards.
    if (decoded.split(/[/\\]/).some((segment) => segment.startsWith('.'))) return undefined
    const [realRoot, real] = await Promise.all([realpath(root), realpath(join(root, decoded))])
    // For a directory its index is served.
    const isDirectory = (await stat(real)).isDirectory()
    const served = isDirectory ? await realpath(join(real, index)) : real
    if (!served.startsWith(realRoot + sep)) return undefined
    return isDirectory ? 'directory' : 'file'
  } catch {
    return undefined
  }
}

/** Headers of a file that must not be sent with a problem. */
const OF_FILE = ['Last-Modified', 'Cache-Control', 'ETag', 'Content-Encoding']

/** Limits the number of files being sent, each of which keeps a descriptor open. */
export class FileStreams {
  readonly #most: number
  #open = 0

  constructor(most: number) {
    this.#most = most
  }

  /** Runs `serve`, which may set a file stream as body. Waits for the file, so that an error becomes a problem. */
  async run(ctx: Context, serve: () => unknown): Promise<void> {
    if (this.#open >= this.#most) {
      throw new Refusal('Unavailable', `The server is already sending ${this.#most} files; try again later.`)
    }
    this.#open++
    try {
      await serve()
      const { body } = ctx
      if (!(body instanceof ReadStream)) {
        this.#open--
        return
      }
      if (body.pending) await once(body, 'open')
      body.once('close', () => this.#open--)
    } catch (error) {
      this.#open--
      for (const name of OF_FILE) ctx.remove(name)
      throw error
    }
  }
}
