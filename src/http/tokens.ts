import Router from '@koa/router'
import type { Context, Middleware } from 'koa'
import { type Gate, isRefused } from '../access/gate.ts'
import { Refusal } from '../errors.ts'
import { sendJson } from './answers.ts'
import { bodyRefusal, normalizeCoding } from './bodies.ts'
import { addressOf, principalOf, refusalOf } from './guard.ts'
import { loadKoaBody } from './koa-body.ts'
import { onFirstUse } from './late-modules.ts'
import { resource } from './resource.ts'

const BODY_BYTES = 16 * 1024

/** `/token` and `/logout`; there are none unless tokens are in use. */
export function tokenRoutes(gate: Gate): Router {
  const router = new Router({ sensitive: true })
  const { access } = gate
  if (!access?.schemes.includes('token')) return router
  const { tokens } = access
  const gather = onFirstUse(gathering)

  resource(router, '/token', {
    POST: async (ctx) => {
      const { name, password } = await readCredentials(ctx, await gather())
      const check = () => access.byPassword(name, password)
      const admitted = await gate.attempt(addressOf(ctx, gate), access.claimOfUser(name), check)
      ctx.set('Cache-Control', 'no-store')
      if (isRefused(admitted)) throw refusalOf(ctx, gate, admitted)
      const answer = {
        access_token: await tokens.issue(admitted.actor),
        token_type: 'Bearer',
        expires_in: tokens.expiresInSeconds,
      }
      sendJson(ctx, JSON.stringify(answer))
    },
  })

  resource(router, '/logout', {
    POST: async (ctx) => {
      const token = principalOf(ctx)?.token
      if (!token) throw new Refusal('Invalid', 'Only a token can be revoked, and none was sent.')
      await tokens.revoke(token)
      ctx.status = 204
    },
  })

  return router
}

async function gathering(): Promise<Middleware> {
  const koaBody = await loadKoaBody()
  return koaBody({
    json: true,
    urlencoded: true,
    multipart: true,
    text: false,
    jsonLimit: BODY_BYTES,
    formLimit: BODY_BYTES,
    formidable: { maxFields: 10, maxFieldsSize: BODY_BYTES, maxFiles: 1, filter: () => false },
    patchNode: false,
  }) as unknown as Middleware
}

/** `username` and `password`, or OAuth 2's client credentials (RFC 6749 §4.4), as JSON, form or multipart. */
async function readCredentials(ctx: Context, gather: Middleware): Promise<{ name: string; password: string }> {
  try {
    normalizeCoding(ctx)
    await gather(ctx, async () => {})
  } catch (error) {
    const refusal = bodyRefusal(error, BODY_BYTES)
    // What a parser says of a body quotes it, and with it a password.
    const isQuoting = refusal instanceof Refusal && refusal.code === 'Invalid'
    throw isQuoting ? new Refusal('Invalid', 'The body could not be read.') : refusal
  }
  const body: unknown = (ctx.request as { body?: unknown }).body
  if (typeof body !== 'object' || body === null) {
    throw new Refusal('UnsupportedMediaType', 'Send username and password as JSON, as a form or as multipart.')
  }
  const fields = body as Record<string, unknown>
  const field = (name: string): string | undefined => {
    const value = Object.hasOwn(fields, name) ? fields[name] : undefined
    return typeof value === 'string' ? value : undefined
  }
  const isClient = field('grant_type') === 'client_credentials'
  const name = field(isClient ? 'client_id' : 'username')
  const password = field(isClient ? 'client_secret' : 'password')
  if (name !== undefined && password !== undefined) return { name, password }
  throw new Refusal(
    'Invalid',
    'username and password are needed, or grant_type=client_credentials with client_id and client_secret.',
  )
}
