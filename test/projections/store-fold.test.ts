import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Views } from '../../src/projections/views.ts'
import { recordOf } from '../support/collections.ts'
import { begun, created, deleted } from '../support/decider.ts'

/** Views with so many items, and the deletion of all of them in one write. */
function deletionOf(items: number): { readonly views: Views; readonly put: void | Promise<void> } {
  const views = Views.temporary()
  const ids = Array.from({ length: items }, (_, id) => id)
  views.replay(recordOf(1, [begun, ...ids.map((id) => created({ id }))]))
  views.replayed()
  const events = ids.map((id) => deleted(id, { revision: 2, prior: id + 2 }))
  return { views, put: views.put([recordOf(items + 2, events)]) }
}

test('readers see the state before a write that only just takes several transactions', async () => {
  let [low, high] = [1, 10_000]
  while (low < high) {
    const middle = (low + high) >>> 1
    const { put } = deletionOf(middle)
    if (put) high = middle
    else low = middle + 1
    await put
  }
  const { views, put } = deletionOf(low)
  assert.ok(put, 'it takes several transactions')
  assert.equal(views.find('things')?.item('0')?.text, '{"id":0}')
  assert.equal(views.find('things')?.item(String(low - 1))?.text, `{"id":${low - 1}}`)
  await put
  views.apply()
  assert.equal(views.find('things')?.size, 0)
})
