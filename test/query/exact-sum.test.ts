import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ExactSum } from '../../src/query/aggregate/accumulator.ts'
import { forAll } from '../support/random.ts'

function sumOf(numbers: readonly number[]): number {
  const sum = new ExactSum()
  for (const number of numbers) sum.add(number)
  return sum.total
}

test('a sum is rounded once', () => {
  assert.equal(sumOf([]), 0)
  assert.equal(sumOf(Array.from({ length: 10 }, () => 0.1)), 1)
  assert.equal(sumOf([1e100, 1, -1e100, 1e-100]), 1)
  assert.equal(sumOf([1, 2 ** -53, 2 ** -106]), 1 + 2 ** -52, 'above half way')
  assert.equal(sumOf([1, 2 ** -53]), 1, 'half way, to even')
  assert.equal(sumOf([1, 2 ** -53, -(2 ** -106)]), 1, 'below half way')
})

test('a sum does not depend on the order of numbers', () => {
  forAll(300, (random) => {
    const number = (): number =>
      (random.integer(2 ** 31) - 2 ** 30) *
      2 ** (random.integer(random.pick([4, 100, 900])) - random.pick([30, 60, 460]))
    const numbers = Array.from({ length: 1 + random.integer(40) }, number).filter(Number.isFinite)
    const other = [...numbers]
    for (let at = other.length - 1; at > 0; at--) {
      const to = random.integer(at + 1)
      ;[other[at], other[to]] = [other[to] as number, other[at] as number]
    }
    assert.equal(sumOf(other), sumOf(numbers))
  })
})

test('a product is added exactly', () => {
  const sum = new ExactSum()
  sum.addProduct(2 ** 53 - 1, 2 ** 53 - 1)
  sum.add(-(2 ** 106))
  sum.add(2 ** 54)
  assert.equal(sum.total, 1)
  forAll(300, (random) => {
    const [a, b] = [random.integer(2 ** 31) * 2 ** 20 + random.integer(2 ** 20), random.integer(2 ** 31) - 2 ** 30]
    const exact = new ExactSum()
    exact.addProduct(a, b / 2 ** 40)
    const rest = BigInt(a) * BigInt(b) - BigInt(Math.round(a * b))
    exact.add((-a * b) / 2 ** 40)
    assert.equal(exact.total, Number(rest) / 2 ** 40)
  })
})
