import assert from 'node:assert/strict'
import { test } from 'node:test'
import { IdempotencyKeys } from '../../src/commands/idempotency-keys.ts'
import { positioned, type Recorded } from '../../src/events/journal.ts'
import { prefixEnd, TAG, tableKey } from '../../src/store/keys.ts'
import { Store } from '../../src/store/store.ts'

const DAY_MS = 24 * 60 * 60 * 1000
const MANY = 5000

test('idempotency keys that expire together are removed a hundred at a time, and are ignored at once', () => {
  const store = Store.temporary()
  const keys = new IdempotencyKeys(store)
  const write = (...writes: readonly Recorded[]): void =>
    store.transaction(() => {
      for (const recorded of writes) put(keys, recorded)
    })
  write(...Array.from({ length: MANY }, (_, index) => recorded(index + 1, 0)))
  write(recorded(MANY + 1, DAY_MS))
  assert.equal(remembered(store), MANY + 1 - 100)
  assert.equal(keys.find({ actor: 'a', requestId: '', key: `key${MANY}` }, new Date(DAY_MS)), undefined)
  for (let more = 2; more <= MANY / 100; more++) write(recorded(MANY + more, DAY_MS))
  assert.equal(remembered(store), MANY / 100)
})

test('an idempotency key that is used again after a day is a new one', () => {
  const store = Store.temporary()
  const keys = new IdempotencyKeys(store)
  const at = (position: number, ms: number) => ({ ...recorded(position, ms), key: 'k', request: `at ${ms}` })
  store.transaction(() => put(keys, at(1, 0)))
  store.transaction(() => put(keys, at(2, DAY_MS)))
  store.transaction(() => put(keys, recorded(3, DAY_MS + 1)))
  const found = keys.find({ actor: 'a', requestId: '', key: 'k' }, new Date(2 * DAY_MS - 1))
  assert.deepEqual(found, { request: `at ${DAY_MS}`, position: 2 })
})

function put(keys: IdempotencyKeys, recorded: Recorded): void {
  for (const [position, event] of positioned(recorded)) keys.store(event, position, recorded)
}

function recorded(position: number, ms: number): Recorded {
  const time = new Date(ms).toISOString()
  const event = { type: 'CollectionCreated', collection: 'c' } as const
  return { position, time, actor: 'a', requestId: '', key: `key${position}`, request: 'hash', events: [event] }
}

function remembered(store: Store): number {
  const [byKey, byTime] = [TAG.request, TAG.requestTime].map((tag) => {
    const prefix = tableKey(tag, 0)
    return store.rows(prefix, prefixEnd(prefix)).length
  })
  assert.equal(byKey, byTime)
  return byKey as number
}
