import assert from 'node:assert/strict'
import { Agent, type IncomingMessage, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { after, test } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { once, until, within } from '../support/deadline.ts'
import { socketIo } from '../support/listeners.ts'
import { send, sendJson, THROUGH_KOA } from '../support/requests.ts'
import { startProgram } from '../support/server.ts'
import { startHere, startServer } from '../support/service.ts'

const BUDGET = 5_000_000
/** More than the kernel takes for a connection. */
const LONG = Array.from({ length: 200 }, (_, id) => ({ id, text: `${id}`.padEnd(100_000, 'x') }))

const HUGE = { id: 1, text: 'x'.repeat(1_000_000) }

const { url, stderr } = await startProgram(
  { after },
  { data: { long: LONG, short: [{ id: 1 }], huge: [HUGE] }, flags: ['--Limits.MemoryBytes', String(BUDGET)] },
)

const NDJSON = 'application/x-ndjson'

/** A line of NDJSON with a thousand characters. */
const LINE = `${JSON.stringify({ text: 'x'.repeat(988) })}\n`

async function held(kind: string, of = url): Promise<number> {
  const { text } = await send(of, 'GET', '/metrics')
  const [, bytes] = new RegExp(`^recollect_memory_held_bytes\\{kind="${kind}"\\} (\\d+)$`, 'm').exec(text) ?? []
  assert.ok(bytes !== undefined, text)
  return Number(bytes)
}

/** Resolves when the requests of a test hold no memory any more. */
async function isReleased(kind: string): Promise<void> {
  await until(`no memory is held for ${kind}`, async () => (await held(kind)) === 0)
}

/** Sends the beginning of a batch, and nothing more. */
async function beginBatch(bytes: number): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  const head = `POST /api/slow HTTP/1.1\r\nHost: ${hostname}\r\nContent-Type: ${NDJSON}\r\nContent-Length: 8000000\r\n\r\n`
  await within('the beginning of the body', new Promise((resolve) => socket.write(head + 'x'.repeat(bytes), resolve)))
  return socket
}

function postLines(name: string, lines: number) {
  return send(url, 'POST', `/api/${name}`, { headers: { 'Content-Type': NDJSON }, body: LINE.repeat(lines) })
}

test('while bodies hold the memory, a further one is 503 with Retry-After, and small requests are answered', async () => {
  const socket = await beginBatch(2_400_000)
  await until('the body is received', async () => (await held('bodies')) > 4_500_000)
  const refused = await postLines('refused', 400)
  assert.equal(refused.status, 503)
  assert.equal(refused.headers['retry-after'], '1')
  assert.match(refused.json<{ detail: string }>().detail, /Limits\.MemoryBytes/)
  for (const path of ['/health', '/api/short/1', '/api/short']) assert.equal((await send(url, 'GET', path)).status, 200)
  assert.equal((await sendJson(url, 'POST', '/api/short', { n: 1 })).status, 201)
  assert.equal((await postLines('short', 3)).status, 201)
  socket.destroy()
  await isReleased('bodies')
  assert.equal((await postLines('refused', 400)).status, 201)
  await isReleased('bodies')
})

test('a body that would not fit alone is 422, however small it was before it was inflated, and nothing is written', async () => {
  const body = gzipSync(LINE.repeat(5000))
  assert.ok(body.length < 100_000)
  for (const name of ['first', 'second']) {
    const headers = { 'Content-Type': NDJSON, 'Content-Encoding': 'gzip' }
    const refused = await send(url, 'POST', `/api/${name}`, { headers, body })
    assert.equal(refused.status, 422)
    assert.match(refused.json<{ detail: string }>().detail, /does not fit into memory.*Send it in several requests/)
    assert.equal((await send(url, 'GET', `/api/${name}`)).status, 404)
  }
  await isReleased('bodies')
})

