import { setImmediate } from 'node:timers/promises'
import type { Context, Middleware } from 'koa'
import { Refusal } from '../runtime/errors.ts'
import { isUnreadable, normalizeCoding, tooLarge } from './bodies.ts'
import { onFirstUse } from './late-modules.ts'

/** Highest size of a form. */
const FORM_BYTES = 16 * 1024
/** koa-body stores the length in 32 bits. */
const LONGEST = 2 ** 31 - 1

/** Returns a function that reads the fields of a JSON object, a form or multipart; undefined for other types. */
export function formReader(): (ctx: Context) => Promise<unknown> {
  const load = onFirstUse(loadKoaBody)
  return async (ctx) => {
    normalizeCoding(ctx.req)
    const { 'content-encoding': coding, 'content-length': length } = ctx.headers
    if (coding === undefined && Number(length) > LONGEST) throw tooLarge(FORM_BYTES)
    const read = await load()
    await read(ctx, async () => {})
    return (ctx.request as { body?: unknown }).body
  }
}

/** Dependencies of koa-body, the largest first. */
const PARTS = ['zod', 'formidable', 'co-body']

/**
 * Loads koa-body with the first form: the server starts in 0.35 s of processor time instead of 0.47 s. Loading it at
 * once would block the event loop for 70 ms, so its dependencies are loaded one by one, if they can be resolved from
 * here.
 */
async function loadKoaBody(): Promise<Middleware> {
  for (const part of PARTS) {
    await import(part).catch(() => {})
    await setImmediate()
  }
  const { koaBody } = await import('koa-body')
  return koaBody({
    json: true,
    urlencoded: true,
    multipart: true,
    text: false,
    jsonLimit: FORM_BYTES,
    formLimit: FORM_BYTES,
    formidable: { maxFields: 10, maxFieldsSize: FORM_BYTES, maxFiles: 1, filter: () => false },
    patchNode: false,
    onError: (error) => {
      throw formRefusal(error as FormError)
    },
  }) as unknown as Middleware
}

interface FormError extends NodeJS.ErrnoException {
  /** Set by co-body and raw-body. */
  readonly status?: number
  readonly type?: string
  /** Set by formidable, which reports errors of the client as 500, 501 and others. */
  readonly httpCode?: number
}

/** Failures that the client did not cause are returned unchanged. Messages of the parsers may quote a password. */
function formRefusal(error: FormError): Error {
  const { status, httpCode, type, message } = error
  if (status === 413 || httpCode === 413) return tooLarge(FORM_BYTES)
  if (status === 415 || httpCode === 415) {
    return new Refusal('UnsupportedMediaType', `The body is not accepted: ${message}.`)
  }
  const isOfClient = status === 400 || httpCode !== undefined || type === 'stream.not.readable' || isUnreadable(error)
  return isOfClient ? new Refusal('Invalid', 'The body could not be read.') : error
}
