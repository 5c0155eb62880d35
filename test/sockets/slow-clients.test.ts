import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { WebSocket } from 'ws'
import { SlowClients, WAITING_BYTES } from '../../src/sockets/slow-clients.ts'

/** A client whose kernel has not accepted so many bytes yet, checked after so many milliseconds. */
function simulated(stallMs: number) {
  let now = 0
  const clients = new SlowClients(stallMs, () => now)
  const handle = { writeQueueSize: 0 }
  const client = { _socket: { _handle: handle } } as unknown as WebSocket
  clients.add({ queuedBytes: () => 0, webSocket: () => client, terminate: () => {} })
  return (afterMs: number, bytes: number): boolean => {
    now += afterMs
    handle.writeQueueSize = bytes
    clients.dropStalled()
    return clients.dropped > 0
  }
}

test('a client that reads nothing of a long response for the configured time is stalled', () => {
  const isStalledAfter = simulated(2000)
  assert.equal(isStalledAfter(0, 2 * WAITING_BYTES), false)
  assert.equal(isStalledAfter(1999, 2 * WAITING_BYTES), false)
  assert.equal(isStalledAfter(1, 2 * WAITING_BYTES), true)
})

test('a client that reads a long response slowly is not stalled, however long that takes', () => {
  const isStalledAfter = simulated(2000)
  for (let left = 100; left > 1; left--) assert.equal(isStalledAfter(1999, left * WAITING_BYTES), false)
})

test('a client with little unread is not stalled', () => {
  const isStalledAfter = simulated(2000)
  for (let look = 0; look < 10; look++) assert.equal(isStalledAfter(2000, WAITING_BYTES), false)
})
