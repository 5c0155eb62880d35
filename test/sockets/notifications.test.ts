import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { after, type TestContext, test } from 'node:test'
import { until, within } from '../support/deadline.ts'
import { type Listener, plainSocket, socketIo, type Updated } from '../support/listeners.ts'
import { headOf } from '../support/requests.ts'
import { json, ofOneServer, type RunningServer, startProgram } from '../support/server.ts'
import { startServer } from '../support/service.ts'

const MAC = 'F4:A5:74:89:16:57'
const DATA = {
  sensors: [{ id: MAC, mac: MAC }],
  numbers: [{ id: 7 }, { id: '8' }],
  edited: [{ id: 7 }, { id: '8' }],
  gone: [{ id: 1 }, { id: 'x' }],
}
const FLAGS = ['--Api.UpsertOnPut', 'true']

/** The server of all tests that do not stop it. */
const server = await startProgram({ after }, { data: DATA, flags: FLAGS })

/** One listener of each kind. */
async function listened(t: TestContext): Promise<readonly Listener[]> {
  return [
    await socketIo(t, server.url),
    await socketIo(t, server.url, 'polling'),
    await plainSocket(t, server.url),
    await plainSocket(t, server.url, '/ws?some=query'),
  ]
}

/** Writes, and gives what every listener was told of it: all the same. */
async function toldOf(listeners: readonly Listener[], write: () => Promise<Response>): Promise<readonly Updated[]> {
  const before = listeners.map(({ told }) => told.length)
  const answer = await write()
  assert.ok(answer.ok, `${answer.status} ${await answer.text()}`)
  const position = Number(answer.headers.get('Journal-Position'))
  const told = await Promise.all(listeners.map(async (one, index) => (await one.upTo(position)).slice(before[index])))
  const [first = []] = told
  for (const other of told) assert.deepEqual(other, first)
  assert.equal(first.at(-1)?.position, position)
  return first
}

test('every write over HTTP is notified, in the same way over Socket.IO and plain WebSocket', async (t) => {
  const listeners = await listened(t)
  const path = `/api/sensors/${MAC}`
  const send = (method: string, target: string, body?: unknown, headers?: Record<string, string>) =>
    toldOf(listeners, () => server.fetch(target, body === undefined ? { method } : json(method, body, headers)))
  const item = { collection: 'sensors', itemId: MAC, path }
  const position = await headOf(server.url)

  assert.deepEqual(await send('PUT', path, { mac: MAC }), [{ method: 'PUT', ...item, position: position + 1 }])
  assert.deepEqual(await send('PATCH', path, { a: 1 }), [{ method: 'PATCH', ...item, position: position + 2 }])
  assert.deepEqual(await send('DELETE', path), [{ method: 'DELETE', ...item, position: position + 3 }])
  assert.deepEqual(await send('PUT', path, { mac: MAC }), [{ method: 'POST', ...item, position: position + 4 }])
  assert.deepEqual(await send('POST', '/api/numbers', {}), [
    { method: 'POST', path: '/api/numbers/9', collection: 'numbers', itemId: 9, position: position + 5 },
  ])
  assert.deepEqual(await send('POST', '/api/a%20new%2Fone', {}), [
    { method: 'POST', path: '/api/a%20new%2Fone', collection: 'a new/one', itemId: null, position: position + 6 },
    { method: 'POST', path: '/api/a%20new%2Fone/0', collection: 'a new/one', itemId: 0, position: position + 7 },
  ])
})

test('an id keeps its JSON type in a notification', async (t) => {
  const listeners = await listened(t)
  for (const id of [7, '8']) {
    const told = await toldOf(listeners, () => server.fetch(`/api/numbers/${id}`, json('PATCH', { n: 1 })))
    assert.deepEqual(
      told.map(({ itemId, path }) => ({ itemId, path })),
      [{ itemId: id, path: `/api/numbers/${id}` }],
    )
  }
})

