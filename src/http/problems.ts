import type { Context, Middleware } from 'koa'
import type { Logger } from 'pino'
import { Refusal, type RefusalCode } from '../errors.ts'

export interface Answered {
  readonly status: number
  readonly title: string
}

/** The one place that knows statuses. */
export const ANSWERS: Readonly<Record<RefusalCode, Answered>> = {
  Invalid: { status: 400, title: 'The request is not valid' },
  UnknownParent: { status: 400, title: 'The parent does not exist' },
  Unauthenticated: { status: 401, title: 'Credentials are needed' },
  Forbidden: { status: 403, title: 'Not allowed' },
  NotFound: { status: 404, title: 'Not found' },
  MethodNotAllowed: { status: 405, title: 'Method not allowed' },
  NotAcceptable: { status: 406, title: 'Not acceptable' },
  Conflict: { status: 409, title: 'In conflict with the current state' },
  PreconditionFailed: { status: 412, title: 'Precondition failed' },
  TooLarge: { status: 413, title: 'The body is too large' },
  UnsupportedMediaType: { status: 415, title: 'Unsupported media type' },
  Unprocessable: { status: 422, title: 'Understood, but not processable' },
  TooManyRequests: { status: 429, title: 'Too many wrong attempts' },
  Unavailable: { status: 503, title: 'Writing is not possible at the moment' },
  DiskFull: { status: 507, title: 'The disk is full' },
}

/** Turns every error into a problem document (RFC 9457). */
export function problems(log: Logger): Middleware {
  return async (ctx, next) => {
    try {
      await next()
      if (ctx.status === 404 && ctx.body === undefined)
        throw new Refusal('NotFound', `Nothing is served at ${ctx.path}.`)
    } catch (error) {
      if (error instanceof Refusal) {
        if (error.code === 'Unavailable') ctx.set('Retry-After', '1')
        problem(ctx, error.code, ANSWERS[error.code], error.message, error.faults)
        return
      }
      log.error({ err: error, requestId: ctx.state.requestId, method: ctx.method }, 'a request failed unexpectedly')
      problem(
        ctx,
        'Unexpected',
        { status: 500, title: 'An unexpected error' },
        'The server has logged what went wrong.',
        [],
      )
    }
  }
}

function problem(
  ctx: Context,
  code: string,
  { status, title }: Answered,
  detail: string,
  errors: readonly object[],
): void {
  ctx.status = status
  ctx.set('Content-Type', 'application/problem+json')
  ctx.body = JSON.stringify({
    type: `urn:recollect:problem:${code}`,
    title,
    status,
    detail,
    instance: ctx.path,
    ...((errors.length > 0 || status === 422) && { errors }),
  })
}
