import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Item } from '../../../src/collections/item.ts'
import { Document } from '../../../src/json/document.ts'
import { answer } from '../../../src/projections/query/answer.ts'
import { parseParameters, parseQuery } from '../../../src/projections/query/query.ts'

const ITEMS = Array.from({ length: 10 }, (_, id) => new Item(id, Document.of({ id, text: 'x'.repeat(80) }), 1, id + 1))

function ask(search: string, most: number) {
  return answer(ITEMS, parseQuery(parseParameters(search, 10), { parameters: 10, pageSize: 100 }), most)
}

test('a page that no string could hold is refused, with what to do instead', () => {
  assert.throws(() => ask('', 500), { code: 'Invalid', message: /10 items .* 500 characters; ask for fewer/ })
  const { text, total } = ask('pageSize=4', 500)
  assert.equal((JSON.parse(text) as unknown[]).length, 4)
  assert.equal(total, 10)
  assert.ok(text.length <= 500)
  assert.equal(
    (JSON.parse(ask('fields=id', 500).text) as unknown[]).length,
    10,
    'what is asked for counts, not what there is',
  )
})
