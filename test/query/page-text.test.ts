import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTick } from 'node:timers/promises'
import { Item } from '../../src/collections/item.ts'
import { Document } from '../../src/json/document.ts'
import { selectionOf } from '../../src/json/paths.ts'
import { LongText, pageText } from '../../src/query/page-text.ts'
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
