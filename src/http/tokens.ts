import querystring from 'node:querystring'
import { BASIC_CHALLENGE, basicCredentials, type NamedCredentials } from '../access/access.ts'
import { type Gate, isRefused, type RefusedAccess } from '../access/gate.ts'
import { Refusal } from '../runtime/errors.ts'
import { UnsupportedBody } from './bodies.ts'
import type { HttpRequest, Reply, Resource, Step } from './exchange.ts'
import { JSON_TYPE } from './media-types.ts'
import { accessRefusal, addressOf } from './pipeline.ts'
import { OAuthRefusal } from './problems.ts'

/** The grants of OAuth 2 that get a token: of a client (RFC 6749 §4.4), and of a user (§4.3). */
const CLIENT_GRANT = 'client_credentials'
const GRANTS = [CLIENT_GRANT, 'password']

/** The body of `/token`, for the check and for OpenAPI: a user, or an OAuth 2 client. */
export const CREDENTIALS = {
  type: 'object',
  properties: {
    username: { type: 'string' },
    password: { type: 'string' },
    grant_type: { type: 'string', enum: GRANTS },
    client_id: { type: 'string' },
    client_secret: { type: 'string' },
  },
} as const

/** `/token` and `/logout`, only with the scheme `token`. */
export function tokenResources(gate: Gate): readonly Resource[] {
  const { access } = gate
  if (!access?.schemes.includes('token')) return []
  const { tokens } = access

  const issue: Step = async (request, reply) => {
    const { name, password } = credentialsIn(request.headers, await request.fields())
    const check = () => access.byPassword(name, password)
    const admitted = await gate.attempt(addressOf(request, gate), access.claimOfUser(name), check)
    reply.set('Cache-Control', 'no-store')
    if (isRefused(admitted)) throw refusalAt(request, reply, gate, admitted)
    const answer = {
      access_token: await tokens.issue(admitted.actor),
      token_type: 'Bearer',
      expires_in: tokens.expiresInSeconds,
    }
    reply.json(JSON.stringify(answer))
  }

  const revoke: Step = async ({ principal: { token } }, reply) => {
    if (!token) throw new Refusal('Invalid', 'Only a token can be revoked, and none was sent.')
    await tokens.revoke(token)
    reply.status = 204
  }

  return [
    { path: '/token', isKoaOnly: true, routes: { POST: issue } },
    { path: '/logout', routes: { POST: revoke } },
  ]
}

/** A client that sent Basic credentials must be challenged for them (RFC 6749 §5.2). */
function refusalAt({ headers }: HttpRequest, reply: Reply, gate: Gate, refused: RefusedAccess): Refusal {
  const refusal = accessRefusal(refused, reply, gate)
  if (refusal.code !== 'Unauthenticated') return refusal
  if (basicCredentials(headers.authorization) && !gate.access?.schemes.includes('basic'))
    reply.append('WWW-Authenticate', BASIC_CHALLENGE)
  return new OAuthRefusal(refusal.code, 'invalid_client', refusal.message)
}

/** Reads the credentials from JSON, a form or multipart, or those of an OAuth client from the Authorization header. */
function credentialsIn({ authorization }: HttpRequest['headers'], body: unknown): NamedCredentials {
  if (typeof body !== 'object' || body === null) {
    const why = 'Send username and password as JSON, as a form or as multipart.'
    throw new UnsupportedBody(why, 'Accept', `${JSON_TYPE}, application/x-www-form-urlencoded, multipart/form-data`)
  }
  const fields = body as Record<string, unknown>
  const field = (name: keyof typeof CREDENTIALS.properties): string | undefined => {
    const value = Object.hasOwn(fields, name) ? fields[name] : undefined
    return typeof value === 'string' ? value : undefined
  }
  const grant = field('grant_type')
  if (grant !== undefined && !GRANTS.includes(grant)) {
    const why = `grant_type must be one of ${GRANTS.join(', ')}, not ${JSON.stringify(grant)}.`
    throw new OAuthRefusal('Invalid', 'unsupported_grant_type', why)
  }
  const isClient = grant === CLIENT_GRANT
  const name = field(isClient ? 'client_id' : 'username')
  const password = field(isClient ? 'client_secret' : 'password')
  const sent = isClient ? basicCredentials(authorization) : undefined
  if (sent) {
    const client = { name: formDecoded(sent.name), password: formDecoded(sent.password) }
    if (password === undefined && (name ?? client.name) === client.name) return client
    const why = 'Send client_id and client_secret either in the body or in the Authorization header.'
    throw new OAuthRefusal('Invalid', 'invalid_request', why)
  }
  if (name !== undefined && password !== undefined) return { name, password }
  throw new OAuthRefusal(
    'Invalid',
    'invalid_request',
    `username and password are needed, or grant_type=${CLIENT_GRANT} with client_id and client_secret.`,
  )
}

/** OAuth clients encode both values as in a form before they make Basic credentials of them (RFC 6749 §2.3.1). */
function formDecoded(text: string): string {
  return querystring.unescape(text.replaceAll('+', ' '))
}
