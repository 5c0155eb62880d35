import { setImmediate } from 'node:timers/promises'
import type { Middleware } from 'koa'
import type { KoaBodyMiddlewareOptions } from 'koa-body'
import { bodyRefusal, normalizeCoding, tooLarge, unreadable } from './bodies.ts'
import { onFirstUse } from './late-modules.ts'

/** koa-body stores the length in 32 bits. */
const LONGEST = 2 ** 31 - 1
/** Dependencies of koa-body, the largest first. */
const PARTS = ['zod', 'formidable', 'co-body']

/** Highest size of a form. */
const FORM_BYTES = 16 * 1024

/** Reads the fields of a JSON object, a form or multipart. Errors of its parsers may quote a password. */
export function formBody(limitBytes = FORM_BYTES): Middleware {
  const form = {
    json: true,
    urlencoded: true,
    multipart: true,
    text: false,
    jsonLimit: limitBytes,
    formLimit: limitBytes,
    formidable: { maxFields: 10, maxFieldsSize: limitBytes, maxFiles: 1, filter: () => false },
  }
  return mounted(limitBytes, form, () => 'The body could not be read.')
}

/**
 * Loads koa-body with the first form: the server starts in 0.35 s of processor time instead of 0.47 s. Loading it at
 * once would block the event loop for 70 ms, so its dependencies are loaded one by one, if they can be resolved from
 * here.
 */
function mounted(limitBytes: number, options: Partial<KoaBodyMiddlewareOptions>, describe = unreadable): Middleware {
  const onError = (error: Error): never => {
    throw bodyRefusal(error, limitBytes, describe)
  }
  const load = onFirstUse(async () => {
    for (const part of PARTS) {
      await import(part).catch(() => {})
      await setImmediate()
    }
    const { koaBody } = await import('koa-body')
    return koaBody({ ...options, patchNode: false, onError }) as unknown as Middleware
  })
  return async (ctx, next) => {
    normalizeCoding(ctx.req)
    const { 'content-encoding': coding, 'content-length': length } = ctx.headers
    if (coding === undefined && Number(length) > LONGEST) throw tooLarge(limitBytes)
    return (await load())(ctx, next)
  }
}
