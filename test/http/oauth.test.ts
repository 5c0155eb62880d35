import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { authentication, basic, keyOf, passwordOf } from '../support/authentication.ts'
import { type Reply, send } from '../support/requests.ts'
import { startHere } from '../support/service.ts'

const FORM = 'application/x-www-form-urlencoded'
const SECRET = 'a+b %: €&='
const users = [
  { Username: 'meter:1', Password: SECRET, Role: 'writer' },
  { Username: 'admin', Password: passwordOf('admin') },
]
const flags = ['--Authentication.Enabled', 'true', '--Authentication.Users', JSON.stringify(users)]
const { url, log } = await startHere({ after }, { data: { things: [] }, flags })

/** Basic credentials as OAuth clients make them: form-urlencoded before (RFC 6749 §2.3.1). */
function client(id: string, secret: string): string {
  const encoded = (text: string) => new URLSearchParams({ text }).toString().slice('text='.length)
  return basic(encoded(id), encoded(secret))
}

function ask(fields: Readonly<Record<string, string>>, authorization?: string): Promise<Reply> {
  const headers = { 'Content-Type': FORM, ...(authorization !== undefined && { Authorization: authorization }) }
  return send(url, 'POST', '/token', { headers, body: new URLSearchParams(fields).toString() })
}

const GRANT = { grant_type: 'client_credentials' }

test('an OAuth client gets a token with its id and secret in the Authorization header, scope and other fields are ignored', async () => {
  for (const fields of [GRANT, { ...GRANT, scope: 'read write', audience: 'x' }, { ...GRANT, client_id: 'meter:1' }]) {
    const reply = await ask(fields, client('meter:1', SECRET))
    assert.equal(reply.status, 200, reply.text)
    assert.equal(reply.headers['cache-control'], 'no-store')
    const { access_token: token, token_type: type } = reply.json<{ access_token: string; token_type: string }>()
    assert.equal(type, 'Bearer')
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' }
    assert.equal((await send(url, 'POST', '/api/things', { headers, body: '{}' })).status, 201)
  }
})

test('clients that do not encode their id and secret get a token where neither has characters of their own meaning', async () => {
  assert.equal((await ask(GRANT, basic('admin', passwordOf('admin')))).status, 200)
})

test('a wrong secret in the header is 401 with a challenge for Basic and for tokens, and is logged', async () => {
  for (const authorization of [client('meter:1', 'wrong'), client('nobody', SECRET), basic('meter:1', 'x')]) {
    const reply = await ask(GRANT, authorization)
    assert.equal(reply.status, 401)
    assert.equal(reply.json<{ error: string }>().error, 'invalid_client')
    assert.equal(
      reply.headers['www-authenticate'],
      'Bearer realm="Recollect", Basic realm="Recollect", charset="UTF-8"',
    )
  }
  const failed = log.filter((line) => line.includes('a login failed'))
  assert.equal(failed.length, 3)
  assert.match(String(failed[0]), /"scheme":"password","actor":"meter:1"/)
})

test('a wrong secret in the body is 401 without a challenge for Basic, for which browsers would show a dialog', async () => {
  const reply = await ask({ ...GRANT, client_id: 'admin', client_secret: 'wrong' })
  assert.equal(reply.status, 401)
  assert.equal(reply.json<{ error: string }>().error, 'invalid_client')
  assert.equal(reply.headers['www-authenticate'], 'Bearer realm="Recollect"')
})

test('credentials both in the header and in the body are 400, as is a request without any', async () => {
  const right = client('meter:1', SECRET)
  const rows: readonly (readonly [fields: Readonly<Record<string, string>>, authorization: string | undefined])[] = [
    [{ ...GRANT, client_id: 'meter:1', client_secret: SECRET }, right],
    [{ ...GRANT, client_secret: SECRET }, right],
    [{ ...GRANT, client_id: 'admin' }, right],
    [GRANT, undefined],
    [{ ...GRANT, client_id: 'admin' }, undefined],
    [GRANT, 'Basic !'],
  ]
  for (const [fields, authorization] of rows) {
    const reply = await ask(fields, authorization)
    assert.equal(reply.status, 400, JSON.stringify(fields))
    assert.equal(reply.json<{ error: string }>().error, 'invalid_request')
  }
})

test('a grant other than those of clients and users is 400 unsupported_grant_type, and names the right ones', async () => {
  for (const grant of ['authorization_code', 'refresh_token', '', 'CLIENT_CREDENTIALS']) {
    const reply = await ask({ grant_type: grant, username: 'admin', password: passwordOf('admin') })
    assert.equal(reply.status, 400, grant)
    const { error, detail } = reply.json<{ error: string; detail: string }>()
    assert.equal(error, 'unsupported_grant_type')
    assert.match(detail, /one of client_credentials, password, not /)
  }
  const asUser = { grant_type: 'password', username: 'admin', password: passwordOf('admin') }
  assert.equal((await ask(asUser)).status, 200)
})

test('an API key as a Bearer value reads items, events and metrics; a wrong one is challenged for and logged', async (t) => {
  const own = await startHere(t, { data: { things: [{ id: 1 }] }, flags: authentication(['apikey']) })
  for (const path of ['/metrics', '/api/things/1', '/events']) {
    const headers = { Authorization: `Bearer ${keyOf('reader')}` }
    assert.equal((await send(own.url, 'GET', path, { headers })).status, 200, path)
    const wrong = await send(own.url, 'GET', path, { headers: { Authorization: 'Bearer wrong' } })
    assert.equal(wrong.status, 401, path)
    assert.equal(wrong.headers['www-authenticate'], 'Bearer realm="Recollect", ApiKey realm="Recollect"')
  }
  assert.match(own.log.join(''), /"scheme":"apikey"/)
})
