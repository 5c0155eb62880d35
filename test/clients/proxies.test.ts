import assert from 'node:assert/strict'
import { request } from 'node:http'
import { type TestContext, test } from 'node:test'
import { EventSource } from 'eventsource'
import { authentication, keyOf, passwordOf } from '../support/authentication.ts'
import { openPage, withoutBrowser } from '../support/browser.ts'
import { once, until } from '../support/deadline.ts'
import { plainSocket, socketIo } from '../support/listeners.ts'
import { startProxy } from '../support/proxies.ts'
import { send, sendJson } from '../support/requests.ts'
import { json, startProgram } from '../support/server.ts'
import { PROXIES } from './documented-proxies.ts'

/** Long enough for a proxy to compress it. */
const TEXT = 'text '.repeat(1000)
const AS_BROWSER = { 'Accept-Encoding': 'gzip, deflate, br, zstd' }
const TRUSTED = ['--Limits.TrustedProxies', '127.0.0.1,::1']

for (const { name, start, skip } of PROXIES) {
  const through = async (t: TestContext, flags: readonly string[] = []) => {
    const things = [1, 2].map((id) => ({ id, text: TEXT }))
    const server = await startProgram(t, { data: { things }, flags: [...TRUSTED, ...flags] })
    return { server, url: await start(t, server.url) }
  }

  test(`conditional requests have the tags of compressed responses of ${name}`, { skip }, async (t) => {
    const { url } = await through(t)
    for (const [path, coding] of [
      ['/api/things', 'gzip'],
      ['/api/things/1', 'gzip'],
      ['/api/things/1/text', 'gzip'],
      // The build has compressed it, and the proxy leaves it as it is.
      ['/uplot/uPlot.esm.js', 'br'],
    ] as const) {
      const { status, headers } = await send(url, 'GET', path, { headers: AS_BROWSER })
      assert.deepEqual([status, headers['content-encoding']], [200, coding], path)
      for (const method of ['GET', 'HEAD']) {
        const sent = { ...AS_BROWSER, 'If-None-Match': headers.etag }
        const again = await send(url, method, path, { headers: sent })
        assert.deepEqual([again.status, again.text], [304, ''], `${method} ${path}`)
      }
    }
    for (const [method, path, value] of [
      ['PUT', '/api/things/1', { text: `${TEXT}1` }],
      ['PATCH', '/api/things/1', { text: `${TEXT}2` }],
      ['PUT', '/api/things/1/text', `${TEXT}3`],
    ] as const) {
      const { headers } = await send(url, 'GET', path, { headers: AS_BROWSER })
      const sent = { ...AS_BROWSER, 'If-Match': headers.etag }
      assert.equal((await sendJson(url, method, path, value, sent)).status, 204, `${method} ${path}`)
      assert.equal((await sendJson(url, method, path, value, sent)).status, 412, `${method} ${path} again`)
    }
    const { headers } = await send(url, 'GET', '/api/things/2', { headers: AS_BROWSER })
    const sent = { headers: { ...AS_BROWSER, 'If-Match': headers.etag } }
    assert.equal((await send(url, 'DELETE', '/api/things/2', sent)).status, 204)
    assert.equal((await send(url, 'DELETE', '/api/things/2', sent)).status, 412)
  })

  test(`the item panel edits and deletes an item through ${name}`, { skip: skip || withoutBrowser }, async (t) => {
    const { server, url } = await through(t)
    const { page, errors } = await openPage(t, `${url}/?collection=things&item=1`)
    for (const n of [1, 2]) {
      await page.getByRole('button', { name: 'Edit' }).click()
      await page.getByLabel('Item as JSON').fill(JSON.stringify({ n, text: TEXT }))
      await page.getByRole('button', { name: 'Save' }).click()
      await page.locator(`#table tbody tr:has(th a:text-is("1")) td:text-is("${n}")`).waitFor()
    }
    await page.getByRole('button', { name: 'Delete' }).click()
    await page.locator('#table tbody tr:has(th a:text-is("1"))').waitFor({ state: 'detached' })
    assert.equal((await server.fetch('/api/things/1')).status, 404)
    // The deleted item is requested once more.
    assert.deepEqual(
      errors.filter((error) => !error.includes('404')),
      [],
    )
  })

  test(`events come through ${name} at once`, { skip }, async (t) => {
    const { server, url } = await through(t, authentication(['token', 'apikey']))
    const credentials = new URLSearchParams({ username: 'reader', password: passwordOf('reader') })
    const granted = await server.fetch('/token', { method: 'POST', body: credentials })
    const { access_token: token } = (await granted.json()) as { access_token: string }
    const es = new EventSource(`${url}/events?from=3&access_token=${token}`)
    t.after(async () => es.close())
    const positions: string[] = []
    es.addEventListener('message', ({ lastEventId }) => positions.push(lastEventId))
    await until('the last event', () => positions.length === 1)

    const headers = { 'X-API-KEY': keyOf('reader'), Accept: 'application/x-ndjson', ...AS_BROWSER }
    const lines = request(`${url}/events?from=3&follow=true`, { headers }).end()
    t.after(() => lines.destroy())
    const [response] = await once(lines, 'response')
    assert.equal(response.headers['content-encoding'], 'identity')
    let received = ''
    response.setEncoding('utf8').on('data', (text: string) => {
      received += text
    })
    await until('the last line', () => received.split('\n').length === 2)

    const write = json('POST', { n: 1 }, { 'X-API-KEY': keyOf('writer') })
    assert.equal((await server.fetch('/api/things', write)).status, 201)
    await until('the new event', () => positions.join() === '3,4')
    await until('the new line', () => received.split('\n').length === 3)
  })

  test(`sockets work through ${name}`, { skip }, async (t) => {
    const { server, url } = await through(t)
    const sockets = [await plainSocket(t, url), await socketIo(t, url), await socketIo(t, url, 'polling')]
    assert.equal((await server.fetch('/api/things/1', json('PATCH', { n: 1 }))).status, 204)
    for (const socket of sockets) assert.equal((await socket.upTo(4)).at(-1)?.path, '/api/things/1')
  })

  test(`behind ${name} the server knows the addresses of clients, and pages of its own host`, { skip }, async (t) => {
    const { server, url } = await through(t, authentication(['token', 'apikey']))
    const asked = request(`${url}/api`, {
      localAddress: '127.0.0.2',
      headers: { 'X-API-KEY': 'wrong', 'X-Forwarded-For': '203.0.113.9' },
    }).end()
    const [{ statusCode }] = await once(asked, 'response')
    assert.equal(statusCode, 401)
    await until('the line of the failed login', () => server.stderr().includes('a login failed'))
    assert.match(server.stderr(), /"address":"127\.0\.0\.2"/)
    assert.doesNotMatch(server.stderr(), /203\.0\.113\.9/)
    for (const [origin, status] of [
      ['https://data.example', 201],
      ['https://other.example', 403],
    ] as const) {
      const ofPage = { Host: 'data.example', Origin: origin, 'X-Forwarded-Prefix': '/x' }
      const headers = { 'X-API-KEY': keyOf('writer'), ...ofPage }
      const { status: actual, headers: sent } = await sendJson(url, 'POST', '/api/things', { n: 1 }, headers)
      assert.equal(actual, status, origin)
      if (status === 201) assert.equal(sent.location, '/api/things/3')
    }
  })

  test(`large batches and long queries come through ${name}`, { skip }, async (t) => {
    const { url } = await through(t)
    const lines = Array.from({ length: 2000 }, (_, n) => JSON.stringify({ n, text: TEXT })).join('\n')
    assert.ok(lines.length > 9 * 1024 * 1024 && lines.length < 10 * 1024 * 1024)
    const batch = { headers: { 'Content-Type': 'application/x-ndjson' }, body: lines }
    assert.equal((await send(url, 'POST', '/api/readings', batch)).status, 201)
    const ids = Array.from({ length: 2000 }, (_, n) => n + 1_000_000).join()
    const query = `?n=7&fields=n&id_ne=1&id_in=7,${ids}`
    assert.ok(query.length > 15_000 && query.length < 16_384)
    const found = await send(url, 'GET', `/api/readings${query}`, { headers: AS_BROWSER })
    assert.deepEqual([found.status, found.json()], [200, [{ n: 7 }]])
  })

  test(`${name} keeps its connections to the server`, { skip }, async (t) => {
    const server = await startProgram(t, { data: { things: [{ id: 1 }] } })
    const counted = await startProxy(t, Number(new URL(server.url).port))
    const url = await start(t, `http://127.0.0.1:${counted.port}`)
    for (let n = 0; n < 50; n++) assert.equal((await sendJson(url, 'POST', '/api/things', { n })).status, 201)
    assert.ok(counted.connections() < 10, `${counted.connections()} connections for 50 requests`)
  })
}
