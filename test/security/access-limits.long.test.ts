import assert from 'node:assert/strict'
import { readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { hashPassword } from '../../src/access/passwords.ts'
import { parseInvocation } from '../../src/cli/invocation.ts'
import { CLUSTER } from '../../src/cluster/cluster.ts'
import { BadSettings } from '../../src/settings/settings.ts'
import { authentication, basic, keyOf, login, passwordOf, tokenOf } from '../support/authentication.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { type Reply, send, sendJson } from '../support/requests.ts'
import { runToEnd, startProgram } from '../support/server.ts'

const ALL = ['token', 'basic', 'apikey'] as const
const bearer = (token: string) => ({ Authorization: `Bearer ${token}` })
const from = (address: string) => ({ 'X-Forwarded-For': address })

function assertWaits(reply: Reply): void {
  assert.equal(reply.status, 429)
  const seconds = Number(reply.headers['retry-after'])
  assert.ok(Number.isInteger(seconds) && seconds >= 1 && seconds <= 60, `Retry-After: ${seconds}`)
  assert.equal(reply.headers['content-type'], 'application/problem+json')
}

test('after too many failures an address is locked out of password checks; keys, tokens and public paths still work', async (t) => {
  const { url } = await startProgram(t, {
    data: { c: [] },
    flags: authentication(ALL, ['--Limits.FailuresPerMinute', '4']),
  })
  const right = { Authorization: basic('admin', passwordOf('admin')) }
  const token = await tokenOf(url, 'admin')
  const get = (headers: Readonly<Record<string, string>>, path = '/api') => send(url, 'GET', path, { headers })
  for (let count = 0; count < 10; count++) assert.equal((await get({})).status, 401, 'nothing brought is nothing wrong')
  const wrong = [
    await get({ 'X-API-KEY': 'wrong' }),
    await get({ Authorization: basic('admin', 'wrong') }),
    await login(url, 'admin', 'wrong'),
    await get(bearer('a.b.c'), '/events'),
  ]
  for (const { status } of wrong) assert.equal(status, 401)
  assertWaits(await get({ 'X-API-KEY': 'wrong' }))
  assertWaits(await get(right))
  assertWaits(await login(url, 'admin', passwordOf('admin')))
  assertWaits(await send(url, 'DELETE', '/api/c/1', { headers: right }))
  assertWaits(await send(url, 'POST', '/logout', { headers: right }))
  for (const path of ['/', '/health', '/openapi.json', '/swagger/']) assert.equal((await get(right, path)).status, 200)
  assert.equal((await get({})).status, 401)
  for (const unguessable of [{ 'X-API-KEY': keyOf('admin') }, bearer(token)]) {
    assert.equal((await get(unguessable)).status, 200)
    assert.equal((await get(unguessable, '/events')).status, 200)
    assert.equal((await send(url, 'DELETE', '/api/c/1', { headers: unguessable })).status, 404)
  }
  assert.equal((await send(url, 'POST', '/logout', { headers: bearer(token) })).status, 204)
  assertWaits(await get(bearer(token)))
})

test('concurrent guesses all count', async (t) => {
  const { url } = await startProgram(t, { data: {}, flags: authentication(ALL, ['--Limits.FailuresPerMinute', '5']) })
  const replies = await Promise.all([
    ...Array.from({ length: 40 }, (_, index) => login(url, 'admin', `guess ${index}`)),
    ...Array.from({ length: 40 }, (_, index) =>
      send(url, 'GET', '/api', { headers: { Authorization: basic('admin', `other ${index}`) } }),
    ),
  ])
  assert.equal(replies.filter(({ status }) => status === 401).length, 5)
  for (const reply of replies.filter(({ status }) => status !== 401)) assertWaits(reply)
})

test('X-Forwarded-For counts only from trusted proxies', async (t) => {
  const limit = ['--Limits.FailuresPerMinute', '1']
  const trusting = ['--Limits.TrustedProxies', '127.0.0.1, 10.0.0.0/8']
  const { url } = await startProgram(t, { data: {}, flags: authentication(ALL, [...limit, ...trusting]) })
  const status = async (forwarded: string, key = 'wrong') =>
    (await send(url, 'GET', '/api', { headers: { ...from(forwarded), 'X-API-KEY': key } })).status
  assert.equal(await status('198.51.100.1'), 401)
  assert.equal(await status('198.51.100.1'), 429)
  assert.equal(await status('203.0.113.5, 198.51.100.1'), 429, 'what the client says of itself does not count')
  assert.equal(
    await status('203.0.113.6, 198.51.100.1, 10.1.2.3'),
    429,
    'a chain of trusted proxies is gone back through',
  )
  assert.equal(await status('198.51.100.2'), 401)
  assert.equal(await status('198.51.100.1', keyOf('reader')), 200)
  assert.equal(await status('198.51.100.3', keyOf('reader')), 200)
  assert.equal(await status('2001:db8:1:2::1'), 401)
  assert.equal(await status('2001:db8:1:2:3:4:5:6'), 429, 'a network of IPv6 is one address')
  assert.equal(await status('2001:db8:1:3::1'), 401)
  for (const odd of [
    '',
    ',',
    'unknown',
    '_hidden',
    '"[::1]"',
    'x'.repeat(5000),
    ', '.repeat(2000),
    '1.2.3.4:80',
    'fe80::1%eth0',
  ]) {
    assert.ok([401, 429].includes(await status(odd)), odd.slice(0, 20))
  }

  const other = await startProgram(t, { data: {}, flags: authentication(ALL, limit) })
  const asked = async (forwarded: string) =>
    (await send(other.url, 'GET', '/api', { headers: { ...from(forwarded), 'X-API-KEY': 'wrong' } })).status
  assert.equal(await asked('198.51.100.1'), 401)
  assert.equal(await asked('198.51.100.2'), 429, 'nobody is trusted: all of it comes from one address')
})

test('guesses from many addresses do not delay writes', async (t) => {
  const users = [{ Username: 'anna', Password: await hashPassword('hers') }]
  const keys = [{ Name: 'ben', Key: keyOf('writer'), Role: 'writer' }]
  const flags = [
    ...['--Authentication.Enabled', 'true', '--Authentication.AuthenticationType', 'basic,apikey'],
    ...['--Authentication.Users', JSON.stringify(users), '--Authentication.ApiKeys', JSON.stringify(keys)],
    ...['--Limits.TrustedProxies', '127.0.0.1'],
  ]
  const { url } = await startProgram(t, { data: { c: [] }, flags })
  let answered = 0
  // A name that nobody has costs as much as anna's hash.
  const guesses = Array.from({ length: 40 }, async (_, index) => {
    const headers = { Authorization: basic('nobody', String(index)), ...from(`198.51.100.${index}`) }
    const { status } = await send(url, 'GET', '/api', { headers })
    answered++
    return status
  })
  await guesses[0]
  for (let count = 0; count < 3; count++) {
    assert.equal((await sendJson(url, 'POST', '/api/c', {}, { 'X-API-KEY': keyOf('writer') })).status, 201)
  }
  const answeredMeanwhile = answered
  assert.deepEqual(new Set(await Promise.all(guesses)), new Set([401]))
  assert.ok(answeredMeanwhile <= 30, `the writes waited for ${answeredMeanwhile} of 40 guesses`)
})

test('a revoked token stays revoked after a restart, others stay valid, and none is valid with another secret', async (t) => {
  const directory = await temporaryDirectory(t)
  const users = JSON.stringify([{ Username: 'anna', Password: 'hers', Role: 'writer' }])
  const flags = ['--Authentication.Enabled', 'true', '--Authentication.Users', users]
  const first = await startProgram(t, { directory, data: { c: [] }, flags })
  const token = async (url: string) => (await login(url, 'anna', 'hers')).json<{ access_token: string }>().access_token
  const [revoked, kept] = [await token(first.url), await token(first.url)]
  assert.equal((await send(first.url, 'POST', '/logout', { headers: bearer(revoked) })).status, 204)
  assert.equal((await send(first.url, 'POST', '/logout', { headers: bearer(revoked) })).status, 401)
  await first.stop('SIGKILL')

  const journal = join(directory, 'db.journal')
  for (const name of ['token.secret', 'revoked.json']) {
    assert.equal((await stat(join(journal, name))).mode & 0o777, 0o600, name)
  }
  const second = await startProgram(t, { directory, flags })
  assert.equal((await send(second.url, 'GET', '/api', { headers: bearer(revoked) })).status, 401)
  assert.equal((await send(second.url, 'GET', '/api', { headers: bearer(kept) })).status, 200)
  await second.stop()

  for (const damaged of ['{}', '[{"id":"x"}]', '[{"id":"x"']) {
    await writeFile(join(journal, 'revoked.json'), damaged)
    const { code, stderr } = await runToEnd(t, directory, [
      '--file',
      first.file,
      '--urls',
      'http://127.0.0.1:0',
      ...flags,
    ])
    assert.equal(code, 1, damaged)
    assert.match(stderr, /revoked\.json is damaged/)
  }
  await writeFile(join(journal, 'revoked.json'), '[]')
  await writeFile(join(journal, 'token.secret'), 'another secret, as long as the first one was')
  const third = await startProgram(t, { directory, flags })
  assert.equal((await send(third.url, 'GET', '/api', { headers: bearer(kept) })).status, 401)
})

test('every event has the authenticated user, which a client cannot choose', async (t) => {
  const { url } = await startProgram(t, {
    data: { c: [{ id: 1 }] },
    flags: authentication(ALL, ['--Api.UpsertOnPut', 'true']),
  })
  const claims = { 'X-Actor': 'admin', From: 'admin', 'X-User': 'admin', 'X-Request-Id': 'r-1' }
  const writers = [
    bearer(await tokenOf(url, 'writer')),
    { Authorization: basic('admin', passwordOf('admin')) },
    { 'X-API-KEY': keyOf('writer') },
  ]
  for (const [index, headers] of writers.entries()) {
    const body = { id: index + 10, actor: 'admin' }
    assert.equal((await sendJson(url, 'PUT', `/api/c/${index + 10}`, body, { ...headers, ...claims })).status, 201)
  }
  const headers = { 'X-API-KEY': keyOf('reader') }
  const events = (await send(url, 'GET', '/events', { headers })).json<{ actor: string; requestId: string }[]>()
  assert.deepEqual(
    events.map(({ actor }) => actor),
    ['data-file', 'data-file', 'writer', 'admin', 'writer-key'],
  )
  const [mine] = (await send(url, 'GET', '/events?actor=writer', { headers })).json<{ requestId: string }[]>()
  assert.equal(mine?.requestId, 'r-1')
})

test('a response to an authenticated request is not stored by shared caches', async (t) => {
  const { url } = await startProgram(t, { data: { c: [{ id: 1 }] }, flags: authentication(ALL) })
  const headers = { 'X-API-KEY': keyOf('reader') }
  for (const path of ['/api', '/api/c', '/api/c/1', '/events', '/events/1', '/api/nothing', '/admin/reload']) {
    const answered = await send(url, 'GET', path, { headers })
    assert.match(String(answered.headers['cache-control']), /private|no-store/, path)
  }
})

test('insecure settings are reported at the start and to admins, not to anonymous clients', async (t) => {
  const users = JSON.stringify([
    { Username: 'anna', Password: 'in plain text', Role: 'admin' },
    { Username: 'ben', Password: 'in plain text, too', Role: 'reader' },
  ])
  const flags = ['--Authentication.Enabled', 'true', '--Authentication.AuthenticationType', 'basic']
  const server = await startProgram(t, { data: {}, flags: [...flags, '--Authentication.Users', users] })
  const health = async (Authorization?: string) =>
    (await send(server.url, 'GET', '/health', { headers: Authorization ? { Authorization } : {} })).json<{
      warnings?: string[]
    }>()
  const { warnings } = await health(basic('anna', 'in plain text'))
  assert.equal(warnings?.length, 2)
  for (const name of ['anna', 'ben']) {
    assert.match(String(warnings), new RegExp(`The password of ${name} `))
    assert.match(server.stderr(), new RegExp(`"level":40.*The password of ${name} `))
  }
  assert.doesNotMatch(`${warnings}${server.stderr()}`, /in plain text, too/)
  for (const other of [undefined, basic('ben', 'in plain text, too'), basic('anna', 'wrong')]) {
    assert.equal((await health(other)).warnings, undefined)
  }

  const short = ['--Authentication.Enabled', 'true', '--Authentication.AuthenticationType', 'apikey']
  const guessable = await startProgram(t, { data: {}, flags: [...short, '--Authentication.ApiKey', 'fifteen letters'] })
  assert.match(guessable.stderr(), /"level":40.*The API key of apikey has less than 16 bytes/)
  assert.doesNotMatch(guessable.stderr(), /fifteen/)

  const open = await startProgram(t, { data: {}, flags: ['--urls', 'http://0.0.0.0:0'], isBare: true })
  assert.match(open.stderr(), /"level":40.*Authentication is off/)
  const local = await startProgram(t, { data: {} })
  assert.doesNotMatch(local.stderr(), /"level":40/)
})

test('a mistake in the authentication settings is named without its secrets', () => {
  const hidden = 'S3cret-that-nobody-may-see'
  const on = ['--Authentication.Enabled', 'true']
  const user = { Username: 'anna', Password: hidden }
  const users = (...list: unknown[]) => ['--Authentication.Users', JSON.stringify(list)]
  const keys = (...list: unknown[]) => ['--Authentication.ApiKeys', JSON.stringify(list)]
  const rows: readonly (readonly [flags: readonly string[], says: RegExp])[] = [
    [on, /Authentication\.Users is needed/],
    [[...on, '--Authentication.AuthenticationType', 'apikey'], /ApiKey or Authentication\.ApiKeys is needed/],
    [
      [...on, '--Authentication.AuthenticationType', 'oauth', ...users(user)],
      /must be one or more of token, basic, apikey/,
    ],
    [[...on, '--Authentication.AuthenticationType', 'token,', ...users(user)], /AuthenticationType must be a list/],
    [[...on, ...users({ ...user, Role: 'root' })], /Users\[0\]\.Role must be one of/],
    [[...on, ...users({ ...user, Roles: hidden })], /unknown key Roles/],
    [[...on, ...users(user, user)], /"anna" is used twice/],
    [[...on, ...users({ ...user, Username: 'anonymous' })], /Username must be text, and neither empty nor anonymous/],
    [[...on, ...users({ Username: 'anna', Password: { of: hidden } })], /Password must be text/],
    [[...on, ...users({ ...user, Password: `scrypt$32768$8$1$${hidden}` })], /not a valid hash/],
    [[...on, ...users({ Username: 'anna', Password: '' })], /Password must be text, and not empty/],
    [[...on, ...users(user), ...keys({ Name: 'k', Key: '' })], /Key must be text, and not empty/],
    [
      [...on, '--Authentication.Users', `[{"Username":"anna","Password":"${hidden}"`],
      /Users must be an array of objects/,
    ],
    [[...on, '--Authentication.Users', `["${hidden}"]`], /Users\[0\] must be an object/],
    [[...on, ...users(user), '--Authentication.Token.Secret', 'S3cret-that-nobody'], /at least 32 bytes/],
    [[...on, ...users(user), '--Authentication.Token.ExpiresInSeconds', '0'], /at least 1/],
    [[`--Authentication.Apikey=${hidden}`], /Unknown flag --Authentication\.Apikey;/],
    [['--Authentication.Apikey', hidden], /Unknown flag --Authentication\.Apikey;/],
    [['--Authentication.ApiKey', hidden, '--Authentication.ApiKey', hidden], /ApiKey is given more than once/],
    [['--Cors.Origins', '*', '--Cors.Credentials', 'true'], /must not be \* together with Cors\.Credentials/],
    [['--Cors.Origins', 'https://a.example,*', '--Cors.Credentials', 'true'], /must not be \*/],
    [['--Cors.Origins', 'https://a.example/'], /must hold origins/],
    [['--Cors.Origins', 'NULL'], /must hold origins/],
    [['--Cors.Origins', 'https://a.example,'], /must be a list of texts, none of which is empty/],
    [['--Http.Hosts', 'data.example:80'], /must hold host names without a port/],
    [['--Http.Hosts', 'http://data.example'], /must hold host names without a port/],
    [['--Cors.Origins', 'a.example'], /must hold origins/],
    [['--Limits.TrustedProxies', 'proxy.example'], /neither an address nor a network/],
    [['--Limits.TrustedProxies', '10.0.0.0/33'], /neither an address nor a network/],
  ]
  const files: readonly (readonly [text: string, says: RegExp])[] = [
    [
      `{"Authentication":{"Users":[{"Username":"anna","Password":"${hidden}" "Role":"admin"}]}}`,
      /line 1, column \d+: a comma or } was expected/,
    ],
    [`{"Authentication":{"ApiKey":"${hidden}`, /not well-formed JSON/],
    [`{"Authentication":{"ApiKey":["${hidden}"]}}`, /ApiKey must be text/],
    [`{"Authentication":{"Token":"${hidden}"}}`, /Authentication\.Token must be an object/],
    [`{"Authentication":"${hidden}"}`, /Authentication must be an object/],
    [`{"Authentication":{"Users":{"anna":"${hidden}"}}}`, /Users must be an array of objects/],
  ]
  const check = (argv: readonly string[], says: RegExp, text?: string, env: Readonly<Record<string, string>> = {}) => {
    const context = {
      argv,
      env,
      absolute: (path: string) => path,
      packagedSettings: '',
      readText: () => text,
      remoteJournal: CLUSTER,
    }
    const said: string[] = []
    assert.throws(
      () => parseInvocation(context),
      (error) => error instanceof BadSettings && said.push(...error.mistakes) > 0,
      `${says} ${text}`,
    )
    assert.match(said.join('\n'), says)
    for (let at = 0; at + 8 <= hidden.length; at++) {
      assert.ok(!said.join().includes(hidden.slice(at, at + 8)), `a secret is shown: ${said}`)
    }
  }
  for (const [flags, says] of rows) check(flags, says)
  for (const [text, says] of files) check([], says, text)
  check([], /Authentication__Apikey names no setting/, undefined, { Authentication__Apikey: hidden })
  check(on, /Users must be an array of objects/, undefined, { Authentication__Users: hidden })
})

test('a mistake in the authentication settings exits with 2 and changes nothing', async (t) => {
  const directory = await temporaryDirectory(t)
  const flags = ['--Authentication.Enabled', 'true', '--Authentication.Apikey=S3cret', '--Cors.Origins', '*']
  const { code, stdout, stderr } = await runToEnd(t, directory, [...flags, '--Cors.Credentials', 'true'])
  assert.equal(code, 2)
  assert.match(stderr, /Unknown flag --Authentication\.Apikey;[\s\S]*Users is needed[\s\S]*must not be \*/)
  assert.doesNotMatch(stdout + stderr, /S3cret/)
  assert.deepEqual(await readdir(directory), [])
})
