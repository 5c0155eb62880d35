import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KeptAnswers } from '../../../src/projections/query/kept-answers.ts'

type Answers = KeptAnswers<{ position: number }>

const OFTEN = 4
const answer = (text: string) => ({ text, total: 1, link: undefined })

function ask(answers: Answers, key: string, collection: { position: number }, text: string, times = OFTEN): void {
  for (let time = 0; time < times; time++) answers.note(collection, key, collection.position, answer(text))
}

test('an answer is kept when it is asked for often at one position, and found until the collection changes', () => {
  const answers: Answers = new KeptAnswers(100_000)
  const collection = { position: 5 }
  ask(answers, 'q', collection, 'a', OFTEN - 1)
  assert.equal(answers.find(collection, 'q'), undefined)
  ask(answers, 'q', collection, 'a', 1)
  assert.equal(answers.find(collection, 'q')?.text, 'a')
  assert.equal(answers.find({ position: 5 }, 'q'), undefined, 'of another collection')
  collection.position = 6
  assert.equal(answers.find(collection, 'q'), undefined)
  ask(answers, 'q', collection, 'b', OFTEN - 1)
  assert.equal(answers.find(collection, 'q'), undefined, 'not often at this position')
  ask(answers, 'q', collection, 'b', 1)
  assert.equal(answers.find(collection, 'q')?.text, 'b')
})

test('what is asked now and then among many others is not kept', () => {
  const answers: Answers = new KeptAnswers(100_000)
  const collection = { position: 5 }
  for (let time = 0; time < 10; time++) {
    for (let n = 0; n < 5000; n++) ask(answers, `q${n}`, collection, 'a', 1)
  }
  const kept = Array.from({ length: 5000 }, (_, n) => `q${n}`).filter((key) => answers.find(collection, key))
  assert.deepEqual(kept, [])
})

test('an answer that was found while the collection changed is not taken for one of now', () => {
  const answers: Answers = new KeptAnswers(100_000)
  const collection = { position: 7 }
  for (let time = 0; time < OFTEN; time++) answers.note(collection, 'q', 6, answer('old'))
  assert.equal(answers.find(collection, 'q'), undefined)
})

test('no more is kept than there is room for; what is too large never is', () => {
  const bytes = 100_000
  const answers: Answers = new KeptAnswers(bytes)
  const collections = Array.from({ length: 3 }, () => ({ position: 1 }))
  const text = 'x'.repeat(1000)
  let least = Number.POSITIVE_INFINITY
  let most = 0
  for (let n = 0; n < 300; n++) {
    ask(answers, `q${n}`, collections[n % 3] as { position: number }, text)
    const kept = Array.from({ length: n + 1 }, (_, m) =>
      answers.find(collections[m % 3] as { position: number }, `q${m}`),
    )
    const found = kept.filter((one) => one !== undefined).length
    least = Math.min(least, found)
    most = Math.max(most, found)
  }
  assert.equal(least, 1, 'the last one always is')
  assert.ok(most > 30 && most * 2 * text.length <= bytes, `${most} were kept`)
  const [collection] = collections as [{ position: number }]
  ask(answers, 'large', collection, 'x'.repeat(bytes))
  assert.equal(answers.find(collection, 'large'), undefined)
})
