import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { io, type ManagerOptions, type Socket, type SocketOptions } from 'socket.io-client'
import { authentication, basic, keyOf, passwordOf, tokenOf } from '../support/authentication.ts'
import { once, until, within } from '../support/deadline.ts'
import { json, startProgram } from '../support/server.ts'
import { startRestartable } from './restarts.ts'

type Options = Partial<ManagerOptions & SocketOptions>

interface Updated {
  readonly method: string
  readonly path: string
  readonly collection: string
  readonly itemId: unknown
  readonly position: number
}

interface Change {
  readonly subscription: string
  readonly position: number
  readonly kind: 'enter' | 'update' | 'leave'
  readonly id: unknown
  readonly item?: object
}

interface Answer {
  readonly subscription: string
  readonly journal: string
  readonly position: number
  readonly items?: readonly object[]
  readonly error?: string
}

/** The ways to connect: first polling and then an upgrade, as is the default, and each transport alone. */
const WAYS: readonly Options[] = [{}, { transports: ['websocket'] }, { transports: ['polling'] }]

const DATA = {
  sensors: [
    { id: 1, battery: 2900 },
    { id: 2, battery: 3100 },
  ],
}
const shared = await startProgram({ after }, { data: DATA })

function open(t: TestContext, url: string, options: Options = {}): Socket {
  const socket = io(url, options)
  t.after(async () => socket.close())
  return socket
}

/** The messages of one name so far. */
function messagesOf<T>(socket: Socket, name: string): readonly T[] {
  const messages: T[] = []
  socket.on(name, (message: T) => messages.push(message))
  return messages
}

for (const options of WAYS) {
  const way = options.transports?.join() ?? 'an upgrade'

  test(`a Socket.IO client that connects by ${way} is notified of each write`, async (t) => {
    const { url, fetch } = await startProgram(t, { data: DATA })
    const socket = open(t, url, options)
    const told = messagesOf<Updated>(socket, 'updated')
    await once(socket, 'connect')
    await fetch('/api/sensors', json('POST', { battery: 1 }))
    await fetch('/api/sensors/1', json('PATCH', { battery: 2 }))
    await fetch('/api/sensors/2', { method: 'DELETE' })
    await until('three notifications', () => told.length >= 3)
    const of = (method: string, itemId: number, position: number): Updated => ({
      method,
      path: `/api/sensors/${itemId}`,
      collection: 'sensors',
      itemId,
      position,
    })
    assert.deepEqual(told, [of('POST', 3, 4), of('PATCH', 1, 5), of('DELETE', 2, 6)])
    const expected = options.transports?.[0] ?? 'websocket'
    await until(`the transport ${expected}`, () => socket.io.engine.transport.name === expected)
  })

  test(`a Socket.IO client that connects by ${way} subscribes to the items of a query`, async (t) => {
    const { url, fetch } = await startProgram(t, { data: DATA })
    const socket = open(t, url, options)
    const changes = messagesOf<Change>(socket, 'change')
    const request = { collection: 'sensors', query: 'battery_lt=3000' }
    const answer: Answer = await within('the response to subscribe', socket.emitWithAck('subscribe', request))
    assert.deepEqual(answer.items, [{ id: 1, battery: 2900 }])
    await fetch('/api/sensors/2', json('PATCH', { battery: 2800 }))
    await fetch('/api/sensors/2', json('PATCH', { battery: 2700 }))
    await fetch('/api/sensors/1', json('PATCH', { battery: 3000 }))
    await until('three changes', () => changes.length >= 3)
    const { subscription, position } = answer
    assert.deepEqual(changes, [
      { subscription, position: position + 1, kind: 'enter', id: 2, item: { id: 2, battery: 2800 } },
      { subscription, position: position + 2, kind: 'update', id: 2, item: { id: 2, battery: 2700 } },
      { subscription, position: position + 3, kind: 'leave', id: 1 },
    ])
    const ended = await within('the response to unsubscribe', socket.emitWithAck('unsubscribe', { subscription }))
    assert.deepEqual(ended, { ended: true })
  })
}

test('a Socket.IO client gets the answer of a subscription in a callback, with its timeout', async (t) => {
  const socket = open(t, shared.url)
  const answered = new Promise<Answer>((resolve, reject) => {
    socket.timeout(60_000).emit('subscribe', { collection: 'sensors' }, (error: Error | null, answer: Answer) => {
      if (error) reject(error)
      else resolve(answer)
    })
  })
  assert.deepEqual((await within('the callback', answered)).items, DATA.sensors)
})

