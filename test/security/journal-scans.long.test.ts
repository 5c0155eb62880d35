import assert from 'node:assert/strict'
import { type IncomingMessage, request } from 'node:http'
import { after, type TestContext, test } from 'node:test'
import { fetch, once, until } from '../support/deadline.ts'
import { startProbed } from '../support/probe.ts'

/** Events in the journal that is scanned. */
const EVENTS = Number(process.env.SCAN_EVENTS ?? 20_000)
const SCANS = 20
const FOLLOWERS = 60
const MIB = 1024 * 1024

const probed = await startProbed(
  { after },
  { data: { a: Array.from({ length: EVENTS }, (_, id) => ({ id, text: 'some text' })) } },
)

/** Opens a stream of events, of which nothing is read. */
async function ask(t: TestContext, url: string, accept: string, query = ''): Promise<IncomingMessage> {
  const asked = request(`${url}/events?follow=true${query}`, { headers: { Accept: accept }, agent: false }).end()
  t.after(() => asked.destroy())
  asked.on('error', () => {})
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  return answer.pause()
}

test('many concurrent searches of the whole journal are all answered', async () => {
  const search = async (): Promise<void> => {
    const answer = await fetch(`${probed.url}/events?actor=nobody`)
    assert.deepEqual(await answer.json(), [])
  }
  await Promise.all(Array.from({ length: SCANS }, search))
})

test('followers that do not read need little memory, and others are answered', async (t) => {
  await (await fetch(`${probed.url}/events?limit=500`)).arrayBuffer()
  const idle = await probed.memory()
  await Promise.all(Array.from({ length: FOLLOWERS }, () => ask(t, probed.url, 'text/event-stream')))
  for (let asked = 0; asked < 20; asked++) assert.equal((await fetch(`${probed.url}/api/a/${asked}`)).status, 200)
  const cost = (await probed.memory()) - idle
  t.diagnostic(`${Math.round(cost / 1024)} KiB`)
  assert.ok(cost < FOLLOWERS * MIB, `${Math.round(cost / MIB)} MiB`)
})

test('the event streams of an address are limited, and more get 429 until one ends', async (t) => {
  const own = await startProbed(t, { data: { a: [] }, flags: ['--Limits.StreamsPerAddress', '3'] })
  const forms = ['text/event-stream', 'application/x-ndjson', 'application/x-ndjson']
  // One that finds nothing to send must notice that its client has gone all the same.
  const opened = await Promise.all(forms.map((form) => ask(t, own.url, form, '&actor=nobody')))
  for (const { statusCode } of opened) assert.equal(statusCode, 200)
  for (const form of forms) {
    const refused = await fetch(`${own.url}/events?follow=true`, { headers: { Accept: form } })
    assert.equal(refused.status, 429)
    assert.ok(Number(refused.headers.get('Retry-After')) > 0)
    const { type, detail } = (await refused.json()) as { type: string; detail: string }
    assert.equal(type, 'urn:recollect:problem:TooManyRequests')
    assert.match(detail, /Limits\.StreamsPerAddress/)
  }
  assert.equal((await fetch(`${own.url}/events`)).status, 200, 'a page is no stream')
  for (const [index, answer] of opened.entries()) {
    answer.destroy()
    const again = await until('there is room again', async () => {
      const asked = await ask(t, own.url, forms[index] as string, '&actor=nobody')
      return asked.statusCode === 200 && asked
    })
    assert.equal(again.statusCode, 200)
  }
})
