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
      /^Authentication\.Users\[0\]\.Username must be text, and neither .* retention, /,
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

const FILE = '/work/appsettings.json'

function mistakesIn(name: string, list: readonly string[], others: object = {}): readonly string[] {
  const [section = '', key = ''] = name.split('.')
  return mistakesOf({ files: { [FILE]: { [section]: { [key]: list, ...others } } } })
}

test('an origin that no browser sends is refused with the right form', () => {
  const rows: readonly (readonly [origin: string, right: string])[] = [
    ['https://a.example/', 'write https://a.example'],
    ['https://a.example:443/path?query#hash', 'write https://a.example'],
    ['https://user:secret@a.example:8443', 'write https://a.example:8443'],
    ['https://a.example?x', 'write https://a.example'],
    ['dashboard.example', 'write https://dashboard.example'],
    ['//dashboard.example', 'write its scheme, host and port'],
    ['localhost:3000', 'write http://localhost:3000'],
    ['[::1]:3000', 'write http://[::1]:3000'],
    ['wss://a.example', 'write https://a.example'],
    ['ws://localhost:3000', 'write http://localhost:3000'],
    ['capacitor://localhost/', 'write capacitor://localhost'],
    ['https://*.example.com', 'patterns are not supported; write each origin, or * for all'],
    ['*.example.com', 'patterns are not supported; write each origin, or * for all'],
    ['NULL', 'write null'],
    ['https://', 'write its scheme, host and port'],
    ['https://a.example:99999', 'write its scheme, host and port'],
    ['https://a.example;https://b.example', 'write its scheme, host and port'],
    ["'https://a.example'", 'write its scheme, host and port'],
    ['https://a.example\\x', 'write its scheme, host and port'],
    ['about://blank', 'write its scheme, host and port'],
    ['data://x', 'write its scheme, host and port'],
  ]
  for (const [origin, right] of rows) {
    assert.deepEqual(
      mistakesIn('Cors.Origins', [origin]),
      [`${FILE}: Cors.Origins must hold origins such as https://example.com, not ${JSON.stringify(origin)}: ${right}.`],
      origin,
    )
  }
})

test('every origin, and that of sandboxed pages, cannot have credentials that browsers hold', () => {
  for (const origin of ['*', 'null']) {
    assert.deepEqual(mistakesIn('Cors.Origins', ['https://a.example', origin], { Credentials: true }), [
      `Cors.Origins must not be ${origin} together with Cors.Credentials: every page could act as its visitor.`,
    ])
  }
})

test('origins of sites, apps and extensions are accepted, in any case and with the default port', () => {
  const origins = [
    ...['*', 'null', 'https://a.example', 'HTTPS://A.Example:443', 'http://localhost:3000', 'http://10.0.0.5'],
    ...['capacitor://localhost', 'ionic://localhost', 'tauri://localhost', 'app://obsidian.md', 'file://'],
    ...['chrome-extension://mhjfbmdgcfjbbpaeojofohoefgiehjai', 'moz-extension://8b5a1c2e', 'vscode-webview://1u2g'],
  ]
  assert.deepEqual(mistakesIn('Cors.Origins', origins), [])
})

test('a host that no browser sends is refused with the right form', () => {
  const rows: readonly (readonly [host: string, right: string])[] = [
    ['http://data.example', ': write data.example'],
    ['data.example:80', ': write data.example'],
    ['data.example/path', ': write data.example'],
    ['https://data.example:8443/path', ': write data.example'],
    ['::1', ': write [::1]'],
    ['[::1]:80', ': write [::1]'],
    ['*.data.example', ': patterns are not supported; write each name, or * for all'],
    ['.data.example', ''],
    ['data..example', ''],
    ['user@data.example', ''],
  ]
  for (const [host, right] of rows) {
    assert.deepEqual(
      mistakesIn('Http.Hosts', [host]),
      [
        `${FILE}: Http.Hosts must hold host names without a port such as data.example, not ${JSON.stringify(host)}${right}.`,
      ],
      host,
    )
  }
  assert.deepEqual(mistakesIn('Http.Hosts', ['*', 'Data.example', 'data.example.', '10.0.0.5', '[::1]', 'my_host']), [])
})

test('a trusted proxy that is no address is refused with an example', () => {
  for (const proxy of ['proxy.example', 'http://10.0.0.1', '10.0.0.1:80', '10.0.0.0/33', '[::1]', '*']) {
    assert.deepEqual(mistakesIn('Limits.TrustedProxies', [proxy]), [
      `${FILE}: Limits.TrustedProxies has a wrong entry: ${proxy} is neither an address nor a network such as 10.0.0.0/8.`,
    ])
  }
})