/** A response of which nothing is read. */
function unread(path: string, accept = 'application/json', more: object = {}): Promise<IncomingMessage> {
  return within(
    `the headers of ${path}`,
    new Promise((resolve, reject) =>
      request(`${url}${path}`, { headers: { Accept: accept, ...more } }, resolve)
        .on('error', reject)
        .end(),
    ),
  )
}

async function textOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of response) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}

test('a page of more than a mebibyte holds memory until it is read, and another one is 503 meanwhile', async () => {
  const page = await unread('/api/long?pageSize=200')
  assert.equal(page.statusCode, 200)
  assert.equal(page.headers['x-total-count'], '200')
  assert.equal(page.headers['content-length'], undefined)
  assert.ok((await held('responses')) > 1_000_000)
  const refused = await send(url, 'GET', '/api/long?pageSize=200')
  assert.equal(refused.status, 503)
  assert.equal(refused.headers['retry-after'], '1')
  assert.equal((await send(url, 'GET', '/api/long?pageSize=1')).status, 200)
  assert.deepEqual(JSON.parse(await within('the page', textOf(page))), LONG)
  await isReleased('responses')
})

test('the memory of a page is released when its client goes away', async () => {
  for (const accept of ['application/json', NDJSON, 'text/csv']) {
    const { hostname, port } = new URL(url)
    const socket = connect(Number(port), hostname)
    socket.write(`GET /api/long?pageSize=200 HTTP/1.1\r\nHost: ${hostname}\r\nAccept: ${accept}\r\n\r\n`)
    await until('the page is begun', async () => (await held('responses')) > 1_000_000)
    socket.destroy()
    await isReleased('responses')
  }
})

test('a Brotli body holds memory while it is inflated, and not while the server waits for it', async () => {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  const fields = `Host: ${hostname}\r\nContent-Type: application/json\r\nContent-Encoding: br\r\nContent-Length: 20\r\n`
  socket.write(`POST /api/slow HTTP/1.1\r\n${fields}Expect: 100-continue\r\n\r\n`)
  const [begun] = (await once(socket, 'data')) as [Buffer]
  assert.match(begun.toString(), /^HTTP\/1\.1 100 /)
  assert.equal(await held('bodies'), 0)
  socket.destroy()
  const headers = { 'Content-Type': 'application/json', 'Content-Encoding': 'br' }
  const refused = await send(url, 'POST', '/api/slow', { headers, body: brotliCompressSync('{"n":1}') })
  assert.equal(refused.status, 422, 'its decoder does not fit')
  await isReleased('bodies')
})

test('an empty compressed body is 400, and leaves the count of memory as it was', async () => {
  for (const coding of ['gzip', 'deflate', 'br']) {
    const { hostname, port } = new URL(url)
    const socket = connect(Number(port), hostname)
    const fields = `Host: ${hostname}\r\nContent-Type: application/json\r\nContent-Encoding: ${coding}\r\n`
    socket.write(`POST /api/slow HTTP/1.1\r\n${fields}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`)
    const [response] = (await once(socket, 'data')) as [Buffer]
    // The decoder of Brotli does not fit into the memory of this server.
    assert.match(response.toString(), coding === 'br' ? /^HTTP\/1\.1 422 / : /^HTTP\/1\.1 400 /)
    socket.destroy()
    await isReleased('bodies')
  }
})

test('unread streams of long events hold memory, further ones are 503, and what is read to its end is complete', async () => {
  const open = (count: number): Promise<IncomingMessage[]> =>
    Promise.all(Array.from({ length: count }, () => unread('/events?collection=long', NDJSON)))
  const few = await open(6)
  try {
    for (const { statusCode } of few) assert.equal(statusCode, 200)
    // Each holds 256 KiB from its beginning, and more for its long events.
    await until('the events are held', async () => (await held('responses')) > 6 * (256 + 100) * 1024)
    const more = await open(20)
    try {
      const statuses = new Set(more.map(({ statusCode }) => statusCode))
      assert.ok(statuses.has(503), `${[...statuses]}`)
      assert.ok((await held('responses')) <= BUDGET)
    } finally {
      for (const stream of more) stream.destroy()
    }
    const lines = (await within('the stream', textOf(few[0] as IncomingMessage))).trim().split('\n')
    assert.equal(lines.length, LONG.length + 1)
  } finally {
    for (const stream of few) stream.destroy()
  }
  await isReleased('responses')
})

