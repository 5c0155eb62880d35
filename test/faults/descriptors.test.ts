import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { Agent, type IncomingMessage, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { eventOf, fetch, once, until, within } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { swaggerAsset } from '../support/pages.ts'
import { send } from '../support/requests.ts'
import { runToEnd, type SpawnedServer, spawnServer } from '../support/server.ts'

const LIMIT = Number(process.env.DESCRIPTORS ?? 128)
const IDLE = Math.ceil(LIMIT * 1.6)
const SMALL_SEGMENTS = ['--Journal.SegmentBytes', '1024']
const skip = process.platform === 'linux' ? false : 'limits of open files are set with the shell of Linux'

/** Loaded into the server: tells how many turns its event loop has made. */
const TURNS = `data:text/javascript,${encodeURIComponent(`
  process.on('message', () => process.send(performance.nodeTiming.uvMetricsInfo.loopCount))
  process.channel.unref()
`)}`

interface Limited {
  readonly program: SpawnedServer
  readonly url: string
  readonly directory: string
  /** Sends a request over one connection, which was opened first. */
  ask(path: string, init?: { method?: string; body?: unknown; headers?: Record<string, string> }): Promise<Answer>
  /** The turns that its event loop has made so far. */
  turns(): Promise<number>
}

interface Answer {
  readonly status: number
  readonly retryAfter: string | undefined
  readonly text: string
}

/** The status in /health after the start. `storeBuilt` would ask over a further connection, and these are counted here. */
const STARTED = /"status":"(?:ok|degraded)"/

/** A server that may open few files. */
async function startLimited(t: TestContext, limit: number, flags: readonly string[]): Promise<Limited> {
  const directory = await temporaryDirectory(t)
  const under = ['bash', '-c', `ulimit -n ${limit}; exec "$@"`, 'limited']
  const program = spawnServer(t, directory, { under, node: ['--import', TURNS], flags: [...SMALL_SEGMENTS, ...flags] })
  const url = await program.listening()
  assert.ok(url, program.stderr())
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  t.after(() => agent.destroy())
  const ask: Limited['ask'] = async (path, { method = 'GET', body, headers = {} } = {}) => {
    const type = body === undefined ? {} : { 'Content-Type': 'application/json' }
    const sending = request(`${url}${path}`, { agent, method, headers: { ...type, ...headers } })
    sending.end(body === undefined ? undefined : JSON.stringify(body))
    const [answer] = (await once(sending, 'response')) as [IncomingMessage]
    const parts = await within(`the end of the response to ${path}`, answer.setEncoding('utf8').toArray())
    const text = parts.join('')
    return { status: answer.statusCode ?? 0, retryAfter: answer.headers['retry-after'], text }
  }
  const turns = async (): Promise<number> => {
    const answer = once(program.process, 'message')
    program.process.send(0)
    return (await answer)[0] as number
  }
  await until('the start', async () => STARTED.test((await ask('/health')).text))
  assert.equal((await ask('/api/a', { method: 'POST', body: { n: 0 } })).status, 201)
  return { program, url, directory, ask, turns }
}

/** A connection that says nothing, and what it was told. */
interface Idle {
  readonly socket: Socket
  text: string
}

async function openIdle(t: TestContext, url: string, count: number): Promise<readonly Idle[]> {
  const { hostname, port } = new URL(url)
  const opening = Array.from({ length: count }, async () => {
    const idle: Idle = { socket: connect(Number(port), hostname), text: '' }
    t.after(() => void idle.socket.destroy())
    idle.socket.on('error', () => {})
    idle.socket.setEncoding('utf8').on('data', (text) => {
      idle.text += text
    })
    const opened = Promise.race([eventOf(idle.socket, 'connect'), eventOf(idle.socket, 'close')])
    await within('a connection', opened)
    return idle
  })
  return Promise.all(opening)
}

/** Asks now and then until something is done, so that the connection for it is not closed for being idle. */
async function keepAsking<T>(ask: Limited['ask'], work: Promise<T>): Promise<T> {
  let isDone = false
  const done = work.finally(() => {
    isDone = true
  })
  while (!isDone) {
    assert.equal((await ask('/api/a/0')).status, 200)
    await Promise.race([done, sleep(500)])
  }
  return done
}

/** Asked in the default order; every one needs a file, which is opened for it. */
const READS = [
  ['/events', {}],
  ['/events?order=desc', {}],
  ['/events', { Accept: 'application/x-ndjson' }],
  ['/collections.html', {}],
  ['/swagger/', {}],
  [swaggerAsset('swagger-ui.min.css'), {}],
] as const

test('idle connections leave enough descriptors for journal and files, and those beyond the limit get 503', {
  skip,
}, async (t) => {
  const { program, url, ask } = await startLimited(t, LIMIT, [])
  const idle = await keepAsking(ask, openIdle(t, url, IDLE))
  const refused = await until('some are refused', () => {
    const answered = idle.filter(({ socket }) => socket.destroyed || socket.readableEnded)
    return answered.length >= IDLE - LIMIT && answered
  })
  const told = refused.filter(({ text }) => text !== '')
  assert.ok(told.length > 0, 'they are told why')
  for (const { text } of told) {
    assert.match(text, /^HTTP\/1\.1 503 Service Unavailable\r\n/)
    assert.match(text, /\r\nRetry-After: \d+\r\n/)
    assert.match(text, /"title":"Too many connections","status":503/)
  }
  for (let n = 0; n < 30; n++) {
    assert.equal(
      (await ask('/api/a', { method: 'POST', body: { text: 'x'.repeat(500) } })).status,
      201,
      program.stderr(),
    )
  }
  for (const [path, headers] of READS) assert.equal((await ask(path, { headers })).status, 200, path)
  for (const { socket } of idle) socket.destroy()
  await until('a new connection is served', async () => {
    const answer = await fetch(`${url}/health`).catch(() => undefined)
    return answer?.status === 200
  })
  t.diagnostic(`${refused.length} of ${IDLE} idle connections refused with a limit of ${LIMIT} files`)
})

test('without descriptors, requests that need one get 503, nothing is lost, and the server recovers', {
  skip,
}, async (t) => {
  // As if the operator had set more than the system gives.
  const { program, url, directory, ask, turns } = await startLimited(t, LIMIT, ['--Limits.Connections', '100000'])
  const acknowledged = [0]
  for (let round = 0; round < 2; round++) {
    const idle = [...(await keepAsking(ask, openIdle(t, url, IDLE)))]
    /** The data file, when it is written, gives descriptors back: more connections take them. */
    const refused = (path: string, init: Parameters<Limited['ask']>[1]): Promise<Answer> =>
      until(`${path} is refused`, async () => {
        const answer = await ask(path, init)
        if (answer.status === 503) return answer
        assert.ok(answer.status < 300, `${path}: ${answer.text}`)
        idle.push(...(await openIdle(t, url, 8)))
        return undefined
      })
    await until('it does not spin', async () => {
      const before = await turns()
      await sleep(500)
      return (await turns()) - before < 500
    })
    const refusal = await until('a write is refused', async () => {
      const answer = await ask('/api/a', { method: 'POST', body: { text: 'x'.repeat(500) } })
      if (answer.status !== 201) return answer
      acknowledged.push((JSON.parse(answer.text) as { id: number }).id)
      idle.push(...(await openIdle(t, url, 1)))
      return undefined
    })
    assert.equal(refusal.status, 503, refusal.text)
    assert.ok(Number(refusal.retryAfter) > 0)
    assert.match(refusal.text, /urn:recollect:problem:Unavailable/)
    for (const [path, headers] of READS) {
      // Modules loaded in the first round stay in memory.
      if (round > 0 && path === '/swagger/') continue
      const answer = await refused(path, { headers })
      assert.ok(Number(answer.retryAfter) > 0, path)
      assert.equal((JSON.parse(answer.text) as { status: number }).status, 503)
    }
    const patch = { method: 'PATCH', body: { n: 1 }, headers: { Origin: 'http://localhost' } }
    // The first body loads the modules that read bodies.
    if (round === 0) await refused('/api/a/0', patch)
    assert.equal((await ask('/api/a/0')).status, 200, 'the present is served')
    for (const { socket } of idle) socket.destroy()
    await until('a write is accepted again', async () => {
      const answer = await ask('/api/a', { method: 'POST', body: { n: round } })
      if (answer.status !== 201) return false
      acknowledged.push((JSON.parse(answer.text) as { id: number }).id)
      return true
    })
    for (const [path, headers] of READS) {
      await until(`${path} is answered again`, async () => (await ask(path, { headers })).status === 200)
    }
    await until('a body is read again', async () => (await ask('/api/a/0', patch)).status === 204)
  }
  const items = JSON.parse((await ask('/api/a?pageSize=1000')).text) as { id: number }[]
  assert.deepEqual(
    items.map(({ id }) => id),
    acknowledged,
  )
  await keepAsking(ask, openIdle(t, url, IDLE))
  await until('no free descriptor', async () => (await readdir(`/proc/${program.process.pid}/fd`)).length >= LIMIT)
  program.process.kill('SIGTERM')
  assert.deepEqual(await program.ended(), { code: 0, signal: null }, program.stderr())
  const verified = await runToEnd(t, directory, ['verify', '--file', join(directory, 'db.json')])
  assert.equal(verified.code, 0, verified.stdout)
})

test('a start with too low a limit of open files exits with code 1 and says so', { skip }, async (t) => {
  for (const limit of [63, 48]) {
    const directory = await temporaryDirectory(t)
    const under = ['bash', '-c', `ulimit -n ${limit}; exec "$@"`, 'limited']
    const program = spawnServer(t, directory, { under })
    assert.deepEqual(await program.ended(), { code: 1, signal: null })
    assert.match(
      program.stderr(),
      new RegExp(`may not open enough files: ulimit -n is ${limit}\\. It needs at least 64`),
    )
    assert.deepEqual(await readdir(directory), [])
  }
})

test('with the lowest limit of open files a start serves 8 connections', { skip }, async (t) => {
  const directory = await temporaryDirectory(t)
  const program = spawnServer(t, directory, { under: ['bash', '-c', 'ulimit -n 64; exec "$@"', 'limited'] })
  const url = await program.listening()
  assert.ok(url, program.stderr())
  await until('the start', async () => STARTED.test((await send(url, 'GET', '/health')).text))
  const answers = await Promise.all(Array.from({ length: 8 }, () => send(url, 'GET', '/api')))
  assert.deepEqual(
    answers.map(({ status }) => status),
    Array.from({ length: 8 }, () => 200),
  )
})
