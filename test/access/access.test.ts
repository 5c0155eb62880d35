import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Access, ANYBODY, type Credentials, SCHEMES, type Scheme } from '../../src/access/access.ts'
import { hashPassword } from '../../src/access/passwords.ts'
import { Tokens } from '../../src/access/tokens.ts'
import { clock } from './clock.ts'

const SECRET = Buffer.from('a secret of at least 32 bytes, as is asked for')
const USERS = [
  { name: 'anna', password: 'pässwört: €', role: 'admin' },
  { name: 'bert', password: await hashPassword('hashed'), role: 'writer' },
  { name: '__proto__', password: 'proto', role: 'reader' },
] as const
const KEYS = [
  { name: 'dashboard', key: 'key-1', role: 'reader' },
  { name: 'sensor', key: 'key-2', role: 'writer' },
] as const

async function opened(schemes: readonly Scheme[] = SCHEMES) {
  const time = clock()
  const tokens = await Tokens.open(SECRET, 100, time.now, { read: async () => [], write: async () => {} })
  return { access: await Access.open({ schemes, users: USERS, apiKeys: KEYS, tokens }), tokens, time }
}

function basic(name: string, password: string): Credentials {
  return { authorization: `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}` }
}

const { access, tokens, time } = await opened()

async function who(credentials: Credentials, of: Access = access): Promise<string | undefined> {
  const principal = await of.identify(credentials)
  return principal && `${principal.actor} ${principal.role}`
}

test('a user is authenticated by name and password, in plain text or as a hash; a password may contain colons', async () => {
  assert.equal(await who(basic('anna', 'pässwört: €')), 'anna admin')
  assert.equal(await who(basic('bert', 'hashed')), 'bert writer')
  assert.equal(await who(basic('bert', 'hashed')), 'bert writer', 'the second time it is remembered')
  for (const [name, password] of [
    ['anna', 'hashed'],
    ['bert', USERS[1].password],
    ['bert', ''],
    ['Bert', 'hashed'],
    ['nobody', 'hashed'],
    ['constructor', 'x'],
    ['', ''],
  ] as const) {
    assert.equal(await who(basic(name, password)), undefined, `${name}:${password}`)
  }
  assert.equal(await who(basic('__proto__', 'proto')), '__proto__ reader')
})

test('the name of the scheme is case-insensitive and may be followed by several spaces; the rest must be base64', async () => {
  const encoded = Buffer.from('bert:hashed').toString('base64')
  for (const authorization of [`basic ${encoded}`, `BASIC   ${encoded}`]) {
    assert.equal(await who({ authorization }), 'bert writer', authorization)
  }
  for (const authorization of [
    '',
    'Basic',
    'Basic ',
    `Basic${encoded}`,
    `Basic ${encoded}!`,
    `Basic ${encoded} x`,
    ` Basic ${encoded}`,
    `Digest ${encoded}`,
    encoded,
    `Basic ${Buffer.from('no colon').toString('base64')}`,
  ]) {
    assert.equal(await who({ authorization }), undefined, authorization)
  }
})

test('an API key must match exactly', async () => {
  assert.equal(await who({ apiKey: 'key-1' }), 'dashboard reader')
  assert.equal(await who({ apiKey: 'key-2' }), 'sensor writer')
  for (const apiKey of ['', 'key', 'key-1 ', 'KEY-1', 'key-1, key-2', 'dashboard']) {
    assert.equal(await who({ apiKey }), undefined, apiKey)
  }
})

test('a token is accepted in the header or elsewhere, and its user has the role that is configured now', async () => {
  const jwt = await tokens.issue('anna')
  assert.equal(await who({ authorization: `Bearer ${jwt}` }), 'anna admin')
  assert.equal(await who({ accessToken: jwt }), 'anna admin')
  assert.equal(await who({ authorization: `Bearer ${await tokens.issue('__proto__')}` }), '__proto__ reader')
  for (const bad of ['', 'x', `${jwt}x`, await tokens.issue('nobody'), await tokens.issue('toString')]) {
    assert.equal(await who({ authorization: `Bearer ${bad}` }), undefined, bad)
    assert.equal(await who({ accessToken: bad }), undefined, bad)
  }
})

test('wrong credentials are rejected even beside valid ones', async () => {
  const jwt = await tokens.issue('anna')
  assert.equal(await who({ apiKey: 'wrong', authorization: `Bearer ${jwt}` }), undefined)
  assert.equal(await who({ apiKey: 'wrong', ...basic('bert', 'hashed') }), undefined)
  assert.equal(await who({ authorization: 'Bearer wrong', accessToken: jwt }), undefined)
  assert.equal(await who({ ...basic('bert', 'wrong'), accessToken: jwt }), undefined)
})

test('a request without credentials is anonymous', async () => {
  assert.equal(await who({}), undefined)
})

test('credentials of an inactive scheme are rejected', async () => {
  const jwt = await tokens.issue('anna')
  const brought: Readonly<Record<Scheme, readonly Credentials[]>> = {
    token: [{ authorization: `Bearer ${jwt}` }, { accessToken: jwt }],
    basic: [basic('bert', 'hashed')],
    apikey: [{ apiKey: 'key-1' }],
  }
  for (const scheme of SCHEMES) {
    const { access: only } = await opened([scheme])
    for (const other of SCHEMES) {
      for (const credentials of brought[other]) {
        assert.equal(
          (await who(credentials, only)) !== undefined,
          other === scheme,
          `${other} where ${scheme} is active`,
        )
      }
    }
  }
})

test('an API key is ignored when no API keys are configured', async () => {
  const { access: only } = await opened(['basic'])
  assert.equal(await who({ apiKey: 'anything', ...basic('bert', 'hashed') }, only), 'bert writer')
})

test('a session with a token ends when the token expires; other sessions continue', async () => {
  const bearer = await access.identify({ accessToken: await tokens.issue('anna') })
  const revoked = await access.identify({ accessToken: await tokens.issue('anna') })
  const byKey = await access.identify({ apiKey: 'key-1' })
  assert.ok(bearer && revoked?.token && byKey)
  assert.deepEqual(
    [bearer, revoked, byKey, ANYBODY].map((one) => access.isValid(one)),
    [true, true, true, true],
  )
  await tokens.revoke(revoked.token)
  assert.deepEqual(
    [bearer, revoked, byKey].map((one) => access.isValid(one)),
    [true, false, true],
  )
  time.pass(100_000)
  assert.deepEqual(
    [bearer, revoked, byKey].map((one) => access.isValid(one)),
    [false, false, true],
  )
})

test('there is one challenge for each active scheme, in their order', async () => {
  assert.deepEqual(access.challenges(), [
    'Bearer realm="Recollect"',
    'Basic realm="Recollect", charset="UTF-8"',
    'ApiKey realm="Recollect"',
  ])
  assert.deepEqual((await opened(['apikey'])).access.challenges(), ['ApiKey realm="Recollect"'])
})
