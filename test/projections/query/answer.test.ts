import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Item } from '../../../src/collections/item.ts'
import { Document } from '../../../src/json/document.ts'
import { selectionOf } from '../../../src/json/paths.ts'
import { textOf } from '../../../src/projections/query/answer.ts'
import { Slices } from '../../../src/slices.ts'

const ITEMS = Array.from({ length: 10 }, (_, id) => new Item(id, Document.of({ id, text: 'x'.repeat(80) }), 1, id + 1))

const inSlices = new Slices()
const ask = async (items: readonly Item[], fields: string | undefined, most: number) =>
  inSlices.run(() => textOf(items, fields === undefined ? undefined : selectionOf([[fields]]), most))

test('a page that no string could hold is refused, with what to do instead', async () => {
  await assert.rejects(ask(ITEMS, undefined, 500), {
    code: 'Invalid',
    message: /10 items .* 500 characters; ask for fewer/,
  })
  const text = await ask(ITEMS.slice(0, 4), undefined, 500)
  assert.equal((JSON.parse(text) as unknown[]).length, 4)
  assert.ok(text.length <= 500)
  assert.equal(
    (JSON.parse(await ask(ITEMS, 'id', 500)) as unknown[]).length,
    10,
    'what is asked for counts, not what there is',
  )
})

test('a long page is put together in slices, and reads as a short one', async () => {
  const items = Array.from({ length: 5000 }, (_, id) => new Item(id, Document.of({ id }), 1, id + 1))
  assert.deepEqual(
    JSON.parse(await ask(items, undefined, 2 ** 28)),
    items.map(({ value }) => value),
  )
})
