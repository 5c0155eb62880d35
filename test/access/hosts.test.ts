import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Hosts } from '../../src/access/origins.ts'

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
