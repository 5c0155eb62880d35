import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KeptAnswers } from '../../../src/projections/query/kept-answers.ts'

const OFTEN = 4
const answer = (text: string) => ({ text, total: 1, link: undefined })

function ask(answers: KeptAnswers, address: string, position: number, text: string, times = OFTEN): void {
  for (let time = 0; time < times; time++) answers.note(address, position, answer(text))
}

test('an answer is cached when it is asked for often at one position, and found until the collection changes', () => {
  const answers = new KeptAnswers(100_000)
  ask(answers, 'q', 5, 'a', OFTEN - 1)
  assert.equal(answers.find('q', 5), undefined)
  ask(answers, 'q', 5, 'a', 1)
  assert.equal(answers.find('q', 5)?.text, 'a')
  assert.equal(answers.find('other', 5), undefined)
  assert.equal(answers.find('q', 6), undefined)
  ask(answers, 'q', 6, 'b', OFTEN - 1)
  assert.equal(answers.find('q', 6), undefined, 'not often at this position')
  ask(answers, 'q', 6, 'b', 1)
  assert.equal(answers.find('q', 6)?.text, 'b')
  assert.equal(answers.find('q', 5), undefined)
})

test('queries that are asked now and then among many others are not cached', () => {
  const answers = new KeptAnswers(10_000_000)
  for (let time = 0; time < 10; time++) {
    for (let n = 0; n < 5000; n++) ask(answers, `q${n}`, 5, 'a', 1)
  }
  const cached = Array.from({ length: 5000 }, (_, n) => `q${n}`).filter((address) => answers.find(address, 5))
  assert.deepEqual(cached, [])
})

test('no more is cached than there is room for; an answer that is too large never is', () => {
  const bytes = 100_000
  const answers = new KeptAnswers(bytes)
  const text = 'x'.repeat(1000)
  let least = Number.POSITIVE_INFINITY
  let most = 0
  for (let n = 0; n < 300; n++) {
    ask(answers, `q${n}`, 1, text)
    const found = Array.from({ length: n + 1 }, (_, m) => answers.find(`q${m}`, 1)).filter((one) => one).length
    least = Math.min(least, found)
    most = Math.max(most, found)
  }
  assert.equal(least, 1, 'the last one always is')
  assert.ok(most > 30 && most * 2 * text.length <= bytes, `${most} were cached`)
  ask(answers, 'large', 1, 'x'.repeat(bytes))
  assert.equal(answers.find('large', 1), undefined)
})

test('long addresses count, too', () => {
  const answers = new KeptAnswers(100_000)
  ask(answers, 'q', 1, 'a')
  for (let n = 0; n < 20; n++) ask(answers, `${n}${'x'.repeat(10_000)}`, 1, 'a', 1)
  assert.equal(answers.find('q', 1), undefined)
})
