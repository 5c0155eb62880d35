import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTick } from 'node:timers/promises'
import { Item } from '../../src/collections/item.ts'
import { Document } from '../../src/json/document.ts'
import { selectionOf } from '../../src/json/paths.ts'
import { LongText, pageText } from '../../src/query/page-text.ts'
import { ResponseCache } from '../../src/query/response-cache.ts'
import { ENDLESS } from '../../src/runtime/turns.ts'
import { whole } from '../support/api.ts'

const ITEMS = Array.from({ length: 10 }, (_, id) => new Item(id, Document.of({ id, text: 'x'.repeat(80) }), 1, id + 1))

const ask = (items: readonly Item[], fields: string | undefined, most: number) =>
  pageText(items, fields === undefined ? undefined : selectionOf([[fields]]), ENDLESS, most)

test('a page that exceeds the longest string is rejected with a hint', async () => {
  await assert.rejects(ask(ITEMS, undefined, 500), {
    code: 'Invalid',
    message: /10 items .* 500 characters; ask for fewer/,
  })
  const text = whole(await ask(ITEMS.slice(0, 4), undefined, 500))
  assert.equal((JSON.parse(text) as unknown[]).length, 4)
  assert.ok(text.length <= 500)
  assert.equal(
    (JSON.parse(whole(await ask(ITEMS, 'id', 500))) as unknown[]).length,
    10,
    'what is asked for counts, not what there is',
  )
})

test('a long page has all items', async () => {
  const items = Array.from({ length: 5000 }, (_, id) => new Item(id, Document.of({ id }), 1, id + 1))
  assert.deepEqual(
    JSON.parse(whole(await ask(items, undefined, 2 ** 28))),
    items.map(({ value }) => value),
  )
})

test('a very long page is sent in pieces of known length', async () => {
  for (const count of [1, 2, 3, 20, 21]) {
    const items = Array.from({ length: count }, (_, id) => {
      return new Item(id, Document.of({ id, text: 'ä'.repeat(100_000) }), 1, id + 1)
    })
    const text = await ask(items, undefined, 2 ** 28)
    assert.equal(whole(text), `[${items.map((item) => item.text).join(',')}]`)
    assert.equal(text instanceof LongText, count > 3)
    if (!(text instanceof LongText)) continue
    assert.equal(text.bytes, Buffer.byteLength(whole(text)))
    assert.ok(text.pieces.length >= count / 3, `${text.pieces.length} pieces of ${count} items`)
  }
})

test('a very long page leaves the event loop between its pieces, even to a reader without delay', async () => {
  const text = new LongText(['[1', ',2', ',3', ',4]'], 9)
  let read = ''
  const reading = (async () => {
    for await (const piece of text.inTurns()) read += piece
  })()
  for (const expected of ['[1', '[1,2', '[1,2,3']) {
    await Promise.resolve()
    assert.ok(read.length <= expected.length, `${read} was read before ${expected}`)
    await nextTick()
  }
  await reading
  assert.equal(read, '[1,2,3,4]')
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
