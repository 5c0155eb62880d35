import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { BulkCommand, Deletion } from '../../src/commands/command.ts'
import { checkKeys } from '../../src/commands/item-rules.ts'
import { latestItems } from '../../src/commands/latest-items.ts'
import type { Rules } from '../../src/commands/rules.ts'
import type { DomainEvent } from '../../src/events/event.ts'
import type { Origin } from '../../src/events/journal.ts'
import { Document } from '../../src/json/document.ts'
import type { JsonObject } from '../../src/json/value.ts'
import { Memory, MemoryBudget } from '../../src/runtime/memory.ts'
import { Turns } from '../../src/runtime/turns.ts'
import { accepted, RULES } from '../support/decider.ts'
import { diskWith, openTestEngine, SETTINGS } from '../support/engine.ts'

const MEMORY_BYTES = 200_000
const ITEMS = 5000
const LIMITS = { ...SETTINGS.limits, memoryBytes: MEMORY_BYTES }
const ORIGIN: Origin = { actor: 'ann', requestId: 'r' }
const UNPROCESSABLE = { code: 'Unprocessable', message: /does not fit into memory/ }

/** An engine whose collection `many` has more items than one write can change, and whose `few` has one. */
async function engineWithLittleMemory() {
  const many = Array.from({ length: ITEMS }, (_, id) => ({ id, sensor: id % 7 }))
  const disk = diskWith({ many, few: [{ id: 0 }] })
  return openTestEngine(disk.files(), { limits: LIMITS })
}

function batchOf(items: readonly JsonObject[], isLenient = false): BulkCommand {
  return { type: 'CreateItems', collection: 'few', items: items.map((item) => ({ item })), isLenient }
}

test('a write of more changes than fit into memory is refused, and writes nothing', async () => {
  const { engine, memory } = await engineWithLittleMemory()
  const { handler, journal } = engine
  const { head } = journal
  const texts = Array.from({ length: 100 }, () => ({ text: 'x'.repeat(2000) }))
  const bulk = (command: BulkCommand) => () => handler.bulk(command, ORIGIN)
  const remove = (deletion: Deletion) => () => handler.delete(deletion, ORIGIN, { isAtomic: true })
  const refused: readonly (() => Promise<unknown>)[] = [
    bulk(batchOf(texts)),
    bulk(batchOf(texts, true)),
    bulk(batchOf(Array(1000).fill({}))),
    remove({ type: 'DeleteItems', collection: 'many', filters: '' }),
    remove({ type: 'RemoveCollection', collection: 'many' }),
  ]
  for (const [index, write] of refused.entries()) {
    await assert.rejects(write(), UNPROCESSABLE, String(index))
    assert.equal(memory.held('writes'), 0)
  }
  assert.equal(journal.head, head)
  await handler.bulk(batchOf(texts.slice(0, 10)), ORIGIN)
  await handler.delete({ type: 'DeleteItems', collection: 'many', filters: 'id_lt=100' }, ORIGIN)
  assert.equal(memory.held('writes'), 0)
  await engine.close()
})

test('a restore of more changes than fit into memory is refused with the way to do it, and writes nothing', async () => {
  const { engine, memory } = await engineWithLittleMemory()
  const { handler, journal } = engine
  const { head } = journal
  const nothing = { type: 'collections', collections: new Map([['many', undefined]]) } as const
  const message = /Restore one collection after the other.*recollect replay --to/
  await assert.rejects(handler.restore(nothing, ORIGIN, false), { ...UNPROCESSABLE, message })
  const items = Array.from({ length: ITEMS }, (_, id) => ({ id, text: `{"id":${id}}` }))
  const others = { type: 'collections', collections: new Map([['few', { items: () => items }]]) } as const
  await assert.rejects(handler.restore(others, ORIGIN, true), UNPROCESSABLE)
  const memoryBytes = memory.bytes - 40_000
  const some = { items: () => items.slice(0, 1000), memoryBytes }
  const beside = { type: 'collections', collections: new Map([['few', some]]) } as const
  await assert.rejects(handler.restore(beside, ORIGIN, true), UNPROCESSABLE)
  assert.equal(journal.head, head)
  const few = { type: 'collections', collections: new Map([['few', undefined]]) } as const
  await handler.restore(few, ORIGIN, false)
  assert.equal(memory.held('restores'), 0)
  await engine.close()
})

test('a retry of a write is refused if its events do not fit into memory', async () => {
  const { engine, memory } = await engineWithLittleMemory()
  const command: Deletion = { type: 'DeleteItems', collection: 'many', filters: 'id_lt=300' }
  const origin = { ...ORIGIN, key: 'k', request: 'digest' }
  const first = await engine.handler.delete(command, origin)
  assert.deepEqual([first.deleted, first.ids.length], [300, 300])
  assert.deepEqual(await engine.handler.delete(command, origin), first)
  new Memory(memory, 'queries').hold(MEMORY_BYTES - 20_000)
  await assert.rejects(engine.handler.delete(command, origin), { code: 'Unavailable' })
  assert.equal(memory.held('writes'), 0)
  await engine.close()
})

test('writes that were refused while others held the memory succeed after these', async () => {
  const { engine, memory } = await engineWithLittleMemory()
  const other = new Memory(memory, 'queries')
  other.hold(MEMORY_BYTES - 1000)
  const batch = batchOf(Array(100).fill({}))
  await assert.rejects(engine.handler.bulk(batch, ORIGIN), { code: 'Unavailable' })
  await engine.handler.bulk(batchOf([{}]), ORIGIN)
  other.release()
  const { events } = await engine.handler.bulk(batch, ORIGIN)
  assert.equal(events.length, 100)
  await engine.close()
})

test('the latest items and the natural keys of a write take memory, too', async () => {
  const time = { path: ['time'], isTimeRequired: false, defaultsToReceipt: false, maxAheadMs: 0 }
  const rules: Rules = {
    ...RULES,
    times: new Map([['readings', time]]),
    latest: new Map([['readings', { in: 'sensors', by: ['sensor'] }]]),
    keyFields: new Map([['readings', { fields: [['sensor']], timePart: -1 }]]),
  }
  const events = Array.from({ length: 200 }, (_, id): DomainEvent => {
    const item = Document.of({ id, sensor: `s${id}`, time: '2025-01-01T00:00:00Z' })
    return { type: 'ItemCreated', collection: 'readings', id, revision: 1, prior: 0, item }
  })
  const turns = new Turns({ memory: new MemoryBudget(50_000), kind: 'writes' })
  const latest = (few: readonly DomainEvent[]) => turns.run((turn) => latestItems(few, accepted([]), rules, turn))
  const keys = (few: readonly DomainEvent[]) =>
    turns.run((turn) => checkKeys(few, accepted([]), rules, 'Conflict', turn))
  assert.equal((await latest(events.slice(0, 20))).length, 21)
  await assert.rejects(latest(events), UNPROCESSABLE)
  await keys(events.slice(0, 20))
  await assert.rejects(keys(events), UNPROCESSABLE)
})
