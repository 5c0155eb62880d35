import assert from 'node:assert/strict'
import { test } from 'node:test'
import { MOST_NUMBER_BYTES, NumberReader, NumberWriter } from '../../src/runtime/var-numbers.ts'

const NUMBERS = [0, 1, 127, 128, 2 ** 31 - 1, 2 ** 31, 2 ** 32 + 5, Number.MAX_SAFE_INTEGER]

test('numbers are read as they were written, seven bits of them in each byte', () => {
  const writer = new NumberWriter(Buffer.alloc(MOST_NUMBER_BYTES * NUMBERS.length))
  for (const number of NUMBERS) writer.put(number)
  assert.equal(writer.written.length, 1 + 1 + 1 + 2 + 5 + 5 + 5 + 8)
  const reader = new NumberReader(writer.written, 0)
  assert.deepEqual(
    NUMBERS.map(() => reader.next()),
    NUMBERS,
  )
  assert.ok(reader.isAtEnd)
})

test('numbers that had no room are not returned as if they had been written', () => {
  const writer = new NumberWriter(Buffer.alloc(2))
  writer.put(300)
  assert.equal(writer.written.length, 2)
  writer.put(1)
  assert.throws(() => writer.written, RangeError)
})