test('the path in a notification is percent-encoded as it is served', async (t) => {
  const listeners = await listened(t)
  const ids = ['a/b', '..', '.', '€ %', 'a?b#c', '%2F', '\r\n', '"\'<>\\', "!*'()", 'F4:A5@$,;=&+', '😀', ' ']
  for (const id of ids) {
    const told = await toldOf(listeners, () =>
      ask(server, 'PUT', `/api/odd/${encodeURIComponent(id).replaceAll('.', '%2E')}`, { id, said: id }),
    )
    const { itemId, path } = told.at(-1) as Updated
    assert.equal(itemId, id)
    assert.match(path, /^\/api\/odd\/[\w\-.~!$&'()*+,;=:@%]+$/)
    assert.deepEqual(await (await ask(server, 'GET', path)).json(), { id, said: id })
  }
})

test('a rejected write is not notified', async (t) => {
  const listeners = await listened(t)
  const refused = [
    await server.fetch('/api/numbers/7', json('PATCH', [])),
    await server.fetch('/api/numbers/7', json('PUT', { id: 6 })),
    await server.fetch('/api/numbers/6', { method: 'DELETE' }),
    await server.fetch('/api/numbers/7', json('PUT', {}, { 'If-Match': '"other"' })),
    await server.fetch('/api/numbers', json('POST', null)),
  ]
  assert.deepEqual(
    refused.map(({ status }) => status),
    [400, 409, 404, 412, 400],
  )
  const told = await toldOf(listeners, () => server.fetch('/api/numbers/7', json('PUT', {})))
  assert.equal(told.length, 1)
})

test('changes in an edited data file are notified when it is merged, like any other write', async (t) => {
  const listeners = await listened(t)
  await current(server)
  const file = JSON.parse(readFileSync(server.file, 'utf8')) as Record<string, { id: unknown }[]>
  file.edited = [{ id: '8', n: 2 } as { id: unknown }, { id: 7 }, { id: 12 }]
  file.made = [{ id: 'x y' }]
  delete file.gone
  writeFileSync(server.file, JSON.stringify(file))
  const told = await toldOf(listeners, () => server.fetch('/admin/reload', { method: 'POST' }))
  const said = told.map(({ method, path, itemId }) => [method, path, itemId])
  assert.deepEqual(said, [
    ['PUT', '/api/edited/8', '8'],
    ['POST', '/api/edited/12', 12],
    ['PUT', '/api/edited', null],
    ['DELETE', '/api/gone/1', 1],
    ['DELETE', '/api/gone/x', 'x'],
    ['DELETE', '/api/gone', null],
    ['POST', '/api/made', null],
    ['POST', '/api/made/x%20y', 'x y'],
  ])
  assert.deepEqual(
    told.map(({ position }) => position - (told[0]?.position ?? 0)),
    [0, 1, 2, 3, 4, 5, 6, 7],
  )
})

test('with EagerDataReload an edit of the data file is notified without a request', {
  skip: ofOneServer('the data file is that of the node that decides'),
}, async (t) => {
  const server = await startServer(t, { data: DATA, flags: ['--Common.EagerDataReload', 'true'] })
  const listener = await socketIo(t, server.url)
  await current(server)
  const position = await headOf(server.url)
  writeFileSync(server.file, JSON.stringify({ ...DATA, numbers: [{ id: 7, edited: true }, { id: '8' }] }))
  assert.deepEqual(await listener.upTo(position + 1), [
    { method: 'PUT', path: '/api/numbers/7', collection: 'numbers', itemId: 7, position: position + 1 },
  ])
})

test('a read after a notification shows that write or a later one', async (t) => {
  const listeners = await listened(t)
  const reads: Promise<void>[] = []
  for (const listener of listeners) {
    listener.onTold(({ path, position, collection }) => {
      if (collection !== 'fresh') return
      reads.push(
        server.fetch(path).then(async (answer) => {
          assert.equal(answer.status, 200, path)
          assert.ok(Number(answer.headers.get('Journal-Position')) >= position)
          const { n } = (await answer.json()) as { n?: number }
          assert.ok(n === undefined || n >= 1)
        }),
        server.fetch('/api/fresh').then((answer) => {
          assert.ok(Number(answer.headers.get('Journal-Position')) >= position)
          assert.ok(Number(answer.headers.get('X-Total-Count')) >= Math.min(1, position))
        }),
      )
    })
  }
  let last = 0
  for (let round = 0; round < 5; round++) {
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => server.fetch('/api/fresh', json('POST', { n: round + 1 }))),
    )
    last = Math.max(last, ...answers.map((answer) => Number(answer.headers.get('Journal-Position'))))
  }
  await Promise.all(listeners.map((listener) => listener.upTo(last)))
  assert.equal(reads.length, 2 * listeners.length * 101)
  await Promise.all(reads)
})

