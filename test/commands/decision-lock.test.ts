import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DecisionLock } from '../../src/commands/handler.ts'

/** Work that begins when it has the lock, and ends when the test says so. */
class Work {
  begun = false
  end = (): void => {}
  readonly #ended = new Promise<void>((resolve) => {
    this.end = resolve
  })

  readonly run = (): Promise<void> => {
    this.begun = true
    return this.#ended
  }
}

test('a lock is held by one after the other in their order', async () => {
  const lock = new DecisionLock()
  assert.equal(lock.released, undefined)
  const [one, other] = [new Work(), new Work()]
  const first = lock.hold(one.run)
  const second = lock.hold(other.run)
  await new Promise<void>((resolve) => setImmediate(resolve))
  assert.deepEqual([one.begun, other.begun], [true, false])
  one.end()
  await first
  await new Promise<void>((resolve) => setImmediate(resolve))
  assert.equal(other.begun, true)
  assert.notEqual(lock.released, undefined)
  other.end()
  await second
  assert.equal(lock.released, undefined)
})

test('a lock that is released early is free, and stays that of its next holder', async () => {
  const lock = new DecisionLock()
  const [one, other] = [new Work(), new Work()]
  const first = lock.hold(async (release) => {
    release()
    await one.run()
  })
  assert.equal(lock.released, undefined)
  const second = lock.hold(other.run)
  assert.equal(other.begun, true)
  one.end()
  await first
  assert.notEqual(lock.released, undefined)
  other.end()
  await second
})

test('a lock is released by work that fails', async () => {
  const lock = new DecisionLock()
  const failing = lock.hold(async () => {
    throw new Error('broken')
  })
  await assert.rejects(failing, /broken/)
  assert.equal(lock.released, undefined)
})
