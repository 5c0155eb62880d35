import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DecisionLock } from '../../src/commands/handler.ts'

/** Work that ends when the test says so. */
function held() {
  let end = (): void => {}
  const ended = new Promise<void>((resolve) => {
    end = resolve
  })
  return { work: () => ended, end }
}

test('a lock says who holds it, and is held by one after the other in their order', async () => {
  const lock = new DecisionLock()
  assert.deepEqual([lock.holder, lock.released], [undefined, undefined])
  const [restore, batch] = [held(), held()]
  const first = lock.hold('a restore', restore.work)
  assert.equal(lock.holder, 'a restore')
  const second = lock.hold('CreateItems', batch.work)
  assert.equal(lock.holder, 'a restore')
  restore.end()
  await first
  await new Promise<void>((resolve) => setImmediate(resolve))
  assert.equal(lock.holder, 'CreateItems')
  batch.end()
  await second
  assert.equal(lock.holder, undefined)
})

test('a lock that is released early is free, and stays that of its next holder', async () => {
  const lock = new DecisionLock()
  const [one, other] = [held(), held()]
  const first = lock.hold('one', async (release) => {
    release()
    await one.work()
  })
  assert.equal(lock.holder, undefined)
  const second = lock.hold('other', other.work)
  one.end()
  await first
  assert.equal(lock.holder, 'other')
  other.end()
  await second
})

test('a lock is released by work that fails', async () => {
  const lock = new DecisionLock()
  await assert.rejects(
    lock.hold('CreateItems', async () => {
      throw new Error('broken')
    }),
    /broken/,
  )
  assert.equal(lock.holder, undefined)
})
