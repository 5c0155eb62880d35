import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ResponseCache } from '../../src/query/response-cache.ts'

const answer = (text: string) => ({ text, total: 1, link: undefined })

function ask(answers: ResponseCache, address: string, position: number, text: string, times = 2): void {
  for (let time = 0; time < times; time++) answers.note(address, position, answer(text))
}

test('a response is cached at the second request at one position, until the collection changes', () => {
  const answers = new ResponseCache(100_000)
  ask(answers, 'q', 5, 'a', 1)
  assert.equal(answers.find('q', 5), undefined)
  ask(answers, 'q', 5, 'a', 1)
  assert.equal(answers.find('q', 5)?.text, 'a')
  assert.equal(answers.find('other', 5), undefined)
  assert.equal(answers.find('q', 6), undefined)
  ask(answers, 'q', 6, 'b', 1)
  assert.equal(answers.find('q', 6), undefined, 'the first request at this position')
  ask(answers, 'q', 6, 'b', 1)
  assert.equal(answers.find('q', 6)?.text, 'b')
  assert.equal(answers.find('q', 5), undefined)
})

test('the least recently used response is evicted', () => {
  const answers = new ResponseCache(10_000)
  const text = 'x'.repeat(1000)
  for (const address of ['a', 'b', 'c', 'd']) ask(answers, address, 1, text)
  assert.equal(answers.find('a', 1)?.text, text)
  ask(answers, 'e', 1, text)
  const cached = ['a', 'b', 'c', 'd', 'e'].filter((address) => answers.find(address, 1))
  assert.deepEqual(cached, ['a', 'c', 'd', 'e'])
})

test('one-time queries evict a cached response only when there is no room for all', () => {
  const answers = new ResponseCache(100_000)
  ask(answers, 'q', 1, 'a')
  for (let n = 0; n < 100; n++) ask(answers, `once ${n}`, 1, 'x'.repeat(10_000), 1)
  assert.equal(answers.find('q', 1)?.text, 'a')
  for (let n = 0; n < 20; n++) ask(answers, `${n}${'x'.repeat(10_000)}`, 1, 'a', 1)
  assert.equal(answers.find('q', 1), undefined, 'long addresses count, too')
})

test('the cache has a size limit, and a response beyond it is never cached', () => {
  const bytes = 100_000
  const answers = new ResponseCache(bytes)
  const text = 'x'.repeat(1000)
  for (let n = 0; n < 300; n++) ask(answers, `q${n}`, 1, text)
  const cached = Array.from({ length: 300 }, (_, n) => `q${n}`).filter((address) => answers.find(address, 1))
  assert.equal(cached.at(-1), 'q299')
  assert.ok(cached.length > 30 && cached.length * 2 * text.length <= bytes, `${cached.length} were cached`)
  ask(answers, 'large', 1, 'x'.repeat(bytes))
  assert.equal(answers.find('large', 1), undefined)
  assert.equal(answers.find('q299', 1)?.text, text)
})
