import { setImmediate } from 'node:timers/promises'
import type { Middleware } from 'koa'
import { bodyRefusal, normalizeCoding, tooLarge } from './bodies.ts'
import { onFirstUse } from './late-modules.ts'

/** koa-body stores the length in 32 bits. */
const LONGEST = 2 ** 31 - 1
/** Dependencies of koa-body, the largest first. */
const PARTS = ['zod', 'formidable', 'co-body']

/** Highest size of a form. */
const FORM_BYTES = 16 * 1024

const OPTIONS = {
  json: true,
  urlencoded: true,
  multipart: true,
  text: false,
  jsonLimit: FORM_BYTES,
  formLimit: FORM_BYTES,
  formidable: { maxFields: 10, maxFieldsSize: FORM_BYTES, maxFiles: 1, filter: () => false },
  patchNode: false,
  onError: (error: Error): never => {
    // Errors of the parsers may quote a password.
    throw bodyRefusal(error, FORM_BYTES, () => 'The body could not be read.')
  },
}

/**
 * Reads the fields of a JSON object, a form or multipart. Loads koa-body with the first one: the server starts in 0.35 s
 * of processor time instead of 0.47 s. Loading it at once would block the event loop for 70 ms, so its dependencies are
 * loaded one by one, if they can be resolved from here.
 */
export function formBody(): Middleware {
  const load = onFirstUse(async () => {
    for (const part of PARTS) {
      await import(part).catch(() => {})
      await setImmediate()
    }
    const { koaBody } = await import('koa-body')
    return koaBody(OPTIONS) as unknown as Middleware
  })
  return async (ctx, next) => {
    normalizeCoding(ctx.req)
    const { 'content-encoding': coding, 'content-length': length } = ctx.headers
    if (coding === undefined && Number(length) > LONGEST) throw tooLarge(FORM_BYTES)
    return (await load())(ctx, next)
  }
}
