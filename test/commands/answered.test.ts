import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Answered } from '../../src/commands/answered.ts'
import type { Recorded } from '../../src/events/journal.ts'

const DAY_MS = 24 * 60 * 60 * 1000
const MANY = 20_000

test('keys whose day ends together are forgotten a hundred at a time, and are of no use from then on', () => {
  const answered = new Answered()
  for (let position = 1; position <= MANY; position++) answered.apply(recorded(position, 0))
  answered.apply(recorded(MANY + 1, DAY_MS))
  assert.equal(remembered(answered), MANY + 1 - 100)
  assert.equal(answered.find({ actor: 'a', requestId: '', key: `key${MANY}` }, new Date(DAY_MS)), undefined)
  for (let more = 2; more <= MANY / 100; more++) answered.apply(recorded(MANY + more, DAY_MS))
  assert.equal(remembered(answered), MANY / 100)
})

function recorded(position: number, ms: number): Recorded {
  const time = new Date(ms).toISOString()
  const event = { type: 'CollectionCreated', collection: 'c' } as const
  return { position, time, actor: 'a', requestId: '', key: `key${position}`, request: 'hash', events: [event] }
}

function remembered(answered: Answered): number {
  let count = 0
  for (const { fields } of answered.save(Number.MAX_SAFE_INTEGER)) count += (fields.requests as unknown[]).length
  return count
}
