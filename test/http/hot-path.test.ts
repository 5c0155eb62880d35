import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { pino } from 'pino'
import { TrustedProxies } from '../../src/access/addresses.ts'
import { Failures } from '../../src/access/failures.ts'
import { Gate } from '../../src/access/gate.ts'
import { Hosts } from '../../src/access/hosts.ts'
import { Origins } from '../../src/access/origins.ts'
import type { ApiRoute } from '../../src/http/api.ts'
import { hotPath } from '../../src/http/hot-path.ts'
import { type Reply, send } from '../support/requests.ts'
import { startServer } from '../support/server.ts'

const DATA = {
  things: Array.from({ length: 30 }, (_, id) => ({ id, n: id % 3, text: 'ä€😀'.repeat(id % 4) })),
  long: Array.from({ length: 40 }, (_, id) => ({ id, text: 'aä€😀'.repeat(5000) })),
}
/** A page of another origin is none of the plainest requests: what names one is answered through Koa. */
const THROUGH_KOA = { Origin: 'http://localhost' }
const JSON_TYPE = { 'Content-Type': 'application/json' }

interface Asked {
  readonly method: string
  readonly path: string
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
}

const ASKED: readonly Asked[] = [
  { method: 'GET', path: '/api' },
  { method: 'GET', path: '/api/' },
  { method: 'GET', path: '/api/things' },
  { method: 'GET', path: '/api/long' },
  { method: 'GET', path: '/api/long?fields=text&pageSize=39' },
  { method: 'GET', path: '/api/things?n=1&sort=-id&page=2&pageSize=3' },
  { method: 'GET', path: '/api/things?pageSize=0' },
  { method: 'GET', path: '/api/things?text=%C3%A4' },
  { method: 'GET', path: '/api/things?n=1#n=2' },
  { method: 'GET', path: '/api/nothing' },
  { method: 'GET', path: '/api/things/7' },
  { method: 'GET', path: '/api/things/7?asOf=3' },
  { method: 'GET', path: '/api/things/7?asOf=999' },
  { method: 'GET', path: '/api/things/7', headers: { 'If-None-Match': '*' } },
  { method: 'GET', path: '/api/things/7', headers: { 'If-None-Match': '"other"' } },
  { method: 'GET', path: '/api/things/007' },
  { method: 'GET', path: '/api/things/%37' },
  { method: 'GET', path: '/api/things/%' },
  { method: 'GET', path: '/api/nothing/7' },
  { method: 'GET', path: '/api/things/7/text' },
  { method: 'GET', path: '/api/things/7/n/more' },
  { method: 'GET', path: '/api//things' },
  { method: 'GET', path: '/api/things//7' },
  { method: 'GET', path: '/API/things' },
  { method: 'PUT', path: '/api/things/7', headers: JSON_TYPE, body: '{"n":1}' },
  { method: 'PUT', path: '/api/things/7', headers: { ...JSON_TYPE, Prefer: 'return=representation' }, body: '{"n":1}' },
  { method: 'PUT', path: '/api/things/7', headers: { ...JSON_TYPE, 'If-Match': '"other"' }, body: '{"n":1}' },
  { method: 'PUT', path: '/api/things/7', headers: JSON_TYPE, body: '{"n":1' },
  { method: 'PUT', path: '/api/things/7', headers: JSON_TYPE, body: '[]' },
  { method: 'PUT', path: '/api/things/7', headers: JSON_TYPE, body: '' },
  { method: 'PUT', path: '/api/things/7', headers: { 'Content-Type': 'text/plain' }, body: '{"n":1}' },
  { method: 'PUT', path: '/api/things/7', headers: JSON_TYPE, body: `{"n":"${'x'.repeat(3000)}"}` },
  { method: 'PATCH', path: '/api/things/7', headers: JSON_TYPE, body: '{"n":null}' },
  {
    method: 'PATCH',
    path: '/api/things/7',
    headers: { 'Content-Type': 'application/json-patch+json' },
    body: '[{"op":"test","path":"/n","value":9}]',
  },
  { method: 'PATCH', path: '/api/things', headers: JSON_TYPE, body: '{}' },
  { method: 'DELETE', path: '/api/things/999' },
  { method: 'DELETE', path: '/api/nothing/1' },
]

