import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AuthenticationSettings, readAuthentication } from '../../src/settings/authentication.ts'
import type { KeyName } from '../../src/settings/keys.ts'
import { SettingValues } from '../../src/settings/values.ts'

const HASH = `scrypt$32768$8$1$${'s'.repeat(22)}$${'k'.repeat(43)}`
const ANNA = { Username: 'anna', Password: HASH }

interface Given {
  readonly types?: readonly string[]
  readonly users?: readonly object[]
  readonly apiKeys?: readonly object[]
  readonly secret?: string
}

function parse({ types = ['token'], users = [ANNA], apiKeys = [], secret }: Given): {
  settings: AuthenticationSettings
  mistakes: readonly string[]
} {
  const mistakes: string[] = []
  const given: readonly (readonly [KeyName, unknown])[] = [
    ['Authentication.Enabled', true],
    ['Authentication.AuthenticationType', types],
    ['Authentication.Users', users],
    ['Authentication.ApiKeys', apiKeys],
    ['Authentication.Token.Secret', secret],
  ]
  return { settings: readAuthentication(new SettingValues(new Map(given)), mistakes), mistakes }
}

test('a user without a role is an admin', () => {
  const { settings, mistakes } = parse({})
  assert.deepEqual(mistakes, [])
  assert.deepEqual(settings.users, [{ name: 'anna', password: HASH, role: 'admin' }])
})

test('a hash that cannot be checked at a sane cost is rejected at the start', () => {
  for (const Password of [
    HASH.replace('32768', '1073741824'),
    HASH.replace('$8$1$', '$8$999999$'),
    'scrypt$',
    HASH.slice(0, -1),
  ]) {
    const { mistakes } = parse({ users: [{ ...ANNA, Password }] })
    assert.equal(mistakes.length, 1, Password)
    assert.match(String(mistakes[0]), /^Authentication\.Users\[0\]\.Password /)
  }
})

test('each mistake names the setting', () => {
  const rows: readonly (readonly [given: Given, place: RegExp])[] = [
    [{ types: ['oauth'] }, /^Authentication\.AuthenticationType /],
    [{ types: [] }, /^Authentication\.AuthenticationType /],
    [{ users: [] }, /^Authentication\.Users is needed/],
    [{ types: ['apikey'] }, /^Authentication\.ApiKey or Authentication\.ApiKeys is needed/],
    [{ users: [ANNA, ANNA] }, /^Authentication\.Users: the name "anna" /],
    [{ users: [{ ...ANNA, Username: 'data-file' }] }, /^Authentication\.Users: the name "data-file" /],
    [{ users: [{ ...ANNA, Username: 'anonymous' }] }, /^Authentication\.Users: the name "anonymous" /],
    [{ users: [{ ...ANNA, Username: '' }] }, /^Authentication\.Users\[0\]\.Username /],
    [{ users: [{ Username: 'anna' }] }, /^Authentication\.Users\[0\]\.Password /],
    [{ users: [{ ...ANNA, Role: 'owner' }] }, /^Authentication\.Users\[0\]\.Role /],
    [{ users: [{ ...ANNA, Rolle: 'reader' }] }, /^Authentication\.Users\[0\] has an unknown key Rolle/],
    [{ apiKeys: [{ Name: 'data-file', Key: 'k' }] }, /^Authentication\.ApiKeys: the name "data-file" /],
    [
      {
        apiKeys: [
          { Name: 'a', Key: 'k' },
          { Name: 'b', Key: 'k', Role: 'reader' },
        ],
      },
      /^Authentication\.ApiKeys: the key of "b" /,
    ],
    [{ apiKeys: [{ Name: 'a', Key: 7 }] }, /^Authentication\.ApiKeys\[0\]\.Key /],
    [{ secret: 'x'.repeat(31) }, /^Authentication\.Token\.Secret /],
  ]
  for (const [given, place] of rows) {
    const { mistakes } = parse(given)
    assert.equal(mistakes.length, 1, `${place}: ${mistakes}`)
    assert.match(String(mistakes[0]), place)
  }
})

test('API keys of one name are accepted, with a role each, so that a key can be replaced', () => {
  const apiKeys = [
    { Name: 'greenhouse', Key: 'old', Role: 'writer' },
    { Name: 'greenhouse', Key: 'new', Role: 'reader' },
  ]
  const { settings, mistakes } = parse({ types: ['apikey'], apiKeys })
  assert.deepEqual(mistakes, [])
  assert.deepEqual(
    settings.apiKeys.map(({ name, role }) => `${name} ${role}`),
    ['greenhouse writer', 'greenhouse reader'],
  )
})

test('messages about mistakes contain no secret', () => {
  const secrets = {
    users: [{ ...ANNA, Password: 'scrypt$secret', Role: 'x' }],
    apiKeys: [{ Name: 'anna', Key: 's3cret', x: 1 }],
    secret: 's3cret',
  }
  const { mistakes } = parse(secrets)
  assert.equal(mistakes.length, 4)
  assert.doesNotMatch(mistakes.join(), /s3cret|scrypt\$/)
})

test('the names of schemes are case-insensitive and may be repeated', () => {
  assert.deepEqual(parse({ types: ['Token', 'BASIC', 'token'] }).settings.schemes, ['token', 'basic'])
})
