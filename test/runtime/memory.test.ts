import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  HighWaterMark,
  Memory,
  MemoryBudget,
  type MemoryKind,
  OutOfMemory,
  textBytes,
} from '../../src/runtime/memory.ts'

const MB = 1_000_000
const UNPROCESSABLE = { code: 'Unprocessable' }
const UNAVAILABLE = { code: 'Unavailable' }

function held(budget: MemoryBudget, bytes: number, kind: MemoryKind = 'queries'): Memory {
  const memory = new Memory(budget, kind)
  memory.hold(bytes)
  return memory
}

test('memory that others hold is Unavailable until they release it', () => {
  const budget = new MemoryBudget(MB)
  const first = held(budget, 0.6 * MB)
  const second = held(budget, 0.3 * MB)
  assert.throws(() => second.hold(0.2 * MB), UNAVAILABLE)
  assert.equal(second.bytes, 300_000, 'nothing more is held')
  first.release()
  second.hold(0.2 * MB)
  assert.equal(budget.held('queries'), 500_000)
})

test('more memory than there is in all is Unprocessable, with what to do instead', () => {
  const budget = new MemoryBudget(MB)
  const memory = held(budget, 0.6 * MB, 'restores')
  assert.throws(() => memory.hold(0.5 * MB), { ...UNPROCESSABLE, message: /1000000 bytes.*recollect replay --to/s })
  assert.equal(budget.held('restores'), memory.bytes)
})

test('each holder may hold a few kilobytes while the memory is in use', () => {
  const budget = new MemoryBudget(MB)
  held(budget, MB)
  const small = held(budget, 8 * 1024, 'bodies')
  assert.throws(() => small.hold(32 * 1024), UNAVAILABLE)
})

test('caches are evicted before a request is refused, and only as far as it needs', () => {
  const budget = new MemoryBudget(MB)
  const states = Array.from({ length: 4 }, () => held(budget, 200_000, 'past'))
  budget.addCache(() => {
    const state = states.shift()
    state?.release()
    return state !== undefined
  })
  const memory = held(budget, 600_000)
  assert.equal(states.length, 2)
  memory.hold(400_000)
  assert.equal(states.length, 0)
  assert.throws(() => held(budget, 0.1 * MB), UNAVAILABLE)
})

test('a holder is refused for ever what does not fit beside its other memory', () => {
  const budget = new MemoryBudget(MB)
  const state = held(budget, 0.6 * MB, 'past')
  assert.throws(() => new Memory(budget, 'restores').hold(0.5 * MB), UNAVAILABLE)
  assert.throws(() => new Memory(budget, 'restores', state.bytes).hold(0.5 * MB), UNPROCESSABLE)
})

test('a high-water mark holds the highest of several sums', () => {
  const budget = new MemoryBudget(MB)
  const mark = new HighWaterMark(held(budget, 0), 100_000)
  for (const bytes of [50_000, 300_000, 200_000]) mark.reach(bytes)
  assert.equal(mark.bytes, 300_000)
  assert.equal(budget.held('queries'), 200_000)
  assert.throws(() => mark.reach(1.2 * MB), UNPROCESSABLE)
  assert.equal(mark.bytes, 300_000)
})

test('growth is refused beyond the share of its purpose, and not for what others hold', () => {
  const budget = new MemoryBudget(MB)
  const subscription = held(budget, 0.1 * MB, 'subscriptions')
  held(budget, 0.9 * MB)
  subscription.grow(0.4 * MB)
  assert.throws(() => new Memory(budget, 'subscriptions').grow(1), UNAVAILABLE)
  assert.throws(() => subscription.grow(1), UNPROCESSABLE)
})

test('a refusal is for ever when what was refused does not fit beside what else its request holds', () => {
  const budget = new MemoryBudget(MB)
  const body = held(budget, 0.5 * MB, 'bodies')
  held(budget, 0.4 * MB)
  const write = new Memory(budget, 'writes')
  const refused = (bytes: number): OutOfMemory => {
    try {
      write.hold(bytes)
    } catch (error) {
      if (error instanceof OutOfMemory) return error
    }
    throw new Error(`${bytes} bytes were not refused`)
  }
  assert.equal(budget.refusalBeside(refused(0.45 * MB), body.bytes).code, 'Unavailable')
  const never = budget.refusalBeside(refused(0.6 * MB), body.bytes)
  assert.equal(never.code, 'Unprocessable')
  assert.match(never.message, /Change fewer items in one write/)
})

test('subscriptions may hold half of the memory', () => {
  const budget = new MemoryBudget(MB)
  const first = held(budget, 0.4 * MB, 'subscriptions')
  assert.throws(() => held(budget, 0.2 * MB, 'subscriptions'), UNAVAILABLE)
  assert.throws(() => first.hold(0.2 * MB), UNPROCESSABLE)
  held(budget, 0.6 * MB)
})

test('a text takes a byte for each character if it is ASCII, and two otherwise', () => {
  assert.equal(textBytes('x'.repeat(1000)) - textBytes(''), 1000)
  assert.equal(textBytes('→'.repeat(1000)) - textBytes(''), 2000)
})
