import assert from 'node:assert/strict'
import { test } from 'node:test'
import { RequestBatches } from '../../src/cluster/messenger.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { Histogram } from '../../src/runtime/histogram.ts'

interface Sent {
  readonly node: string
  readonly text: string
}

/** A batcher whose messages are answered with the requests themselves, except those to a node that fails. */
function asking(messageBytes: number): { readonly questions: RequestBatches; readonly sent: readonly Sent[] } {
  const sent: Sent[] = []
  const questions = new RequestBatches({
    messageBytes,
    perMessage: new Histogram([1]),
    send: async (node, text) => {
      sent.push({ node, text })
      if (text.includes('"fail"')) throw new Refusal('OutcomeUnknown', 'nobody heard of it')
      return text
    },
  })
  return { questions, sent }
}

test('requests that are forwarded in one tick share a message per node, and each gets its own response', async () => {
  const { questions, sent } = asking(1000)
  const answers = await Promise.all([
    questions.ask('a', '1'),
    questions.ask('b', '"2"'),
    questions.ask('a', '{"n":3}'),
    questions.sendAlone('a', '"alone"'),
    Promise.resolve().then(() => questions.ask('a', '4')),
  ])
  assert.deepEqual(answers, [1, '2', { n: 3 }, 'alone', 4])
  assert.deepEqual(sent, [
    { node: 'a', text: '["alone"]' },
    { node: 'a', text: '[1,{"n":3},4]' },
    { node: 'b', text: '["2"]' },
  ])
  await questions.ask('a', '5')
  assert.equal(sent.length, 4)
})

test('a message respects the size limit and the limit of requests per message', async () => {
  const { questions, sent } = asking(100)
  const texts = Array.from({ length: 300 }, (_, n) => JSON.stringify('ü'.repeat(n % 48)))
  const answers = await Promise.all(texts.map((text) => questions.ask('a', text)))
  assert.deepEqual(
    answers,
    texts.map((text) => JSON.parse(text)),
  )
  for (const { text } of sent) assert.ok(Buffer.byteLength(text) <= 100, text)
  assert.ok(questions.fits(JSON.stringify('ü'.repeat(48))))
  assert.ok(!questions.fits(JSON.stringify('ü'.repeat(49))))
  const small = asking(100_000)
  await Promise.all(texts.map(() => small.questions.ask('a', '0')))
  assert.deepEqual(
    small.sent.map(({ text }) => JSON.parse(text).length),
    [256, 44],
  )
})

test('a failed message fails its own requests and no others', async () => {
  const { questions } = asking(30)
  const outcomes = await Promise.allSettled(
    ['"in the first"', '"fail"', '"with it"', '"in the third one"'].map((text) => questions.ask('a', text)),
  )
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['rejected', 'rejected', 'fulfilled', 'fulfilled'],
  )
  const short = new RequestBatches({ messageBytes: 100, perMessage: new Histogram([1]), send: async () => '[1]' })
  const both = await Promise.allSettled([short.ask('a', '1'), short.ask('a', '2')])
  assert.deepEqual(
    both.map(({ status }) => status),
    ['rejected', 'rejected'],
    'it is not guessed whose answer is missing',
  )
})