/** What differs from one request to the next whichever way it goes, or says only that a page asked. */
const OWN = ['date', 'x-request-id', 'access-control-allow-origin', 'access-control-expose-headers']

function described({ status, headers, text }: Reply): object {
  const shown = Object.entries(headers).filter(([name]) => !OWN.includes(name))
  return { status, headers: shown.sort(), text }
}

test('the hot path answers as Koa does: status, headers, body', async (t) => {
  const server = () => startServer(t, { data: DATA, flags: ['--Limits.BodyBytes', '2000'] })
  const [hot, koa] = await Promise.all([server(), server()])
  for (const { method, path, headers, body } of ASKED) {
    const sent = { ...(body !== undefined && { body }), headers: { ...headers } }
    const fromHot = await send(hot.url, method, path, sent)
    const fromKoa = await send(koa.url, method, path, { ...sent, headers: { ...headers, ...THROUGH_KOA } })
    const question = `${method} ${path} ${JSON.stringify(headers ?? {})}`
    const uuid = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g
    const [one, other] = [fromHot, fromKoa].map((reply) => JSON.stringify(described(reply)).replaceAll(uuid, 'journal'))
    assert.equal(one, other, question)
    assert.notEqual(fromHot.headers['x-request-id'], fromKoa.headers['x-request-id'])
  }
})

const LEFT = 299

test('the plainest requests are taken, and all others left to Koa', async (t) => {
  const route: ApiRoute = async ({ method, bytes }, reply) => {
    if (method !== 'GET' && method !== 'DELETE') await bytes()
    reply.json('{}')
  }
  const take = hotPath({
    resources: [
      { path: '/api', routes: { GET: route } },
      { path: '/api/:collection', routes: { GET: route, POST: route } },
      { path: '/api/:collection/:id', routes: { GET: route, PUT: route, PATCH: route, DELETE: route } },
      { path: '/api/:collection/:id/*rest', routes: { GET: route } },
    ],
    gate: new Gate({
      access: undefined,
      failures: new Failures(1, () => 0),
      proxies: new TrustedProxies([]),
      origins: new Origins(undefined),
      hosts: new Hosts([]),
      failed: () => {},
    }),
    bodyBytes: 10,
    position: () => 1,
    observe: () => {},
    log: pino({ level: 'silent' }),
    newId: () => 'id',
  })
  const server = createServer((request, response) => {
    if (take(request, response) === 'left') response.writeHead(LEFT).end()
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const isTaken = async (method: string, path: string, headers = {}, body?: string) =>
    (await send(url, method, path, { headers, ...(body !== undefined && { body }) })).status !== LEFT

  for (const path of ['/api/c', '/api/c?a=1', '/api/c/1', '/api/c/%37', '/api/c/1/a/b']) {
    assert.equal(await isTaken('GET', path), true, path)
  }
  assert.equal(await isTaken('POST', '/api/c', JSON_TYPE, '{}'), true)
  assert.equal(await isTaken('PUT', '/api/c/1', JSON_TYPE, '{}'), true)
  assert.equal(await isTaken('DELETE', '/api/c/1'), true)

  for (const path of ['/api', '/api/', '/api/c/', '/api//c', '/API/c', '/events', '/api/c#1']) {
    assert.equal(await isTaken('GET', path), false, path)
  }
  for (const method of ['HEAD', 'OPTIONS', 'TRACE']) assert.equal(await isTaken(method, '/api/c'), false, method)
  assert.equal(await isTaken('GET', '/api/c', THROUGH_KOA), false)
  assert.equal(await isTaken('POST', '/api/c', { ...JSON_TYPE, 'Sec-Fetch-Site': 'cross-site' }, '{}'), false)
  assert.equal(await isTaken('GET', '/api/c', { Host: 'evil.example' }), false)
  assert.equal(await isTaken('PUT', '/api/c/1', JSON_TYPE, '{"a":"too long"}'), false)
  assert.equal(await isTaken('PUT', '/api/c/1', { 'Content-Type': 'text/plain' }, '{}'), false)
  assert.equal(await isTaken('PUT', '/api/c/1', { ...JSON_TYPE, 'Content-Encoding': 'gzip' }, '{}'), false)
  assert.equal(await isTaken('PUT', '/api/c/1', { ...JSON_TYPE, 'Transfer-Encoding': 'chunked' }, '{}'), false)
})
