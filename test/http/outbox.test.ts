import assert from 'node:assert/strict'
import { test } from 'node:test'
import { outbox } from '../../src/http/fast-front.ts'

function simulated() {
  const sent: string[] = []
  const clock = { ms: 0 }
  const deliver = outbox(() => clock.ms)
  const add = (name: string): void => deliver(() => void sent.push(name))
  return { sent, clock, add }
}

const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

test('responses that are ready in one tick are sent together after it, in order', async () => {
  const { sent, add } = simulated()
  for (const name of ['a', 'b', 'c']) add(name)
  assert.deepEqual(sent, [])
  await nextTurn()
  assert.deepEqual(sent, ['a', 'b', 'c'])
  add('d')
  await nextTurn()
  assert.deepEqual(sent, ['a', 'b', 'c', 'd'])
})

test('a response does not wait for many slow ones, and each is sent once', async () => {
  const { sent, clock, add } = simulated()
  add('a')
  clock.ms = 1
  add('b')
  assert.deepEqual(sent, [])
  clock.ms = 1.1
  add('c')
  assert.deepEqual(sent, ['a', 'b', 'c'])
  add('d')
  clock.ms = 2
  add('e')
  assert.deepEqual(sent, ['a', 'b', 'c'])
  await nextTurn()
  assert.deepEqual(sent, ['a', 'b', 'c', 'd', 'e'])
})
