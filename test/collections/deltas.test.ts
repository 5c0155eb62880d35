import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DeltaBase, DeltaWriter, decodeDelta } from '../../src/collections/deltas.ts'
import { Random, SEED } from '../support/random.ts'

/** Pieces of texts that make them alike, and unlike. */
const PIECES = [
  '{"id":',
  '"temperature":',
  '21.5',
  '20',
  '}',
  ',',
  'ä😀',
  'x'.repeat(40),
  '\0',
  'abcabcabc',
  '0'.repeat(9),
]

function randomText(random: Random): Buffer {
  const pieces = Array.from({ length: random.integer(random.pick([3, 20, 400])) }, () => {
    const any = String.fromCharCode(random.integer(random.pick([58, 128, 0x800])))
    return random.chance(0.3) ? any : random.pick(PIECES)
  })
  return Buffer.from(pieces.join(''))
}

/** A text with some changes. */
function changed(text: Buffer, random: Random): Buffer {
  const parts: Buffer[] = []
  for (let at = 0; at < text.length; ) {
    const to = at + 1 + random.integer(60)
    const part = text.subarray(at, to)
    if (random.chance(0.8)) parts.push(part)
    if (random.chance(0.2)) parts.push(randomText(random).subarray(0, random.integer(12)))
    if (random.chance(0.1)) parts.push(part)
    at = to
  }
  return Buffer.concat(parts)
}

function decoded(base: Buffer, text: Buffer, before: number): { readonly decoded: Buffer; readonly length: number } {
  const writer = new DeltaWriter([text.length])
  const { bytes, isPacked } = writer.append(text, new DeltaBase(base))
  // It stands between others.
  const row = Buffer.concat([Buffer.alloc(before, 0xff), writer.written, Buffer.alloc(3, 0xff)])
  const delta = { from: before, to: before + bytes, isPacked }
  return { decoded: decodeDelta(row, delta, base, text.length), length: bytes }
}

test('a text is decoded from its delta, whatever its base is', () => {
  for (let run = 0; run < 2000; run++) {
    const random = new Random(SEED + run)
    const base = randomText(random)
    const text = random.pick([
      () => randomText(random),
      () => changed(base, random),
      () => base,
      () => Buffer.alloc(0),
    ])()
    const before = random.integer(4)
    assert.ok(decoded(base, text, before).decoded.equals(text), `SEED=${SEED + run}`)
    assert.ok(decoded(Buffer.alloc(0), text, before).decoded.equals(text), `SEED=${SEED + run}, without a base`)
  }
})

test('bytes of all values are decoded from a delta without a base', () => {
  const all = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))
  assert.ok(decoded(Buffer.alloc(0), all, 0).decoded.equals(all))
})

test('a text is decoded whose delta is the longest: of short parts elsewhere, with bytes between them that none has', () => {
  const random = new Random(SEED)
  const [first, last] = [Buffer.from('first of all'), Buffer.from('the last ones')]
  const base = Buffer.concat([first, Buffer.alloc(12_000), last])
  const parts = Array.from({ length: 1400 }, (_, at) => {
    const others = Array.from({ length: 7 }, () => 128 + random.integer(128))
    return Buffer.concat([Buffer.from(others), (at % 2 === 0 ? last : first).subarray(1, 5)])
  })
  const text = Buffer.concat(parts)
  const found = decoded(base, text, 0)
  assert.ok(found.length > 1.05 * text.length, `${found.length} of ${text.length}`)
  assert.ok(found.decoded.equals(text))
})

test('the delta of a reading from another one has a quarter of its length', () => {
  const [base, text] = [
    { id: 12, mac: 'AA:BB:CC:DD:EE:01', time: '2026-11-20T12:00:00.125Z', temperature: 21.37, humidity: 48.2 },
    { id: 311, mac: 'AA:BB:CC:DD:EE:14', time: '2026-11-20T12:01:07.998Z', temperature: 19.02, humidity: 51.33 },
  ].map((reading) => Buffer.from(JSON.stringify(reading))) as [Buffer, Buffer]
  const { length } = decoded(base, text, 0)
  assert.ok(length <= text.length / 4, `${length} of ${text.length}`)
})

test('a text that resembles nothing becomes at most a tenth longer', () => {
  const random = new Random(SEED)
  const text = Buffer.from(Array.from({ length: 5000 }, () => random.integer(256)))
  const { length } = decoded(randomText(random), text, 0)
  assert.ok(length <= 1.1 * text.length, `${length}`)
})
