import assert from 'node:assert/strict'
import { test } from 'node:test'
import { io } from 'socket.io-client'
import { once, within } from '../support/deadline.ts'
import { longValues } from '../support/long-items.ts'
import { startProbed } from '../support/probe.ts'
import { send, sendJson } from '../support/requests.ts'

/** The size of an item; up to Limits.BodyBytes. */
const BYTES = Number(process.env.LONG_ITEM_BYTES ?? 60_000)
const TIMES = Number(process.env.LONG_ITEM_TIMES ?? 2)
const SUBSCRIPTIONS = 100

const JSON_BODY = { 'Content-Type': 'application/json' }

test('a write of a huge item of any structure with a hundred subscriptions blocks the event loop about as long as any other', async (t) => {
  const { url, longestBlock } = await startProbed(t, { data: {}, flags: ['--Api.UpsertOnPut', 'true'] })
  const socket = io(url, { transports: ['websocket'], forceNew: true, reconnection: false })
  t.after(() => void socket.close())
  let changes = 0
  let told = (): void => {}
  socket.on('updated', () => told())
  socket.on('change', () => changes++)
  const slow = `${'a'.repeat(500)}b${'a'.repeat(7000)}`
  const queries = (n: number) => [`a=${n + 5}`, `a_gt=[[[${n}]]]`, `a_contains=${slow}${n}`, `q=zz${n}`, `a.b=${n}`]
  const writeBlocks = (path: string, body: string) =>
    longestBlock(async () => {
      const updated = new Promise<void>((resolve) => {
        told = resolve
      })
      assert.ok((await send(url, 'PUT', `${path}/0`, { body, headers: JSON_BODY })).status < 300)
      await within('the notification of the write', updated)
    }, TIMES)
  for (const [what, json] of Object.entries(longValues(BYTES))) {
    const body = `{"a":${json}}`
    for (const collection of ['deaf', what]) {
      await sendJson(url, 'PUT', `/api/${encodeURIComponent(collection)}/0`, { n: 1 })
    }
    for (let n = 0; n < SUBSCRIPTIONS; n++) {
      const query = queries(n)[n % 5]
      const answer = await within(
        'the response to a subscription',
        socket.emitWithAck('subscribe', { collection: what, query }),
      )
      assert.ok('subscription' in answer, JSON.stringify(answer))
    }
    const harmless = await writeBlocks('/api/deaf', body)
    const block = await writeBlocks(`/api/${encodeURIComponent(what)}`, body)
    assert.ok(block < 10 * harmless + 20, `${what}: ${block} ms, against ${harmless} ms`)
    socket.close()
    socket.connect()
    await once(socket, 'connect')
  }
  assert.ok(changes > 0, 'those whom it concerns were told')
})
