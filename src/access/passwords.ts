import { createHash, randomBytes, scrypt, timingSafeEqual } from 'node:crypto'

const COST = 2 ** 15
const BLOCK_SIZE = 8
const PARALLEL = 1
const KEY_BYTES = 32
/** 128 × cost × block size is what scrypt needs; a hash of a higher cost than this is not computed. */
const MEMORY_BYTES = 256 * 1024 * 1024

const FORMAT = /^scrypt\$(\d+)\$(\d+)\$(\d+)\$([\w-]+)\$([\w-]+)$/

/** `scrypt$<cost>$<block size>$<parallelism>$<salt>$<key>`, salt and key in base64url. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(16)
  const key = await derive(password, salt, COST, BLOCK_SIZE, PARALLEL)
  return ['scrypt', COST, BLOCK_SIZE, PARALLEL, salt.toString('base64url'), key.toString('base64url')].join('$')
}

export function isPasswordHash(text: string): boolean {
  return FORMAT.test(text)
}

/** Whether the password is the one that the hash was made of. */
export async function verifyPassword(password: string, hash: string): Promise<boolean> {
  const [, cost, blockSize, parallel, salt = '', key = ''] = FORMAT.exec(hash) ?? []
  const expected = Buffer.from(key, 'base64url')
  const derived = await derive(
    password,
    Buffer.from(salt, 'base64url'),
    Number(cost),
    Number(blockSize),
    Number(parallel),
  )
  return sameSecret(derived, expected)
}

/** Compares by digest, in a time that does not depend on where the two differ, nor on their lengths. */
export function sameSecret(a: string | Uint8Array, b: string | Uint8Array): boolean {
  return timingSafeEqual(digest(a), digest(b))
}

function digest(secret: string | Uint8Array): Buffer {
  return createHash('sha256').update(secret).digest()
}

function derive(password: string, salt: Buffer, cost: number, blockSize: number, parallel: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const options = { cost, blockSize, parallelization: parallel, maxmem: MEMORY_BYTES }
    scrypt(password, salt, KEY_BYTES, options, (error, key) => (error ? reject(error) : resolve(key)))
  })
}
