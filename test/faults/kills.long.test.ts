import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { JsonObject } from '../../src/json/value.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { Random, SEED } from '../support/random.ts'
import { spawnServer, startProgram } from '../support/server.ts'
import { History } from './history.ts'
import { Load } from './load.ts'

const KILLS = Number(process.env.KILLS ?? 3)
/** After so many kills another journal is begun: starting takes as long as the journal is. */
const KILLS_A_JOURNAL = 50
const TERMINATIONS = Number(process.env.TERMINATIONS ?? 2)
const WRITERS = 32
const CONTINUE = 'HTTP/1.1 100 Continue\r\n\r\n'
/** Small segments, so that kills come while one is begun or compressed. */
const FLAGS = ['--Api.UpsertOnPut', 'true', '--Journal.SegmentBytes', '300000', '--Journal.Compress', '0']

test('killed at any moment under load: nothing acknowledged is lost or changed, nothing is invented', async (t) => {
  const random = new Random(SEED)
  let acknowledged = 0
  let unanswered = 0
  let starting = 0
  for (let done = 0; done < KILLS; ) {
    const directory = await temporaryDirectory(t)
    const history = new History()
    let load = new Load(random, `k${done}`)
    for (const end = Math.min(KILLS, done + KILLS_A_JOURNAL); done < end; done++) {
      const isLast = done === KILLS - 1
      if (random.chance(0.15) && !isLast) {
        await killWhileStarting(t, directory, random.integer(400))
        starting++
        continue
      }
      const server = await startProgram(t, { directory, flags: FLAGS, data: {} })
      await history.check(server.url, load)
      if (done % 10 === 0) await history.checkAll(server.url)
      load = new Load(random, `k${done}`)
      const working = load.run(server.url, WRITERS)
      await sleep(20 + random.integer(500))
      if (isLast) await until('a write is acknowledged', () => load.acknowledged > 0)
      await server.stop('SIGKILL')
      await working
      acknowledged += load.acknowledged
      unanswered += load.unanswered
      assert.deepEqual(statusesBeyond(load), [])
    }
    const server = await startProgram(t, { directory, flags: FLAGS })
    await history.check(server.url, load)
    await history.checkAll(server.url)
    assert.equal(await server.stop(), 0)
  }
  t.diagnostic(
    `${KILLS} kills (${starting} while starting), ${acknowledged} acknowledged, ${unanswered} requests unanswered: 0 lost, 0 changed, 0 invented`,
  )
  assert.ok(acknowledged > 0 && unanswered > 0)
})

async function killWhileStarting(t: TestContext, directory: string, afterMs: number): Promise<void> {
  const server = spawnServer(t, directory, { flags: FLAGS })
  await Promise.race([sleep(afterMs), server.ended()])
  server.process.kill('SIGKILL')
  assert.equal((await server.ended()).signal, 'SIGKILL', server.stderr())
}

test('SIGTERM under load: accepted writes are answered and stored, unanswered ones did not happen, exit code 0', async (t) => {
  const random = new Random(SEED)
  const directory = await temporaryDirectory(t)
  const history = new History()
  let acknowledged = 0
  let slowestMs = 0
  for (let round = 0; round < TERMINATIONS; round++) {
    const load = new Load(random, `t${round}`)
    const server = await startProgram(t, { directory, flags: FLAGS, data: {} })
    const working = load.run(server.url, WRITERS)
    await sleep(20 + random.integer(400))
    await until('a write is acknowledged', () => load.acknowledged > 0)
    const began = performance.now()
    assert.equal(await server.stop('SIGTERM'), 0, server.stderr())
    slowestMs = Math.max(slowestMs, performance.now() - began)
    await working
    acknowledged += load.acknowledged
    assert.deepEqual(statusesBeyond(load), [])

    const again = await startProgram(t, { directory, flags: FLAGS })
    const { unanswered } = await history.check(again.url, load)
    assert.deepEqual(unanswered, [], 'a request that left an event got an answer')
    assert.equal(await again.stop(), 0)
    const written = JSON.parse(await readFile(again.file, 'utf8'))
    assert.deepEqual(byKey(written), byKey(history.state), 'the data file is current after a clean end')
  }
  t.diagnostic(
    `${TERMINATIONS} SIGTERMs, ${acknowledged} acknowledged, the slowest end took ${Math.round(slowestMs)} ms`,
  )
  assert.ok(acknowledged > 0)
})

/** Without the order of the items, which the history does not keep. */
function byKey(state: JsonObject): unknown {
  return Object.entries(state).map(([name, items]) => [
    name,
    new Map((items as readonly JsonObject[]).map((item) => [String(item.id), item])),
  ])
}

/** The load provokes 404; any other refusal is one too many. */
function statusesBeyond(load: Load): readonly number[] {
  return [...load.answers.keys()].filter((status) => status >= 300 && status !== 404)
}

test('during shutdown responses have Connection: close, and a request with an incomplete body is still answered', async (t) => {
  const server = await startProgram(t, { data: { a: [] } })
  const open = await openRequest(server.url, '{"n":1}')
  server.process.kill('SIGTERM')
  await until('the server is ending', () => server.stderr().includes('ending'))
  open.socket.write('}')
  const answer = await open.answer()
  assert.match(answer, /^HTTP\/1\.1 201 /)
  assert.match(answer, /^connection: close\r$/im)
  await until('the process has ended', () => server.process.exitCode !== null)
  assert.equal(server.process.exitCode, 0)
  assert.deepEqual(JSON.parse(await readFile(server.file, 'utf8')), { a: [{ id: 0, n: 1 }] })
})

test('a request that never completes does not prevent the shutdown', async (t) => {
  const server = await startProgram(t, { data: { a: [] } })
  await openRequest(server.url, '{"n":1}')
  assert.equal(await server.stop('SIGTERM'), 0, server.stderr())
})

test('a second SIGTERM ends the process at once', async (t) => {
  const server = await startProgram(t, { data: { a: [] } })
  await openRequest(server.url, '{"n":1}')
  server.process.kill('SIGTERM')
  await until('the server is ending', () => server.stderr().includes('ending'))
  assert.equal(await server.stop('SIGTERM'), 1)
  const again = await startProgram(t, { directory: server.directory })
  assert.deepEqual(await (await again.fetch('/api/a')).json(), [])
  assert.equal(await again.stop(), 0)
})

/** A POST whose body lacks its last byte: the server has begun with it, and asked for the body. */
async function openRequest(
  url: string,
  body: string,
): Promise<{ readonly socket: Socket; readonly answer: () => Promise<string> }> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.setEncoding('latin1')
  let text = ''
  socket.on('data', (part) => {
    text += part
  })
  socket.on('error', () => {})
  const answer = async (): Promise<string> => {
    await until('the end of the connection', () => socket.closed)
    return text.replace(CONTINUE, '')
  }
  const head = ['POST /api/a HTTP/1.1', `Host: ${hostname}`, 'Content-Type: application/json', 'Expect: 100-continue']
  socket.write(`${head.join('\r\n')}\r\nContent-Length: ${body.length}\r\n\r\n${body.slice(0, -1)}`)
  await until('the server has begun with the request', () => text.startsWith(CONTINUE))
  return { socket, answer }
}
