import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Access, ANYBODY, type Credentials, SCHEMES, type Scheme } from '../../src/access/access.ts'
import type { Principal } from '../../src/access/accounts.ts'
import { hashPassword } from '../../src/access/passwords.ts'
import { Tokens } from '../../src/access/tokens.ts'
import { clock } from '../support/clock.ts'

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

test('an API key is accepted in the Authorization header, as Bearer or ApiKey, with and without the scheme token', async () => {
  for (const schemes of [['apikey'], ['token', 'apikey'], ['apikey', 'basic', 'token']] as const) {
    const { access: some } = await opened(schemes)
    for (const scheme of ['Bearer', 'bearer', 'ApiKey', 'APIKEY']) {
      const authorization = `${scheme} key-2`
      assert.equal(await who({ authorization }, some), 'sensor writer', `${scheme} with ${schemes}`)
      assert.equal(some.recognize({ authorization })?.actor, 'sensor', `${scheme} with ${schemes}`)
      assert.equal(await who({ authorization: `${scheme} key-3` }, some), undefined)
    }
    assert.equal(await who({ accessToken: 'key-2' }, some), undefined, 'a key in a URL, which proxies log')
  }
  const jwt = await tokens.issue('anna')
  assert.equal(await who({ authorization: `Bearer ${jwt}` }, (await opened(['token', 'apikey'])).access), 'anna admin')
})

test('a wrong Bearer value claims to be a token where tokens are in use, and otherwise an API key', async () => {
  const claims = [
    [['token', 'apikey'], 'Bearer wrong', 'token'],
    [['token'], 'Bearer wrong', 'token'],
    [['apikey'], 'Bearer wrong', 'apikey'],
    [['token', 'apikey'], 'ApiKey wrong', 'apikey'],
  ] as const
  for (const [schemes, authorization, scheme] of claims) {
    const { access: some } = await opened(schemes)
    assert.deepEqual(some.claimOf({ authorization }), { scheme }, `${authorization} with ${schemes}`)
  }
})

test('several API keys may have one name, and each has its own role', async () => {
  const apiKeys = [
    { name: 'sensor', key: 'old', role: 'reader' },
    { name: 'sensor', key: 'new', role: 'writer' },
  ] as const
  const some = await Access.open({ schemes: ['apikey'], users: [], apiKeys, tokens })
  assert.equal(await who({ apiKey: 'old' }, some), 'sensor reader')
  assert.equal(await who({ apiKey: 'new' }, some), 'sensor writer')
})

test('users and API keys can be replaced; clients whose entry is the same stay valid, the others do not', async () => {
  const { access: some, tokens: own } = await opened()
  const all = async () =>
    Promise.all([
      some.identify(basic('anna', 'pässwört: €')),
      some.identify(basic('bert', 'hashed')),
      some.identify({ accessToken: await own.issue('__proto__') }),
      some.identify({ apiKey: 'key-1' }),
      some.identify({ apiKey: 'key-2' }),
    ])
  const before = (await all()) as Principal[]
  assert.ok(before.every((one) => one && some.isValid(one)))
  const users = [USERS[0], { ...USERS[1], password: 'another' }]
  const put = await some.prepare(users, [{ ...KEYS[0], role: 'writer' }, KEYS[1], { ...KEYS[1], key: 'key-3' }])
  assert.ok(
    before.every((one) => some.isValid(one)),
    'nothing changes before it is put in place',
  )
  put()
  assert.deepEqual(
    before.map((one) => some.isValid(one)),
    [true, false, false, false, true],
  )
  assert.deepEqual(
    (await all()).map((one) => one && `${one.actor} ${one.role}`),
    ['anna admin', undefined, undefined, 'dashboard writer', 'sensor writer'],
  )
  assert.equal(await who(basic('bert', 'another'), some), 'bert writer')
  assert.equal(await who({ apiKey: 'key-3' }, some), 'sensor writer')
})

test('a verified password of an unchanged user needs no check after a reload; that of a changed one is wrong', async () => {
  const { access: some } = await opened(['basic'])
  await some.identify(basic('anna', 'pässwört: €'))
  await some.identify(basic('bert', 'hashed'))
  const put = await some.prepare([USERS[0], { ...USERS[1], password: await hashPassword('another') }], [])
  put()
  assert.equal(some.recognize(basic('anna', 'pässwört: €'))?.actor, 'anna')
  assert.equal(some.recognize(basic('anna', 'hashed')), undefined)
  assert.equal(some.recognize(basic('bert', 'hashed')), undefined)
  assert.equal(await who(basic('bert', 'hashed'), some), undefined)
})

test('a password that is being checked while it is replaced does not become valid', async () => {
  const { access: some } = await opened(['basic'])
  const put = await some.prepare([{ ...USERS[1], password: await hashPassword('another') }], [])
  const checking = some.identify(basic('bert', 'hashed'))
  put()
  const late = await checking
  assert.ok(late && !some.isValid(late))
  assert.equal(await who(basic('bert', 'hashed'), some), undefined)
  assert.equal(some.recognize(basic('bert', 'hashed')), undefined)
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

test('a wrong credential fails the request, also if valid ones follow', async () => {
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
    apikey: [{ apiKey: 'key-1' }, { authorization: 'Bearer key-1' }, { authorization: 'ApiKey key-1' }],
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

test('there are challenges for each active scheme, in their order', async () => {
  assert.deepEqual(access.challenges(), [
    'Bearer realm="Recollect"',
    'Basic realm="Recollect", charset="UTF-8"',
    'ApiKey realm="Recollect"',
  ])
  const ofKeys = (await opened(['apikey'])).access.challenges()
  assert.deepEqual(ofKeys, ['Bearer realm="Recollect"', 'ApiKey realm="Recollect"'])
})