test('notifications of many writers arrive in the order of the journal, none missing, none doubled', async (t) => {
  const listeners = await listened(t)
  const before = await headOf(server.url)
  const ids = Array.from({ length: 300 }, (_, index) => index)
  await Promise.all(
    ids.map((id) => server.fetch(`/api/numbers/${1000 + (id % 10)}`, json('PUT', { id: 1000 + (id % 10) }))),
  )
  const events = (await (await server.fetch(`/events?from=${before + 1}`)).json()) as {
    position: number
    id: number
  }[]
  assert.equal(events.length, 300)
  for (const listener of listeners) {
    const told = await listener.upTo(before + 300)
    assert.deepEqual(
      told.map(({ position, itemId }) => [position, itemId]),
      events.map(({ position, id }) => [position, id]),
    )
  }
})

test('a notified write survives a kill at that moment', {
  skip: ofOneServer('one of three is killed, and another one goes on: see test/cluster/kills.long.test.ts'),
}, async (t) => {
  const server = await startProgram(t, { data: DATA, flags: FLAGS })
  const listener = await plainSocket(t, server.url)
  let toldLast: Updated | undefined
  listener.onTold((updated) => {
    if (updated.itemId === 20) {
      server.process.kill('SIGKILL')
      toldLast = updated
    }
  })
  const writes = Array.from({ length: 200 }, () => server.fetch('/api/many', json('POST', {})).catch(() => undefined))
  const { position } = await until('the notification of item 20', () => toldLast)
  await Promise.all(writes)
  const again = await startProgram(t, { directory: server.directory, flags: FLAGS })
  assert.equal((await again.fetch('/api/many/20')).status, 200)
  const event = (await (await again.fetch(`/events/${position}`)).json()) as { id: number }
  assert.equal(event.id, 20)
})

interface Health {
  readonly position: number
  /** Undefined at a node that does not lead. */
  readonly dataFile?: { readonly state: string; readonly position: number }
}

/** Waits until the data file shows the head of the journal. */
async function current(server: RunningServer): Promise<void> {
  await until('the data file to be current', async () => {
    const { position, dataFile } = (await (await server.fetch('/health')).json()) as Health
    return dataFile?.state === 'current' && dataFile.position === position
  })
}

/** A request whose path is sent as it is: `fetch` would resolve `%2E%2E`. */
function ask(server: RunningServer, method: string, path: string, body?: unknown): Promise<Response> {
  const { hostname, port } = new URL(server.url)
  return within(
    `the response to ${method} ${path}`,
    new Promise((resolve, reject) => {
      const headers = { 'Content-Type': 'application/json' }
      const asked = request({ hostname, port, method, path, headers, agent: false }, async (answer) => {
        const bytes = Buffer.concat(await answer.toArray())
        const position = String(answer.headers['journal-position'])
        resolve(new Response(bytes, { status: answer.statusCode ?? 0, headers: { 'Journal-Position': position } }))
      })
      asked.on('error', reject)
      if (body !== undefined) asked.write(JSON.stringify(body))
      asked.end()
    }),
  )
}
