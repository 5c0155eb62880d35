import assert from 'node:assert/strict'
import { test } from 'node:test'
import { networkOf, TrustedProxies } from '../../src/access/addresses.ts'

const PROXY = '127.0.0.1'
const proxies = new TrustedProxies([PROXY, '10.0.0.0/8', '::1', 'fd00::/8'])

function check(
  rows: readonly (readonly [remote: string | undefined, forwarded: string | undefined, client: string])[],
) {
  for (const [remote, forwarded, client] of rows) {
    assert.equal(proxies.clientOf(remote, forwarded), client, `${remote} for ${forwarded}`)
  }
}

test("without a trusted proxy the client's address is that of its connection, whatever its headers say", () => {
  check([
    ['203.0.113.9', undefined, '203.0.113.9'],
    ['203.0.113.9', '198.51.100.1', '203.0.113.9'],
    ['203.0.113.9', '127.0.0.1', '203.0.113.9'],
    ['2001:db8::9', '198.51.100.1, 10.0.0.1', '2001:db8::9'],
  ])
  const none = new TrustedProxies([])
  assert.equal(none.clientOf(PROXY, '198.51.100.1'), PROXY)
})

test('behind a trusted proxy the client is the last address that is not trusted', () => {
  check([
    [PROXY, '198.51.100.1', '198.51.100.1'],
    [PROXY, '198.51.100.1, 10.1.2.3', '198.51.100.1'],
    [PROXY, '198.51.100.1, 10.1.2.3, 10.4.5.6', '198.51.100.1'],
    ['10.1.2.3', '198.51.100.1', '198.51.100.1'],
    [PROXY, ' 198.51.100.1 ,10.1.2.3 ', '198.51.100.1'],
  ])
})

test('addresses that a client adds in front of the chain are ignored', () => {
  check([
    [PROXY, '1.1.1.1, 198.51.100.1', '198.51.100.1'],
    [PROXY, '10.0.0.7, 198.51.100.1', '198.51.100.1'],
    [PROXY, '1.1.1.1, 198.51.100.1, 10.1.2.3', '198.51.100.1'],
    [PROXY, 'garbage, 198.51.100.1', '198.51.100.1'],
  ])
})

test('when every address of the chain is trusted, the first one is the client', () => {
  check([
    [PROXY, '10.1.1.1, 10.2.2.2', '10.1.1.1'],
    [PROXY, undefined, PROXY],
  ])
})

test('the chain ends at an entry that is no address', () => {
  check([
    [PROXY, '', PROXY],
    [PROXY, ',', PROXY],
    [PROXY, 'unknown', PROXY],
    [PROXY, '198.51.100.1, unknown', PROXY],
    [PROXY, '198.51.100.1, , 10.1.2.3', '10.1.2.3'],
    [PROXY, '198.51.100.1:8080', PROXY],
    [PROXY, '[2001:db8::1]:8080', PROXY],
    [PROXY, '999.1.1.1', PROXY],
    [PROXY, '0x7f.1', PROXY],
    [PROXY, '\u0000', PROXY],
    [PROXY, 'x'.repeat(10_000), PROXY],
    [undefined, '198.51.100.1', ''],
    [undefined, undefined, ''],
  ])
})

test('IPv6 proxies and clients are recognized', () => {
  check([
    ['::1', '2001:db8::9', '2001:db8::9'],
    ['fd12::1', '2001:db8::9, fd00::5', '2001:db8::9'],
    ['fe80::1%eth0', '198.51.100.1', 'fe80::1%eth0'],
    [PROXY, '198.51.100.1, fe80::1%eth0', 'fe80::1%eth0'],
    [PROXY, '198.51.100.1, fe80::1%a.b, 10.1.2.3', 'fe80::1%a.b'],
    [PROXY, '198.51.100.1, fe80::1%a::b', 'fe80::1%a::b'],
  ])
})

test('an IPv4-mapped IPv6 address equals the IPv4 address', () => {
  check([
    ['::ffff:127.0.0.1', '198.51.100.1', '198.51.100.1'],
    ['::ffff:203.0.113.9', '198.51.100.1', '203.0.113.9'],
    ['::FFFF:127.0.0.1', '::ffff:198.51.100.1', '198.51.100.1'],
    [PROXY, '198.51.100.1, ::ffff:10.1.2.3', '198.51.100.1'],
  ])
})

test('a chain of any length is evaluated', () => {
  check([[PROXY, `198.51.100.1${', 10.0.0.1'.repeat(50_000)}`, '198.51.100.1']])
})

test('a trusted proxy that is neither an address nor a network is rejected by name', () => {
  for (const entry of [
    '',
    'proxy.example',
    '10.0.0.0/33',
    '10.0.0.0/-1',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '::1/129',
    '10.0.0',
    '*',
  ]) {
    assert.throws(() => new TrustedProxies([PROXY, entry]), {
      message: `${entry} is neither an address nor a network such as 10.0.0.0/8`,
    })
  }
})

test('all addresses of an IPv6 /64 network count as one, and each IPv4 address counts alone', () => {
  const rows: readonly (readonly [address: string, network: string])[] = [
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::', '2001:db8:1:2::/64'],
    ['2001:DB8:0001:0002::ffff', '2001:db8:1:2::/64'],
    ['2001:db8:1:3::1', '2001:db8:1:3::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:db8:1::2:3:4:5', '2001:db8:1:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['64:ff9b:1:2:3:4:198.51.100.1', '64:ff9b:1:2::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['1:2:3:4:5:6:7:8%a.b', '1:2:3:4::/64'],
    ['1:2:3:4:5:6:7:8%a:b', '1:2:3:4::/64'],
    ['::1%a::b', '0:0:0:0::/64'],
    ['198.51.100.1', '198.51.100.1'],
    ['', ''],
    ['unknown', 'unknown'],
  ]
  for (const [address, network] of rows) assert.equal(networkOf(address), network, address)
})