test('a stream is cut at an event that does not fit into memory, and is complete when others have released theirs', async () => {
  const body = await beginBatch(2_200_000)
  await until('the body is received', async () => (await held('bodies')) > 4_000_000)
  const told = (): number => stderr().split('a response was cut').length
  for (const more of [{}, THROUGH_KOA]) {
    const before = told()
    const cut = await unread('/events?collection=huge', NDJSON, more)
    assert.equal(cut.statusCode, 200)
    await assert.rejects(within('the end of the stream', textOf(cut)), { code: 'ECONNRESET' })
    await until('the log tells of it', () => told() > before)
  }
  assert.doesNotMatch(stderr(), /a response failed/)
  const newest = '/events?collection=huge&id=1&order=desc&limit=1'
  assert.equal((await send(url, 'GET', newest)).status, 503)
  assert.equal((await send(url, 'GET', '/events?collection=short')).status, 200)
  body.destroy()
  await isReleased('bodies')
  const [event] = (await send(url, 'GET', newest)).json<{ item: object }[]>()
  assert.deepEqual(event?.item, HUGE)
  const whole = await textOf(await unread('/events?collection=huge', NDJSON))
  assert.equal(whole.trim().split('\n').length, 2)
  await isReleased('responses')
})

test('a long page is the same in every format as a short one', async () => {
  const lines = (await send(url, 'GET', '/api/long?pageSize=200', { headers: { Accept: NDJSON } })).text
  assert.deepEqual(
    lines
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown),
    LONG,
  )
  const csv = (await send(url, 'GET', '/api/long?pageSize=200', { headers: { Accept: 'text/csv' } })).text
  assert.equal(csv, `id,text\r\n${LONG.map(({ id, text }) => `${id},${text}\r\n`).join('')}`)
  const head = await send(url, 'HEAD', '/api/long?pageSize=200')
  assert.equal(head.status, 200)
  assert.equal(head.headers['x-total-count'], '200')
  assert.equal(head.headers['content-length'], undefined)
  await isReleased('responses')
})

test('groups that would not fit into memory are 422', async () => {
  const refused = await send(url, 'GET', '/api/long?aggregate=count&groupBy=text')
  assert.equal(refused.status, 422)
  assert.match(refused.json<{ detail: string }>().detail, /with more filters, or for fewer groups/)
  await isReleased('queries')
})

test('a long query holds memory until it is answered', async () => {
  const ids = Array.from({ length: 3000 }, (_, id) => id + 1).join(',')
  const path = `/api/short?id_in=${ids}`
  assert.equal((await send(url, 'GET', path)).status, 200)
  const socket = await beginBatch(2_400_000)
  await until('the body is received', async () => (await held('bodies')) > 4_500_000)
  const refused = await send(url, 'GET', path)
  assert.equal(`${refused.status} ${refused.headers['retry-after']}`, '503 1')
  assert.equal((await send(url, 'GET', '/api/short?id_in=1,2')).status, 200)
  socket.destroy()
  await isReleased('bodies')
  assert.equal((await send(url, 'GET', path)).status, 200)
  await isReleased('queries')
})

test('a write that would not fit beside its own body is 422, and not 503 for ever', async () => {
  const items = Array.from({ length: 9000 }, (_, i) => ({ i }))
  for (let time = 0; time < 2; time++) {
    const refused = await sendJson(url, 'POST', '/api/beside', items)
    assert.equal(refused.status, 422)
    assert.match(refused.json<{ detail: string }>().detail, /does not fit into memory.*Change fewer items in one write/)
  }
  assert.equal((await send(url, 'GET', '/api/beside')).status, 404)
  for (const kind of ['bodies', 'writes']) await isReleased(kind)
})

