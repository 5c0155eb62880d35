import { hash, randomBytes, scrypt, timingSafeEqual } from 'node:crypto'

const COST = 2 ** 15
const BLOCK_SIZE = 8
const PARALLEL = 1
const KEY_BYTES = 32
/**
 * Highest accepted product of cost, block size and parallelism: eight times that of `hashPassword`, so that a login
 * does not block the server.
 */
const HIGHEST_WORK = 8 * COST * BLOCK_SIZE * PARALLEL
/** scrypt needs at most 128 bytes for each unit of work, and a little more. */
const MEMORY_BYTES = 129 * HIGHEST_WORK

const FORMAT = /^scrypt\$(\d+)\$(\d+)\$(\d+)\$([\w-]+)\$([\w-]+)$/

interface Hash {
  readonly cost: number
  readonly blockSize: number
  readonly parallel: number
  readonly salt: Buffer
  readonly key: Buffer
}

type Parameters = Pick<Hash, 'cost' | 'blockSize' | 'parallel'>

const USUAL: Parameters = { cost: COST, blockSize: BLOCK_SIZE, parallel: PARALLEL }

/** Undefined for text that is not a hash, or one that is invalid or too expensive to check. */
function parseHash(text: string): Hash | undefined {
  const [, cost, blockSize, parallel, salt = '', key = ''] = FORMAT.exec(text) ?? []
  const hash = {
    cost: Number(cost),
    blockSize: Number(blockSize),
    parallel: Number(parallel),
    salt: Buffer.from(salt, 'base64url'),
    key: Buffer.from(key, 'base64url'),
  }
  const isPossible = hash.cost > 1 && Number.isInteger(Math.log2(hash.cost)) && hash.blockSize > 0 && hash.parallel > 0
  // RFC 7914 §6: the cost is below 2^(128 × block size ÷ 8).
  const isLegal = isPossible && Math.log2(hash.cost) < 16 * hash.blockSize
  const isBearable = work(hash) <= HIGHEST_WORK
  return isLegal && isBearable && hash.key.length === KEY_BYTES ? hash : undefined
}

/** The format is `scrypt$<cost>$<block size>$<parallelism>$<salt>$<key>`, with salt and key in base64url. */
export async function hashPassword(password: string, parameters = USUAL): Promise<string> {
  const { cost, blockSize, parallel } = parameters
  const salt = randomBytes(16)
  const key = await derive(password, salt, parameters)
  return ['scrypt', cost, blockSize, parallel, salt.toString('base64url'), key.toString('base64url')].join('$')
}

/** The hash of a random password, as expensive to check as the costliest of `hashes`. */
export function decoyOf(hashes: readonly string[]): Promise<string> {
  const [first, ...others] = hashes.flatMap((text) => parseHash(text) ?? [])
  const costliest = others.reduce<Parameters>((most, one) => (work(one) > work(most) ? one : most), first ?? USUAL)
  return hashPassword(randomBytes(16).toString('hex'), costliest)
}

function work({ cost, blockSize, parallel }: Parameters): number {
  return cost * blockSize * parallel
}

/** Whether `verifyPassword` can check it. */
export function isPasswordHash(text: string): boolean {
  return parseHash(text) !== undefined
}

/** Whether the text is meant to be a hash, valid or not. */
export function looksLikeHash(text: string): boolean {
  return text.startsWith('scrypt$')
}

export async function verifyPassword(password: string, text: string): Promise<boolean> {
  const hash = parseHash(text)
  if (!hash) return false
  return timingSafeEqual(await derive(password, hash.salt, hash), hash.key)
}

export function digest(secret: string): Buffer {
  return hash('sha256', secret, 'buffer')
}

function derive(password: string, salt: Buffer, { cost, blockSize, parallel }: Parameters): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const options = { cost, blockSize, parallelization: parallel, maxmem: MEMORY_BYTES }
    scrypt(password, salt, KEY_BYTES, options, (error, key) => (error ? reject(error) : resolve(key)))
  })
}
