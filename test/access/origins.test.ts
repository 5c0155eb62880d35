import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Hosts, Origins } from '../../src/access/origins.ts'

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
  'capacitor://localhost',
  'app://data.example:57602',
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

test('apps and extensions are allowed where their origin is named, exactly as it is named', () => {
  const named = [
    ...['capacitor://localhost', 'ionic://localhost', 'tauri://localhost', 'app://obsidian.md', 'file://'],
    ...['chrome-extension://mhjfbmdgcfjbbpaeojofohoefgiehjai', 'moz-extension://8b5a1c2e', 'vscode-webview://1u2g'],
  ]
  const origins = new Origins(named)
  for (const origin of named) {
    assert.ok(origins.allows(origin, HOST), origin)
    assert.equal(origins.isForeign({ origin, host: HOST, 'sec-fetch-site': 'cross-site' }), false, origin)
    assert.equal(new Origins(undefined).allows(origin, HOST), false, origin)
  }
  const others = ['capacitor://localhost:80', 'capacitor://evil', 'http://localhost', 'file://evil.example', 'null']
  for (const origin of others) assert.equal(origins.allows(origin, HOST), false, origin)
})

test('the origin null is allowed only where it is named', () => {
  assert.ok(new Origins(['null']).allows('null', HOST))
  assert.equal(new Origins(['null']).isForeign({ origin: 'null', host: HOST, 'sec-fetch-site': 'cross-site' }), false)
  for (const named of [undefined, [], ['https://app.example']]) {
    assert.equal(new Origins(named).allows('null', 'null'), false, String(named))
  }
  assert.equal(new Origins(['null']).allows('NULL', HOST), false)
})

test('origins are compared as browsers send them', () => {
  const origins = new Origins([
    'https://App.Example:443',
    'http://[0:0::1]:80',
    'https://bücher.example',
    'TAURI://localhost',
  ])
  for (const origin of ['https://app.example', 'http://[::1]', 'https://xn--bcher-kva.example', 'tauri://localhost']) {
    assert.ok(origins.allows(origin, HOST), origin)
  }
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

const LOOPBACK = [
  'localhost',
  'LOCALHOST:57602',
  'localhost.',
  'app.localhost:80',
  '127.0.0.1',
  '127.1.2.3:1',
  '[::1]:57602',
]
const OTHERS = [
  ...['evil.example', 'evil.example:57602', 'localhost.evil.example', '127.0.0.1.evil.example', 'evil-localhost', 'x'],
  ...['localhost@evil.example', '10.0.0.1', '[::2]', '0.0.0.0', ':80', '.', 'a/b?c', ' localhost'],
]

test('the names of the local machine are accepted as Host on any port, other names only when configured', () => {
  for (const hosts of [new Hosts([]), new Hosts(['data.example'])]) {
    for (const host of LOOPBACK) assert.ok(hosts.accepts(host), host)
    for (const host of OTHERS) assert.equal(hosts.accepts(host), false, host)
  }
  const named = new Hosts(['Data.example', '10.0.0.5', 'bücher.example', 'dot.example.', '[2001:DB8:0::7]'])
  const hosts = ['data.example', 'DATA.example:8443', 'data.example.', '10.0.0.5:80', 'xn--bcher-kva.example']
  for (const host of [...hosts, 'dot.example', 'dot.example.:80', '[2001:db8::7]:80']) {
    assert.ok(named.accepts(host), host)
    assert.ok(named.accepts(host), `${host} again`)
  }
  assert.equal(named.accepts('www.data.example'), false)
})

test('a request without Host is accepted as it comes from no browser; a wildcard accepts any Host', () => {
  for (const host of [undefined, '']) assert.ok(new Hosts([]).accepts(host))
  for (const hosts of [new Hosts(undefined), new Hosts(['*'])]) {
    for (const host of [...LOOPBACK, ...OTHERS]) assert.ok(hosts.accepts(host), host)
  }
})
