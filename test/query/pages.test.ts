import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Item } from '../../src/collections/item.ts'
import { Document } from '../../src/json/document.ts'
import { pageOfItems, pageOfTexts } from '../../src/query/page.ts'
import { ResponseCache } from '../../src/query/response-cache.ts'
import { ENDLESS } from '../../src/runtime/turns.ts'

const itemsOf = (count: number, text: string): readonly Item[] =>
  Array.from({ length: count }, (_, id) => new Item(id, Document.of({ id, text }), 1, id + 1))

test('the items of a page are read in parts, none of which has many or is long', async () => {
  for (const [count, length, most] of [
    [1000, 1, 256],
    [40, 50_000, 3],
    [3, 1_000_000, 1],
  ] as const) {
    const items = itemsOf(count, 'x'.repeat(length))
    const places = items.map((_, place) => place)
    const itemAt = (place: number): Item | undefined => items[place]
    for (const page of [pageOfItems({ itemAt }, places, count, undefined), pageOfTexts(items, count)]) {
      for (const next of [page.open(), page.open()]) {
        const read: string[] = []
        for (let part = await next(ENDLESS); part; part = await next(ENDLESS)) {
          assert.ok(part.length <= most, `${part.length} items of ${length} characters`)
          read.push(...part.map(({ text }) => text))
        }
        assert.deepEqual(
          read,
          items.map(({ text }) => text),
        )
      }
    }
  }
})

test('a page counts the memory of its rows, and little for items that are read later', () => {
  const items = itemsOf(100, 'x'.repeat(1000))
  const places = items.map((_, place) => place)
  assert.ok(pageOfTexts(items, 100).bytes > 100 * 1000)
  assert.ok(pageOfItems({ itemAt: (place) => items[place] }, places, 100, undefined).bytes < 100 * 100)
})

const answer = (text: string) => ({ text, total: 1, link: undefined })

function askFor(answers: ResponseCache, address: string, position: number, text: string, times = 2): void {
  for (let time = 0; time < times; time++) answers.note(address, position, answer(text))
}

test('a response is cached at the second request at one position, until the collection changes', () => {
  const answers = new ResponseCache(100_000)
  askFor(answers, 'q', 5, 'a', 1)
  assert.equal(answers.find('q', 5), undefined)
  askFor(answers, 'q', 5, 'a', 1)
  assert.equal(answers.find('q', 5)?.text, 'a')
  assert.equal(answers.find('other', 5), undefined)
  assert.equal(answers.find('q', 6), undefined)
  askFor(answers, 'q', 6, 'b', 1)
  assert.equal(answers.find('q', 6), undefined, 'the first request at this position')
  askFor(answers, 'q', 6, 'b', 1)
  assert.equal(answers.find('q', 6)?.text, 'b')
  assert.equal(answers.find('q', 5), undefined)
})

test('the least recently used response is evicted', () => {
  const answers = new ResponseCache(10_000)
  const text = 'x'.repeat(1000)
  for (const address of ['a', 'b', 'c', 'd']) askFor(answers, address, 1, text)
  assert.equal(answers.find('a', 1)?.text, text)
  askFor(answers, 'e', 1, text)
  const cached = ['a', 'b', 'c', 'd', 'e'].filter((address) => answers.find(address, 1))
  assert.deepEqual(cached, ['a', 'c', 'd', 'e'])
})

test('one-time queries evict a cached response only when there is no room for all', () => {
  const answers = new ResponseCache(100_000)
  askFor(answers, 'q', 1, 'a')
  for (let n = 0; n < 100; n++) askFor(answers, `once ${n}`, 1, 'x'.repeat(10_000), 1)
  assert.equal(answers.find('q', 1)?.text, 'a')
  for (let n = 0; n < 20; n++) askFor(answers, `${n}${'x'.repeat(10_000)}`, 1, 'a', 1)
  assert.equal(answers.find('q', 1), undefined, 'long addresses count, too')
})

test('the cache has a size limit, and a response beyond it is never cached', () => {
  const bytes = 100_000
  const answers = new ResponseCache(bytes)
  const text = 'x'.repeat(1000)
  for (let n = 0; n < 300; n++) askFor(answers, `q${n}`, 1, text)
  const cached = Array.from({ length: 300 }, (_, n) => `q${n}`).filter((address) => answers.find(address, 1))
  assert.equal(cached.at(-1), 'q299')
  assert.ok(cached.length > 30 && cached.length * 2 * text.length <= bytes, `${cached.length} were cached`)
  askFor(answers, 'large', 1, 'x'.repeat(bytes))
  assert.equal(answers.find('large', 1), undefined)
  assert.equal(answers.find('q299', 1)?.text, text)
})