test('a Socket.IO client gets an error in the answer to a malformed subscription', async (t) => {
  const socket = open(t, shared.url)
  const answer: Answer = await within('the response', socket.emitWithAck('subscribe', { query: 'a=1' }))
  assert.equal(answer.error, 'Invalid')
})

for (const options of WAYS) {
  const way = options.transports?.join() ?? 'an upgrade'

  test(`a Socket.IO client that connects by ${way} reconnects after a restart, and resumes a subscription`, async (t) => {
    const server = await startRestartable(t, DATA)
    const socket = open(t, server.url, options)
    const changes = messagesOf<Change>(socket, 'change')
    const told = messagesOf<Updated>(socket, 'updated')
    const request = { collection: 'sensors', query: 'battery_lt=3000' }
    const { journal, position }: Answer = await within('a response', socket.emitWithAck('subscribe', request))
    const disconnected = once(socket, 'disconnect')
    await server.stop()
    await disconnected
    const connected = once(socket, 'connect')
    await server.start()
    await server.fetch('/api/sensors/2', json('PATCH', { battery: 2800 }))
    await connected
    const resumed = { ...request, after: position, journal }
    const answer: Answer = await within('the response after the restart', socket.emitWithAck('subscribe', resumed))
    assert.equal(answer.items, undefined)
    await server.fetch('/api/sensors/1', { method: 'DELETE' })
    await until('the changes', () => changes.length >= 2)
    assert.deepEqual(
      changes.map(({ kind, id }) => [kind, id]),
      [
        ['enter', 2],
        ['leave', 1],
      ],
    )
    await until('a notification', () => told.at(-1)?.method === 'DELETE')
  })
}

test('a Socket.IO client that is disconnected by its own will gets nothing more', async (t) => {
  const { url, fetch } = await startProgram(t, { data: DATA })
  const [socket, other] = [open(t, url, { forceNew: true }), open(t, url, { forceNew: true })]
  const [told, toldToOther] = [messagesOf(socket, 'updated'), messagesOf(other, 'updated')]
  await Promise.all([once(socket, 'connect'), once(other, 'connect')])
  socket.disconnect()
  await fetch('/api/sensors/1', { method: 'DELETE' })
  await until('the notification of the other client', () => toldToOther.length === 1)
  assert.equal(told.length, 0)
  assert.equal(socket.active, false)
})

test('a Socket.IO client authenticates with auth, or with headers', async (t) => {
  const { url } = await startProgram(t, { data: DATA, flags: authentication(['apikey', 'basic']) })
  const accepted: readonly Options[] = [
    { auth: { apiKey: keyOf('reader') } },
    { auth: (callback) => callback({ username: 'reader', password: passwordOf('reader') }) },
    { extraHeaders: { 'X-API-KEY': keyOf('reader') } },
    { extraHeaders: { Authorization: basic('reader', passwordOf('reader')) }, transports: ['websocket'] },
  ]
  for (const options of accepted) {
    const socket = open(t, url, { ...options, forceNew: true })
    const answer: Answer = await within('a response', socket.emitWithAck('subscribe', { collection: 'sensors' }))
    assert.deepEqual(answer.items, DATA.sensors)
  }
})

test('a Socket.IO client without valid credentials gets connect_error', async (t) => {
  const { url } = await startProgram(t, { data: DATA, flags: authentication(['apikey']) })
  const socket = open(t, url, { auth: { apiKey: 'wrong' } })
  const [error] = await once(socket, 'connect_error')
  assert.equal(error.message, 'Unauthenticated')
  assert.equal(socket.connected, false)
})

for (const transport of ['websocket', 'polling'] as const) {
  test(`a Socket.IO client by ${transport} reconnects by itself when its token has expired, with the next one`, async (t) => {
    const flags = authentication(['token'], ['--Authentication.Token.ExpiresInSeconds', '1'])
    const { url } = await startProgram(t, { data: DATA, flags })
    const ends: string[] = []
    let connections = 0
    const socket = open(t, url, {
      transports: [transport],
      auth: (answer) => void tokenOf(url, 'reader').then((token) => answer({ token })),
    })
    socket.on('connect', () => connections++)
    socket.on('disconnect', (reason) => ends.push(reason))
    await until('the second reconnection', () => connections >= 3)
    assert.deepEqual(ends.slice(0, 2), ['transport close', 'transport close'])
  })
}
