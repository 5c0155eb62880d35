import Router from '@koa/router'
import type { Context } from 'koa'
import { type Gate, isRefused } from '../access/gate.ts'
import { Refusal } from '../runtime/errors.ts'
import { sendJson } from './answers.ts'
import { JSON_TYPE, UnsupportedBody } from './bodies.ts'
import { addressOf, principalOf, refusalOf } from './guard.ts'
import { formBody } from './koa-body.ts'
import { resource } from './resource.ts'

const BODY_BYTES = 16 * 1024

const CLIENT_GRANT = 'client_credentials'

/** The body of `/token`, for the check and for OpenAPI: a user, or an OAuth 2 client (RFC 6749 §4.4). */
export const CREDENTIALS = {
  type: 'object',
  properties: {
    username: { type: 'string' },
    password: { type: 'string' },
    grant_type: { type: 'string', enum: [CLIENT_GRANT] },
    client_id: { type: 'string' },
    client_secret: { type: 'string' },
  },
} as const

/** `/token` and `/logout`, only with the scheme `token`. */
export function tokenRoutes(gate: Gate): Router {
  const router = new Router({ sensitive: true })
  const { access } = gate
  if (!access?.schemes.includes('token')) return router
  const { tokens } = access

  const routes = {
    POST: async (ctx: Context) => {
      const { name, password } = credentialsIn(ctx)
      const check = () => access.byPassword(name, password)
      const admitted = await gate.attempt(addressOf(ctx.req, gate), access.claimOfUser(name), check)
      ctx.set('Cache-Control', 'no-store')
      if (isRefused(admitted)) throw refusalOf(ctx, gate, admitted)
      const answer = {
        access_token: await tokens.issue(admitted.actor),
        token_type: 'Bearer',
        expires_in: tokens.expiresInSeconds,
      }
      sendJson(ctx, JSON.stringify(answer))
    },
  }
  resource(router, '/token', routes, { body: formBody(BODY_BYTES) })

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

/** Reads the credentials from JSON, a form or multipart. */
function credentialsIn(ctx: Context): { name: string; password: string } {
  const body: unknown = (ctx.request as { body?: unknown }).body
  if (typeof body !== 'object' || body === null) {
    const why = 'Send username and password as JSON, as a form or as multipart.'
    throw new UnsupportedBody(why, 'Accept', `${JSON_TYPE}, application/x-www-form-urlencoded, multipart/form-data`)
  }
  const fields = body as Record<string, unknown>
  const field = (name: keyof typeof CREDENTIALS.properties): string | undefined => {
    const value = Object.hasOwn(fields, name) ? fields[name] : undefined
    return typeof value === 'string' ? value : undefined
  }
  const isClient = field('grant_type') === CLIENT_GRANT
  const name = field(isClient ? 'client_id' : 'username')
  const password = field(isClient ? 'client_secret' : 'password')
  if (name !== undefined && password !== undefined) return { name, password }
  throw new Refusal(
    'Invalid',
    `username and password are needed, or grant_type=${CLIENT_GRANT} with client_id and client_secret.`,
  )
}