test('subscriptions to long queries hold memory from when they are received, and are Busy beyond their share', async (t) => {
  const { client } = await socketIo(t, url)
  const ids = Array.from({ length: 2000 }, (_, id) => id)
  const answers = Array.from({ length: 10 }, async (_, n) => {
    const query = `id_in=${n * 10_000},${ids.join(',')}`
    const answer = client.emitWithAck('subscribe', { collection: 'short', query })
    return (await within('the response to a subscription', answer)) as { subscription?: string; error?: string }
  })
  const results = (await Promise.all(answers)).map(({ subscription, error }) => error ?? typeof subscription)
  assert.deepEqual(new Set(results), new Set(['string', 'Busy']))
  assert.ok((await held('subscriptions')) > 1_000_000)
  client.disconnect()
  await isReleased('subscriptions')
})

test('patches of a long item that are in flight hold memory, and all that are accepted are durable', async () => {
  const item = '/api/long/7'
  const replies = await Promise.all(
    Array.from({ length: 64 }, (_, n) =>
      send(url, 'PATCH', item, {
        headers: { 'Content-Type': 'application/merge-patch+json' },
        body: JSON.stringify({ [`n${n}`]: n }),
      }),
    ),
  )
  const accepted = replies.flatMap(({ status }, n) => (status === 204 ? [n] : []))
  for (const { status, headers } of replies)
    if (status !== 204) assert.equal(`${status} ${headers['retry-after']}`, '503 1')
  assert.ok(accepted.length > 0)
  const found = (await send(url, 'GET', item)).json<Record<string, unknown>>()
  for (let n = 0; n < 64; n++) assert.equal(found[`n${n}`], accepted.includes(n) ? n : undefined)
  await isReleased('writes')
})

test('pipelined responses that are not read are released when their connections are cut', async (t) => {
  const items = Array.from({ length: 2000 }, (_, id) => ({ id, text: 'x'.repeat(1000) }))
  const own = await startServer(t, { data: { long: items } })
  const page = '/api/long?pageSize=900'
  // A page that is cached is answered at once, also behind responses that are not sent yet.
  for (let time = 0; time < 3; time++) assert.equal((await send(own.url, 'GET', page)).status, 200)
  const { hostname, port } = new URL(own.url)
  const get = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: ${hostname}\r\n\r\n`
  const sockets = Array.from({ length: 16 }, () => {
    const socket = connect(Number(port), hostname)
    socket.write(get(page).repeat(12) + get('/api/long?all=true'))
    return socket
  })
  await until('responses wait on each connection', async () => (await held('responses', own.url)) > 100_000_000)
  for (const socket of sockets) socket.destroy()
  await until('nothing is held', async () => (await held('responses', own.url)) === 0)
  // Each whole result that was begun would take one of 16 places.
  assert.equal((await send(own.url, 'GET', '/api/long?all=true')).status, 200)
})

test('an idle connection keeps nothing of its last response', async (t) => {
  let last: WeakRef<object> | undefined
  const own = await startHere(t, {
    data: { long: LONG },
    // Longer than this test waits.
    flags: ['--Http.KeepAliveSeconds', '600'],
    middleware: [
      (ctx, next) => {
        last = new WeakRef(ctx.res)
        return next()
      },
    ],
  })
  const agent = new Agent({ keepAlive: true })
  t.after(() => agent.destroy())
  const { hostname, port } = new URL(own.url)
  await within(
    'the page',
    new Promise((resolve, reject) =>
      request({ hostname, port, agent, path: '/api/long?pageSize=200' }, (response) =>
        textOf(response).then(resolve, reject),
      ).end(),
    ),
  )
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as () => void
  await until('the response is collected', () => {
    gc()
    return last !== undefined && last.deref() === undefined
  })
})
