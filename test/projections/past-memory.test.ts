import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Past } from '../../src/projections/past.ts'
import { itemsOf } from '../../src/query/collection-snapshot.ts'
import { Memory, MemoryBudget } from '../../src/runtime/memory.ts'
import { CollectionWriter, storedHistory } from '../support/collections.ts'

const ITEMS = 100
const BEFORE = ITEMS + 1

/** A collection whose items were all changed after the position BEFORE. */
function changedCollection(bytes: number) {
  const writer = new CollectionWriter()
  const history = storedHistory(writer.views)
  for (const n of [1, 2]) writer.putAll(Array.from({ length: ITEMS }, (_, id) => ({ id, n, text: 'x'.repeat(1000) })))
  const memory = new MemoryBudget(bytes)
  const past = new Past(writer.journal, writer.views, history, memory)
  /** Reads the state, and checks it. */
  const read = async () => {
    const state = await past.collection('things', BEFORE)
    assert.deepEqual(
      Array.from(itemsOf(state), ({ id, value }) => [id, value.n]),
      Array.from({ length: ITEMS }, (_, id) => [id, 1]),
    )
    return state
  }
  return { memory, read }
}

test('a past state holds memory while it is read, and while it is cached until others need it', async () => {
  const { memory, read } = changedCollection(1_000_000)
  const state = await read()
  const held = memory.held('past')
  assert.ok(held > 1000 * ITEMS)
  const other = new Memory(memory, 'queries')
  assert.throws(() => other.hold(950_000), { code: 'Unavailable' }, 'it is being read')
  state.release()
  assert.equal(memory.held('past'), held)
  const again = await read()
  assert.equal(memory.held('past'), held, 'it was cached')
  again.release()
  other.hold(950_000)
  assert.equal(memory.held('past'), 0)
})

test('a past state that does not fit into memory is folded on disk', async () => {
  const { memory, read } = changedCollection(50_000)
  const state = await read()
  assert.equal(memory.held('past'), 0)
  state.release()
})

test('a past state is Unavailable while others hold the memory', async () => {
  const { memory, read } = changedCollection(1_000_000)
  const others = new Memory(memory, 'queries')
  others.hold(950_000)
  await assert.rejects(read(), { code: 'Unavailable' })
  assert.equal(memory.held('past'), 0)
  others.release()
  const state = await read()
  state.release()
})
