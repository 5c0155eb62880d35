import assert from 'node:assert/strict'
import { test } from 'node:test'
import { EventBus } from '../../src/engine/projections.ts'
import type { Projection } from '../../src/events/journal.ts'

test('projections see a write in the same order, whenever they were added: views, response, data file, notifications', () => {
  const seen: string[] = []
  const named = (name: string): Projection => ({ apply: () => seen.push(name) })
  const bus = new EventBus()
  bus.add({ arrivals: named('arrivals'), sockets: named('sockets') })
  bus.add({
    dataFile: named('dataFile'),
    handler: named('handler'),
    fieldList: named('fieldList'),
    queries: named('queries'),
  })
  bus.add({ views: named('views') })
  bus.publish({ position: 1, time: '2026-01-01T00:00:00.000Z', actor: 'a', requestId: 'r', events: [] })
  assert.deepEqual(seen, ['views', 'handler', 'dataFile', 'queries', 'fieldList', 'sockets', 'arrivals'])
})
