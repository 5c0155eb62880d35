import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decoyOf, hashPassword, isPasswordHash, looksLikeHash, verifyPassword } from '../../src/access/passwords.ts'

/** RFC 7914 §12: the first 32 bytes of each key, by the parameters, the salt and the password. */
const PUBLISHED = [
  [[1024, 8, 16, 'NaCl', 'password'], 'fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162'],
  [
    [16384, 8, 1, 'SodiumChloride', 'pleaseletmein'],
    '7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2',
  ],
] as const

const SALT = Buffer.from('a salt of 16 by.').toString('base64url')
const KEY = Buffer.alloc(32, 7).toString('base64url')
const hash = (cost: number | string, blockSize: number | string, parallel: number | string, key = KEY): string =>
  ['scrypt', cost, blockSize, parallel, SALT, key].join('$')

test('a password matches its own hash and no other', async () => {
  for (const password of ['correct horse', 'pässwörd €', ' ', 'x'.repeat(1000), '$', 'a\0b']) {
    const made = await hashPassword(password)
    assert.ok(isPasswordHash(made), made)
    assert.equal(await verifyPassword(password, made), true, password)
    assert.equal(await verifyPassword(`${password} `, made), false)
    assert.equal(await verifyPassword(password.slice(1), made), false)
  }
})

test('a hash names its parameters: scrypt, costs 2^15, 8 and 1, a salt of 16 bytes and a key of 32', async () => {
  const made = await hashPassword('secret')
  assert.match(made, /^scrypt\$32768\$8\$1\$[\w-]{22}\$[\w-]{43}$/)
})

test('the check of an unknown user takes as long as that of the most expensive hash', async () => {
  const parametersOf = (text: string) => text.split('$').slice(0, 4).join('$')
  for (const [hashes, parameters] of [
    [[], 'scrypt$32768$8$1'],
    [[hash(1024, 8, 1)], 'scrypt$1024$8$1'],
    [[hash(1024, 8, 1), hash(2 ** 16, 8, 1), hash(2 ** 15, 8, 1)], 'scrypt$65536$8$1'],
    [[hash(2 ** 14, 8, 1), hash(2 ** 10, 8, 64)], 'scrypt$1024$8$64'],
  ] as const) {
    const decoy = await decoyOf(hashes)
    assert.equal(parametersOf(decoy), parameters)
    assert.ok(isPasswordHash(decoy))
  }
})

test('two hashes of one password differ', async () => {
  const [one, other] = await Promise.all([hashPassword('secret'), hashPassword('secret')])
  assert.notEqual(one.split('$')[4], other.split('$')[4])
  assert.notEqual(one.split('$')[5], other.split('$')[5])
})

test('hashes of other programs are checked with their own parameters (test vectors of RFC 7914)', async () => {
  for (const [[cost, blockSize, parallel, salt, password], key] of PUBLISHED) {
    const parts = [cost, blockSize, parallel, Buffer.from(salt).toString('base64url')]
    const published = ['scrypt', ...parts, Buffer.from(key, 'hex').toString('base64url')].join('$')
    assert.equal(await verifyPassword(password, published), true, published)
    assert.equal(await verifyPassword('other', published), false)
  }
})

test('a hash that would take too much time or memory to check is rejected', async () => {
  assert.ok(isPasswordHash(hash(2 ** 15, 8, 1)))
  assert.ok(isPasswordHash(hash(2 ** 17, 8, 1)))
  assert.ok(isPasswordHash(hash(2 ** 18, 8, 1)))
  for (const refused of [
    hash(2 ** 19, 8, 1),
    hash(2 ** 30, 8, 1),
    hash(2 ** 15, 8, 100_000),
    hash(2, 2 ** 30, 1),
    hash('9'.repeat(400), 8, 1),
    hash(1, 8, 1),
    hash(0, 8, 1),
    hash(1000, 8, 1),
    hash(2 ** 16, 1, 1),
    hash(1024, 0, 1),
    hash(1024, 8, 0),
    hash(1024, 8, 1, KEY.slice(0, 20)),
    hash(1024, 8, 1, `${KEY}${KEY}`),
  ]) {
    assert.equal(isPasswordHash(refused), false, refused)
    assert.equal(looksLikeHash(refused), true)
    assert.equal(await verifyPassword('password', refused), false, refused)
  }
})

test('text that is no hash is not accepted as one', async () => {
  for (const text of [
    '',
    'secret',
    'scrypt',
    'scrypt$',
    'scrypt$1024$8$1$$',
    `bcrypt$1024$8$1$${SALT}$${KEY}`,
    `${hash(1024, 8, 1)}\n`,
  ]) {
    assert.equal(isPasswordHash(text), false, text)
    assert.equal(await verifyPassword(text, text), false, text)
  }
})
