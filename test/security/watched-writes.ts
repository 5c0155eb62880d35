import assert from 'node:assert/strict'
import { io } from 'socket.io-client'
import { once, within } from '../support/deadline.ts'
import type { Scope } from '../support/directory.ts'
import { send, sendJson } from '../support/requests.ts'

const SUBSCRIPTIONS = 100
const JSON_BODY = { 'Content-Type': 'application/json' }

/** Two writes of an item whose field `a` is huge; each ends when everybody is told. */
export interface WatchedWrites {
  /** To the collection with the subscriptions. */
  readonly watched: () => Promise<void>
  /** To a collection without any. */
  readonly deaf: () => Promise<void>
  /** How often a subscription was told of a change. */
  changes(): number
}

/** Subscribes a hundred times to a collection; `json` is the huge value. */
export async function watchedWrites(t: Scope, url: string, collection: string, json: string): Promise<WatchedWrites> {
  const socket = io(url, { transports: ['websocket'], forceNew: true, reconnection: false })
  t.after(async () => socket.close())
  let changes = 0
  socket.on('change', () => changes++)
  const slow = `ab${'a'.repeat(190)}`
  const queries = (n: number) => [`a=${n + 5}`, `a_gt=[[[${n}]]]`, `a_contains=${slow}${n}`, `q=zz${n}`, `a.b=${n}`]
  for (const one of ['deaf', collection]) await sendJson(url, 'PUT', `/api/${encodeURIComponent(one)}/0`, { n: 1 })
  for (let n = 0; n < SUBSCRIPTIONS; n++) {
    const subscribing = socket.emitWithAck('subscribe', { collection, query: queries(n)[n % 5] })
    const answer = await within('the response to a subscription', subscribing)
    assert.ok('subscription' in answer, JSON.stringify(answer))
  }
  const writeTo = (one: string) => async () => {
    const updated = once(socket, 'updated')
    const path = `/api/${encodeURIComponent(one)}/0`
    assert.ok((await send(url, 'PUT', path, { body: `{"a":${json}}`, headers: JSON_BODY })).status < 300)
    await updated
  }
  return { watched: writeTo(collection), deaf: writeTo('deaf'), changes: () => changes }
}
