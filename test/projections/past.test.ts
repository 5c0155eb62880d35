import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DomainEvent } from '../../src/events/event.ts'
import type { Recorded } from '../../src/events/journal.ts'
import { Document } from '../../src/json/document.ts'
import { Past } from '../../src/projections/past.ts'
import { Views } from '../../src/projections/views.ts'
import { type CollectionSnapshot, itemsOf } from '../../src/query/collection-snapshot.ts'
import { project, storedHistory } from '../support/collections.ts'

/** A collection with one item, replaced `writes` times, whose journal is read no faster than it is let. */
function recorded(writes: number) {
  const records: Recorded[] = []
  const views = Views.temporary()
  const apply = (event: DomainEvent): void => {
    const origin = { actor: 'ada', requestId: 'r' }
    const one = { position: views.position + 1, time: '2026-11-21T12:00:00.000Z', ...origin, events: [event] }
    records.push(one)
    project(views, one)
  }
  apply({ type: 'CollectionCreated', collection: 'things' })
  for (let n = 0; n < writes; n++) {
    const item = Document.of({ id: 1, n })
    const stamp = { collection: 'things', id: 1, revision: n + 1, prior: n === 0 ? 0 : n + 1 }
    apply({ type: n === 0 ? 'ItemCreated' : 'ItemReplaced', ...stamp, item })
  }
  // Events before another order are folded.
  apply({ type: 'CollectionOrdered', collection: 'things', ids: [1] })
  const reading: (() => void)[] = []
  const journal = {
    async *read(from: number, to = records.length) {
      await new Promise<void>((resolve) => reading.push(resolve))
      yield* records.slice(from - 1, to)
    },
  }
  return { past: new Past(journal, views, storedHistory(views)), reading }
}

async function settled(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
}

/** The number in the one item. */
function numberIn(reading: CollectionSnapshot): unknown {
  const [item] = itemsOf(reading)
  return item?.value.n
}

const gone = { isGone: () => true }

test('past states are built two at a time, and each is right', async () => {
  const { past, reading } = recorded(10)
  const asked = [5, 3, 8, 2].map((at) => past.collection('things', at))
  let most = 0
  for (let made = 0; made < asked.length; made++) {
    await settled()
    most = Math.max(most, reading.length)
    reading.shift()?.()
  }
  const collections = await Promise.all(asked)
  assert.equal(most, 2)
  assert.deepEqual(collections.map(numberIn), [3, 1, 6, 0])
})

test('building a past state is skipped when all requests for it were aborted', async () => {
  const { past, reading } = recorded(10)
  const others = [2, 3].map((at) => past.collection('things', at))
  const givenUp = assert.rejects(past.collection('things', 5, gone), { code: 'Invalid', message: /went away/ })
  const first = past.collection('things', 6, gone)
  const second = past.collection('things', 6)
  for (let made = 0; made < 3; made++) {
    await settled()
    reading.shift()?.()
  }
  await Promise.all([...others, givenUp])
  assert.equal(numberIn(await second), 4)
  assert.equal(numberIn(await first), 4)
  assert.equal(reading.length, 0)
  const later = past.collection('things', 5)
  await settled()
  reading.shift()?.()
  assert.equal(numberIn(await later), 3, 'and whoever asks for it later is answered')
})

test('building a past state is aborted with its last request, and started again for a later one', async () => {
  const { past, reading } = recorded(10)
  let isGone = false
  const leaving = { isGone: () => isGone }
  let later: Promise<CollectionSnapshot> | undefined
  const askedAtOnce = () => {
    later ??= past.collection('things', 5)
  }
  const last = {
    isGone() {
      if (isGone) queueMicrotask(askedAtOnce)
      return isGone
    },
  }
  const both = [past.collection('things', 5, leaving), past.collection('things', 5, last)]
  const givenUp = both.map((one) => assert.rejects(one, { code: 'Invalid', message: /went away/ }))
  const other = past.collection('things', 6, leaving)
  const staying = past.collection('things', 6)
  await settled()
  isGone = true
  for (const go of reading.splice(0)) go()
  await Promise.all(givenUp)
  assert.equal(numberIn(await staying), 4)
  assert.equal(numberIn(await other), 4)
  await settled()
  assert.equal(reading.length, 1, 'it is read again')
  reading.shift()?.()
  assert.equal(numberIn((await later) as CollectionSnapshot), 3)
})
