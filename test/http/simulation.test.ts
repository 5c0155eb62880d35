import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Reply } from '../../src/http/exchange.ts'
import { delayAsAsked, simulate } from '../../src/http/simulation.ts'
import { apiRequest } from '../support/api.ts'
import { fetch } from '../support/deadline.ts'
import { send, sendJson } from '../support/requests.ts'
import { startHere } from '../support/service.ts'

const DATA = { things: [{ id: 1, n: 0 }], profile: { n: 0 } }
const FAILING = ['--Simulate.Error.Enabled', 'true', '--Simulate.Error.Probability']

test('a simulated error is 500 with a code of its own, and changes nothing', async (t) => {
  const { url, log } = await startHere(t, { data: DATA, flags: [...FAILING, '1'] })
  for (const [method, path] of [
    ['POST', '/api/things'],
    ['PUT', '/api/things/1'],
    ['PATCH', '/api/profile'],
    ['DELETE', '/api/things'],
  ] as const) {
    const reply = await sendJson(url, method, path, { n: 1 })
    assert.equal(reply.status, 500, `${method} ${path}`)
    assert.equal(reply.json<{ type: string }>().type, 'urn:recollect:problem:Simulated')
  }
  // The page of another origin takes the way through Koa.
  const page = await send(url, 'DELETE', '/api/things/1', { headers: { Origin: 'http://localhost:3000' } })
  assert.deepEqual([page.status, page.headers['access-control-allow-origin']], [500, 'http://localhost:3000'])
  assert.deepEqual((await send(url, 'GET', '/api/things')).json(), DATA.things)
  assert.ok(log.some((line) => /"level":40.*SIMULATION: Simulate\.Error answers 500 with probability 1 /.test(line)))
  assert.match((await send(url, 'GET', '/health')).text, /SIMULATION/)
  assert.equal((await send(url, 'POST', '/admin/snapshot')).status, 200)
})

test('with the same seed the same requests fail', async (t) => {
  const outcomes = async (seed: string): Promise<string> => {
    const { url } = await startHere(t, { data: DATA, flags: [...FAILING, '0.5', '--Simulate.Seed', seed] })
    const statuses: number[] = []
    for (let n = 0; n < 40; n++) statuses.push((await sendJson(url, 'PATCH', '/api/things/1', { n })).status)
    return statuses.join()
  }
  const first = await outcomes('7')
  assert.equal(await outcomes('7'), first)
  assert.notEqual(await outcomes('8'), first)
  assert.deepEqual([...new Set(first.split(','))].sort(), ['204', '500'])
})

test('a delay is as long as configured, and applies to the configured methods', async () => {
  const waitsMs: number[] = []
  let goOn = (): void => {}
  const wait = (ms: number): Promise<void> => {
    waitsMs.push(ms)
    return new Promise((resolve) => {
      goOn = resolve
    })
  }
  const step = simulate(
    {
      delay: { enabled: true, methods: ['GET'], minMs: 150, maxMs: 160 },
      error: { enabled: false, methods: [], probability: 0 },
      seed: 7,
    },
    wait,
  )
  let isOver = false
  for (let request = 0; request < 100; request++) {
    isOver = false
    const delayed = Promise.resolve(step(apiRequest('/api/things'), new Reply())).then(() => {
      isOver = true
    })
    assert.equal(isOver, false, 'it is not answered before the delay is over')
    goOn()
    await delayed
  }
  assert.deepEqual([waitsMs.length, Math.min(...waitsMs), Math.max(...waitsMs)], [100, 150, 160])
  const other = apiRequest('/api/things')
  other.incoming.method = 'DELETE'
  await step(other, new Reply())
  assert.equal(waitsMs.length, 100)
})

test('a server that delays GET for half a minute answers a later DELETE first', async (t) => {
  const delay = ['--Simulate.Delay.Enabled=true', '--Simulate.Delay.MinMs=30000', '--Simulate.Delay.MaxMs=30000']
  const { url } = await startHere(t, { data: DATA, flags: [...delay, '--Simulate.Delay.Methods=GET'] })
  const answered: string[] = []
  const leaving = new AbortController()
  const get = fetch(`${url}/api/things/1`, { signal: leaving.signal }).then(() => answered.push('GET'))
  assert.equal((await send(url, 'DELETE', '/api/things/1')).status, 204)
  assert.deepEqual(answered, [])
  leaving.abort()
  await assert.rejects(get, { name: 'AbortError' })
})

test('a server that delays GET answers GET, HEAD and other methods', async (t) => {
  const delay = ['--Simulate.Delay.Enabled=true', '--Simulate.Delay.MinMs=10', '--Simulate.Delay.MaxMs=20']
  const { url } = await startHere(t, { data: DATA, flags: [...delay, '--Simulate.Delay.Methods=GET'] })
  for (const method of ['GET', 'HEAD']) assert.equal((await send(url, method, '/api/things/1')).status, 200)
  assert.equal((await send(url, 'DELETE', '/api/things/1')).status, 204)
})

test('nothing is simulated by default', async (t) => {
  const { url, log } = await startHere(t, { data: DATA, flags: ['--Simulate.Error.Probability', '1'] })
  assert.equal((await sendJson(url, 'PUT', '/api/things/1', { n: 1 })).status, 204)
  assert.ok(!log.some((line) => line.includes('SIMULATION')))
})

test('a request is delayed as it asks, for thirty seconds at most', async () => {
  const waitsMs: number[] = []
  const step = delayAsAsked(async (ms) => void waitsMs.push(ms))
  for (const search of [
    '',
    '?_delay=20',
    '?a=1&_delay=1.5',
    '?%5Fdelay=7',
    '?_delay=-1',
    '?_delay=x',
    '?my_delay=9',
    '?_delay=99999',
  ]) {
    await step(apiRequest(`/api/things${search}`), new Reply())
  }
  assert.deepEqual(waitsMs, [20, 1.5, 7, 30_000])
})
