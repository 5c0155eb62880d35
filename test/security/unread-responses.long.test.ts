import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fetch, sleep, until } from '../support/deadline.ts'
import { startProbed } from '../support/probe.ts'
import { openClosing, openRaw } from '../support/raw.ts'
import { KOA_LINE } from '../support/requests.ts'

const MIB = 1024 * 1024
/** Requests that are sent on one connection, and whose responses are not read. */
const PIPELINED = Number(process.env.PIPELINED ?? 3000)
/** How often the memory is read while the server answers. Each time the server collects garbage first. */
const LOOKS = 20
/** Pages of 12 MB that are asked for and not read. */
const UNREAD_PAGES = Number(process.env.UNREAD_PAGES ?? 8)

/** The server disconnects clients that do not read for so long: longer than a busy machine stops a reader. */
const STALL_SECONDS = 8

const get = (path: string, fields = '') => `GET ${path} HTTP/1.1\r\nHost: localhost\r\n${fields}\r\n`
const KINDS: readonly (readonly [string, (n: number) => string])[] = [
  ['the description', () => get('/openapi.json')],
  ['a page, through the fast front', () => get('/api/things')],
  ['a page, through Koa', () => get('/api/things', `${KOA_LINE}\r\n`)],
  ['texts that are nowhere', (n) => get(`/api/things?q=zz${n}`)],
  ['a static file', () => get('/')],
  ['the handshake of Socket.IO', () => get('/socket.io/?EIO=4&transport=polling')],
]

test('pipelined requests whose responses are not read need little memory', async (t) => {
  const things = Array.from({ length: 50 }, (_, id) => ({ id, [`name${id}`]: id, text: 'x'.repeat(1000) }))
  const data = Object.fromEntries(Array.from({ length: 5 }, (_, n) => [`c${n}`, things]))
  const { url, memory } = await startProbed(t, { data: { ...data, things } })
  for (const [, request] of KINDS) await openRaw(t, url).then(({ socket }) => socket.end(request(0)))
  for (const [about, request] of KINDS) {
    const { socket } = await openRaw(t, url)
    socket.pause()
    const before = await memory()
    socket.write(Array.from({ length: PIPELINED }, (_, n) => request(n)).join(''))
    let most = 0
    for (let look = 0; look < LOOKS; look++) {
      await sleep(50)
      most = Math.max(most, await memory())
    }
    const grown = (most - before) / MIB
    t.diagnostic(`${about}: ${grown.toFixed(1)} MiB for ${PIPELINED} requests`)
    assert.ok(grown < 16, `${about} took ${grown} MiB`)
    assert.equal((await fetch(`${url}/api/things/7`)).status, 200)
    socket.destroy()
  }
})

test('a client that reads nothing is disconnected; one that reads slowly, or waits for events, is not', async (t) => {
  const things = Array.from({ length: 48 }, (_, id) => ({ id, text: 'x'.repeat(MIB / 4) }))
  const flags = ['--Limits.StallSeconds', `${STALL_SECONDS}`]
  const { url, memory } = await startProbed(t, { data: { things }, flags })
  const head = Number((await fetch(`${url}/api`)).headers.get('Journal-Position'))
  const streams = await Promise.all(
    ['text/event-stream', 'application/x-ndjson'].map(async (type) => {
      const stream = await openRaw(t, url)
      stream.socket.write(get(`/events?follow=true&from=${head + 1}`, `Accept: ${type}\r\n`))
      return stream
    }),
  )
  // The items that were read of late are kept.
  await (await fetch(`${url}/api/things`)).arrayBuffer()
  const before = await memory()
  const open = await openConnections(url)
  const unread = await Promise.all(
    Array.from({ length: UNREAD_PAGES }, async (_, n) => {
      const one = await openClosing(t, url)
      one.socket.pause()
      // No two ask for the same, and every other goes through Koa.
      one.socket.write(get(`/api/things?id_gte=-${n}`, n % 2 === 0 ? '' : `${KOA_LINE}\r\n`))
      return one
    }),
  )
  const slow = await openRaw(t, url)
  const began = performance.now()
  const reading = setInterval(() => slow.socket.resume(), 200).unref()
  slow.socket.on('data', () => slow.socket.bytesRead % (MIB / 4) < 64 * 1024 && slow.socket.pause())
  slow.socket.write(get('/api/things'))
  const response = await slow.next()
  clearInterval(reading)
  t.diagnostic(`the slow reader took ${Math.round(performance.now() - began)} ms`)
  assert.equal((JSON.parse(response?.body ?? '') as unknown[]).length, things.length)

  slow.socket.destroy()
  await until('the others were dropped', async () => (await openConnections(url)) <= open)
  const grown = (await memory()) - before
  assert.ok(grown < 8 * MIB, `${grown} bytes`)
  for (const { socket } of unread) {
    socket.resume()
    await until('its end', () => socket.closed)
    assert.ok(socket.bytesRead < 12 * MIB, `${socket.bytesRead} bytes`)
  }
  await fetch(`${url}/api/others`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{}' })
  for (const stream of streams) await until('the event', () => stream.rest.includes('ItemCreated'))
})

async function openConnections(url: string): Promise<number> {
  const metrics = await (await fetch(`${url}/metrics`)).text()
  return Number(/^recollect_connections (\d+)$/m.exec(metrics)?.[1])
}
