import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { collectionOf } from '../support/collections.ts'
import { until } from '../support/deadline.ts'

test('a snapshot that is never closed is released by garbage collection', async () => {
  const { views } = collectionOf([{ n: 1 }])
  const pinned = (): number => [...views.store.versions.pinned].length
  views.snapshot()
  assert.equal(pinned(), 1)
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  await until('the pin is released', () => {
    collectGarbage()
    return pinned() === 0
  })
})
