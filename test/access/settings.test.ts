import assert from 'node:assert/strict'
import { test } from 'node:test'
import { mistakesOf, settings } from '../support/settings.ts'

const HASH = `scrypt$32768$8$1$${'s'.repeat(22)}$${'k'.repeat(43)}`
const ANNA = { Username: 'anna', Password: HASH }

interface Given {
  readonly types?: readonly string[]
  readonly users?: readonly object[]
  readonly apiKeys?: readonly object[]
  readonly secret?: string
}

function file({ types = ['token'], users = [ANNA], apiKeys = [], secret }: Given) {
  const Authentication = {
    Enabled: true,
    AuthenticationType: types,
    Users: users,
    ApiKeys: apiKeys,
    ...(secret !== undefined && { Token: { Secret: secret } }),
  }
  return { argv: ['--settings', 's.json'], files: { '/work/s.json': { Authentication } } }
}

test('a user without a role is an admin', () => {
  assert.deepEqual(settings(file({})).authentication.users, [{ name: 'anna', password: HASH, role: 'admin' }])
})

test('a hash that cannot be checked at a sane cost is rejected at the start', () => {
  for (const Password of [
    HASH.replace('32768', '1073741824'),
    HASH.replace('$8$1$', '$8$999999$'),
    'scrypt$',
    HASH.slice(0, -1),
  ]) {
    assert.deepEqual(mistakesOf(file({ users: [{ ...ANNA, Password }] })), [
      '/work/s.json: Authentication.Users[0].Password is not a valid hash, or its cost is too high.',
    ])
  }
})

test('each mistake names the setting', () => {
  const rows: readonly (readonly [given: Given, place: RegExp])[] = [
    [{ types: ['oauth'] }, /^Authentication\.AuthenticationType /],
    [{ types: [] }, /^Authentication\.AuthenticationType /],
    [{ users: [] }, /^Authentication\.Users is needed/],
    [{ types: ['apikey'] }, /^Authentication\.ApiKey or Authentication\.ApiKeys is needed/],
    [{ users: [ANNA, ANNA] }, /^Authentication\.Users: the name "anna" /],
    [
      { users: [{ ...ANNA, Username: 'data-file' }] },
      /^Authentication\.Users\[0\]\.Username must be text, and neither .* data-file, /,
    ],
    [
      { users: [{ ...ANNA, Username: 'anonymous' }] },
      /^Authentication\.Users\[0\]\.Username must be text, and neither .* anonymous /,
    ],
    [{ users: [{ ...ANNA, Username: '' }] }, /^Authentication\.Users\[0\]\.Username /],
    [{ users: [{ Username: 'anna' }] }, /^Authentication\.Users\[0\]\.Password /],
    [{ users: [{ ...ANNA, Role: 'owner' }] }, /^Authentication\.Users\[0\]\.Role /],
    [{ users: [{ ...ANNA, Rolle: 'reader' }] }, /^Authentication\.Users\[0\] has an unknown key Rolle/],
    [{ apiKeys: [{ Name: 'data-file', Key: 'k' }] }, /^Authentication\.ApiKeys\[0\]\.Name must be text, and neither /],
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
    const mistakes = mistakesOf(file(given))
    assert.equal(mistakes.length, 1, `${place}: ${mistakes}`)
    assert.match(String(mistakes[0]).replace('/work/s.json: ', ''), place)
  }
})

test('API keys of one name are accepted, with a role each, so that a key can be replaced', () => {
  const apiKeys = [
    { Name: 'greenhouse', Key: 'old', Role: 'writer' },
    { Name: 'greenhouse', Key: 'new', Role: 'reader' },
  ]
  assert.deepEqual(
    settings(file({ types: ['apikey'], apiKeys })).authentication.apiKeys.map(({ name, role }) => `${name} ${role}`),
    ['greenhouse writer', 'greenhouse reader'],
  )
})

test('messages about mistakes contain no secret', () => {
  const secrets = {
    users: [
      { ...ANNA, Password: 'scrypt$secret', Role: 's3cret' },
      { ...ANNA, Username: 7, Password: ['s3cret'] },
    ],
    apiKeys: [{ Name: 'anna', Key: 's3cret', x: 1 }, 's3cret' as unknown as object],
    secret: 's3cret',
  }
  const mistakes = mistakesOf(file(secrets))
  assert.equal(mistakes.length, 7)
  assert.doesNotMatch(mistakes.join(), /s3cret|scrypt\$/)
})

test('the names of schemes are case-insensitive and may be repeated', () => {
  assert.deepEqual(settings(file({ types: ['Token', 'BASIC', 'token'] })).authentication.schemes, ['token', 'basic'])
})
