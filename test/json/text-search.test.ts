import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contains, containsFolded, fold } from '../../src/json/text-search.ts'
import { atOnce } from '../../src/runtime/time-slices.ts'
import { forAll, type Random } from '../support/random.ts'

/** A text of few letters, with many repetitions. */
function text(random: Random, length: number, letters: readonly string[]): string {
  const words = Array.from({ length: 8 }, () => Array.from({ length: random.integer(60) }, () => random.pick(letters)))
  const pieces: string[] = [random.pick(letters)]
  for (let made = 1; made < length; made += pieces.at(-1)?.length ?? 0) pieces.push(random.pick(words).join('') || 'a')
  return pieces.join('').slice(0, length)
}

const isIn = (whole: string, wanted: string) => atOnce(contains(whole, wanted))

test('a substring of a long text is found, wherever it begins', () => {
  forAll(60, (random) => {
    const letters = random.pick([
      ['a', 'b'],
      ['a', 'a', 'a', 'b'],
      ['a', 'ä', '\u{1f600}'],
    ])
    const whole = text(random, 70_000 + random.integer(130_000), letters)
    const from = random.integer(whole.length)
    const wanted = whole.slice(from, from + random.pick([1, 20, 500, 8000]))
    assert.ok(isIn(whole, wanted), `${wanted.length} from ${from}`)
    const changed = `${wanted.slice(0, -1)}${random.pick(letters)}`
    assert.equal(isIn(whole, changed), whole.includes(changed))
    const other = text(random, random.pick([2, 15, 40]), letters)
    assert.equal(isIn(whole, other), whole.includes(other))
  })
  assert.ok(isIn('', ''))
  assert.ok(!isIn('abc', 'abcd'))
})

test('a long text is searched case-insensitively like a short one, also across its pieces', () => {
  const letters = ['a', 'A', 'σ', 'ς', 'Σ', 'ß', 'İ', '\u{10400}', '\u{10428}', '\ud83d', 'K']
  forAll(40, (random) => {
    const whole = text(random, random.pick([100, 65_535, 65_536, 65_537, 140_000]), letters)
    const folded = fold(whole)
    const from = random.pick([0, 65_530, folded.length - 20, random.integer(folded.length)])
    const there = folded.slice(from, from + 1 + random.integer(30))
    const other = fold(text(random, 1 + random.integer(8), letters))
    assert.equal(atOnce(containsFolded(whole, [other, there])), folded.includes(other) || folded.includes(there))
    assert.equal(atOnce(containsFolded(whole, [other])), folded.includes(other))
  })
})
