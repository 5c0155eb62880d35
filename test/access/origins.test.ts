import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Origins } from '../../src/access/origins.ts'

const HOST = 'data.example:57602'
/** Origins that are rejected by every setting except `*`. */
const STRANGE = [
  'null',
  '',
  'data.example',
  'https://',
  'file://',
  'file:///index.html',
  'data:text/html,x',
  'http://[',
  'http://evil.example',
  'http://data.example',
  'http://data.example:57602.evil.example',
  'http://evil.example/data.example:57602',
  'http://localhost.evil.example',
  'http://evil.example#http://localhost',
]

test('requests without Origin and of the same origin are always allowed', () => {
  for (const origins of [new Origins(undefined), new Origins([]), new Origins(['https://app.example'])]) {
    assert.ok(origins.allows(undefined, HOST))
    assert.ok(origins.allows('http://data.example:57602', HOST))
    assert.ok(origins.allows('https://data.example', 'data.example'), 'a proxy may have ended TLS')
  }
})

test('without configured origins, pages of the local machine are allowed on any port', () => {
  const origins = new Origins(undefined)
  for (const origin of ['http://localhost', 'http://localhost:3000', 'https://127.0.0.1:8443', 'http://[::1]:5173']) {
    assert.ok(origins.allows(origin, HOST), origin)
  }
  for (const origin of STRANGE) assert.equal(origins.allows(origin, HOST), false, origin)
})

test('with configured origins only those are allowed, not even the local machine', () => {
  const origins = new Origins(['https://app.example', 'http://localhost:3000'])
  assert.ok(origins.allows('https://app.example', HOST))
  assert.ok(origins.allows('https://app.example:443', HOST), 'the same origin, written out')
  assert.ok(origins.allows('http://localhost:3000', HOST))
  for (const origin of [
    'http://app.example',
    'https://app.example:8443',
    'https://sub.app.example',
    'http://localhost:3001',
    ...STRANGE,
  ]) {
    assert.equal(origins.allows(origin, HOST), false, origin)
  }
  assert.equal(new Origins([]).allows('http://localhost', HOST), false)
})

test('with * every origin is allowed', () => {
  for (const origin of ['https://app.example', ...STRANGE]) assert.ok(new Origins(['*']).allows(origin, HOST), origin)
})

test('a request without Host has no same origin', () => {
  assert.equal(new Origins([]).allows('http://data.example', undefined), false)
})

test('a request is cross-site when its Origin is not allowed or Sec-Fetch-Site says so', () => {
  const origins = new Origins(undefined)
  const cases: readonly (readonly [origin: string | undefined, site: string | undefined, isForeign: boolean])[] = [
    [undefined, undefined, false],
    [undefined, 'none', false],
    [undefined, 'same-site', false],
    [undefined, 'cross-site', true],
    ['http://evil.example', undefined, true],
    ['http://evil.example', 'cross-site', true],
    ['null', undefined, true],
    ['null', 'same-origin', false],
    ['http://localhost:3000', 'cross-site', false],
    [`http://${HOST}`, 'same-origin', false],
  ]
  for (const [origin, site, isForeign] of cases) {
    assert.equal(origins.isForeign({ origin, host: HOST, 'sec-fetch-site': site }), isForeign, `${origin} ${site}`)
  }
  assert.equal(new Origins(['*']).isForeign({ host: HOST, 'sec-fetch-site': 'cross-site' }), false)
})
