import assert from 'node:assert/strict'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import WebSocket from 'ws'
import { connect } from '../../src/client/index.ts'
import { isOwnPath, parseBasePath } from '../../src/http/base-path.ts'
import { fetch, once, within } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { startReverseProxy } from '../support/proxies.ts'
import { send } from '../support/requests.ts'
import { json, type RunningServer } from '../support/server.ts'
import { startServer } from '../support/service.ts'

const DATA = { things: [{ id: 1 }, { id: 2 }, { id: 3 }] }
const TRUSTING = ['--Limits.TrustedProxies', '127.0.0.1']

const server = await startServer({ after }, { data: DATA, flags: ['--Http.BasePath', '/recollect'] })
const trusting = await startServer({ after }, { data: DATA, flags: TRUSTING })

const PROXIES: readonly (readonly [string, RunningServer, string, boolean, Record<string, string>])[] = [
  ['that strips the path of Http.BasePath', server, '/recollect', true, {}],
  ['that leaves the path of Http.BasePath', server, '/recollect', false, {}],
  ['that strips the path and names it', trusting, '/deep/path', true, { 'X-Forwarded-Prefix': '/deep/path/' }],
  ['that leaves the path and names it', trusting, '/deep/path', false, { 'X-Forwarded-Prefix': '/deep/path' }],
  // A collection could be named like the rest of the prefix, so only one that strips can use such a name.
  ['whose path begins like one of the server', trusting, '/api/x', true, { 'X-Forwarded-Prefix': '/api/x' }],
]

for (const [index, [name, target, prefix, strips, headers]] of PROXIES.entries()) {
  test(`behind a proxy ${name}`, async (t) => {
    const url = await startReverseProxy(t, target.url, { prefix, strips, headers })

    await t.test('Location, Link and the instance of a problem include the base path', async () => {
      const created = await fetch(`${url}/api/things`, json('POST', {}))
      assert.equal(created.status, 201)
      const location = String(created.headers.get('location'))
      assert.ok(location.startsWith(`${prefix}/api/things/`), location)
      assert.equal((await fetch(new URL(location, url))).status, 200)

      for (const path of ['/api/things?pageSize=1&page=2', '/events?limit=1']) {
        const link = String((await fetch(url + path)).headers.get('link'))
        const targets = [...link.matchAll(/<([^>]*)>/g)].map(([, target]) => String(target))
        assert.ok(targets.length > 0)
        for (const target of targets) {
          assert.ok(target.startsWith(`${prefix}${path.split('?')[0]}?`), target)
          assert.equal((await fetch(new URL(target, url))).status, 200, target)
        }
      }

      for (const path of ['/api/things/none', '/nothing', '/api/things?pageSize=x']) {
        const problem = (await (await fetch(url + path)).json()) as { instance: string }
        assert.equal(problem.instance, (prefix + path).split('?')[0])
      }
    })

    await t.test('every address in the pages and in Swagger UI leads to a file', async () => {
      for (const page of ['/', '/home.html', '/sensors.html', '/journal.html', '/collections.html', '/swagger/']) {
        const html = await (await fetch(url + page)).text()
        const addresses = [...html.matchAll(/(?:src|href)="(?!data:)([^"#]+)"/g)].map(([, address]) => String(address))
        assert.ok(addresses.length >= 2, page)
        for (const address of addresses) {
          const found = new URL(address, url + page)
          assert.ok(found.pathname.startsWith(`${prefix}/`), found.href)
          assert.equal((await fetch(found)).status, address === 'api/sensors' ? 404 : 200, found.href)
        }
      }
      const redirected = await fetch(`${url}/swagger`)
      assert.equal(redirected.url, `${url}/swagger/`)
    })

    await t.test('the servers of the OpenAPI document are relative addresses that work', async () => {
      const document = (await (await fetch(`${url}/openapi.json`)).json()) as { servers: readonly { url: string }[] }
      assert.deepEqual(
        document.servers.map(({ url: relative }) => new URL(relative, `${url}/openapi.json`).href),
        [`${url}/`],
      )
    })

    await t.test('Socket.IO and /ws report a change below the base path', async () => {
      const client = connect(url)
      const live = client.collection<{ n?: number }>('things').where({ n: index }).live()
      await within('the items of a live list', live.ready)
      const plain = new WebSocket(`${url.replace('http', 'ws')}/ws`)
      await once(plain, 'open')
      const told = once(plain, 'message')
      const changed = live[Symbol.asyncIterator]().next()
      await within('the new item', client.collection('things').create({ n: index }))
      assert.equal((JSON.parse(String((await told)[0])) as { collection: string }).collection, 'things')
      await within('the change in a live list', changed)
      assert.equal(live.total, 1)
      plain.close()
      client.close()
    })
  })
}

test('the base path without a trailing slash redirects to the one with it', async (t) => {
  const url = await startReverseProxy(t, server.url, { prefix: '/recollect', strips: false })
  const answer = await fetch(`${url}?at=3`, { redirect: 'manual' })
  assert.equal(answer.status, 308)
  assert.equal(new URL(String(answer.headers.get('location')), url).href, `${url}/?at=3`)
})

test('only the base path itself is removed, once, in every form of the request target', async () => {
  for (const [path, status] of [
    ['/recollect/api/things/1', 200],
    ['/api/things/1', 200],
    ['http://localhost/recollect/api/things/1', 200],
    ['/recollectapi/things/1', 404],
    ['/recollect/recollect/api/things/1', 404],
    ['/RECOLLECT/api/things/1', 404],
    ['/recollect/../api/things/1', 404],
  ] as const) {
    assert.equal((await send(server.url, 'GET', path)).status, status, path)
  }
})

test('the base path is removed once also from a request that offers an upgrade', async () => {
  const offer = { Connection: 'Upgrade', Upgrade: 'h2c' }
  for (const [path, status] of [
    ['/recollect/api/things', 200],
    ['/recollect/recollect/api/things', 404],
    ['/recollect/recollect/health', 404],
    ['http://127.0.0.1/recollect/api/things', 200],
  ] as const) {
    assert.equal((await send(server.url, 'GET', path, { headers: offer })).status, status, path)
  }
})

test('a collection named like the end of the base path is no base path', async (t) => {
  const headers = { 'X-Forwarded-Prefix': '/api/things' }
  const url = await startReverseProxy(t, trusting.url, { prefix: '/api/things', strips: true, headers })
  const answer = await fetch(`${url}/api/things?pageSize=1`, { redirect: 'manual' })
  assert.equal(answer.status, 200)
  assert.match(String(answer.headers.get('link')), /^<\/api\/things\/api\/things\?/)
})

test('X-Forwarded-Prefix is ignored when it is no path or does not come from a trusted proxy', async () => {
  const linkOf = async ({ url }: RunningServer, prefix: string): Promise<string> => {
    const headers = { 'X-Forwarded-Prefix': prefix }
    const { headers: answered } = await send(url, 'GET', '/api/things?pageSize=1', { headers })
    return String(answered.link).split('?')[0] as string
  }
  assert.equal(await linkOf(server, '/evil'), '</recollect/api/things')
  for (const prefix of [
    '//evil.example',
    'https://evil.example',
    '/a b',
    '/a"',
    '/<b>',
    '/..',
    `/${'x'.repeat(300)}`,
  ]) {
    assert.equal(await linkOf(trusting, prefix), '</api/things', prefix)
  }
  assert.equal(await linkOf(trusting, '/of-the-client, /of-the-proxy'), '</of-the-proxy/api/things')
})

test('permissions are checked below the base path, too', async (t) => {
  const flags = [
    '--Http.BasePath',
    '/recollect',
    '--Authentication.Enabled',
    'true',
    '--Authentication.ApiKey',
    'k'.repeat(32),
  ]
  const closed = await startServer(t, {
    data: DATA,
    flags: [...flags, '--Authentication.AuthenticationType', 'apikey'],
  })
  for (const path of ['/recollect/api/things', '/recollect/events', '/recollect/admin/reload', '/recollect/api']) {
    assert.equal((await closed.fetch(path)).status, 401, path)
    assert.notEqual((await closed.fetch(path, { headers: { 'X-API-KEY': 'k'.repeat(32) } })).status, 401, path)
  }
})

test('a base path may not begin like a path of the server', async () => {
  const { paths } = (await (await server.fetch('/openapi.json')).json()) as { paths: object }
  for (const path of [...Object.keys(paths), '/ws', '/socket.io', '/client', '/uplot', '/assets']) {
    assert.ok(isOwnPath(path), path)
  }
  assert.equal(isOwnPath('/recollect'), false)
})

test('a base path may only have characters that mean the same in addresses, headers and HTML', () => {
  for (const path of ['/a', '/a/b.c', '/a-b_c~1', '/@user/x:y']) {
    assert.equal(parseBasePath(path), path)
    assert.equal(parseBasePath(`${path}/`), path)
  }
  for (const path of ['', '/']) assert.equal(parseBasePath(path), '')
  for (const path of ['a', '//', '//a', '/a//b', '/./a', '/a/..', '/a?b', '/a#b', '/%61', '/é', '/a,b', '/a\n']) {
    assert.equal(parseBasePath(path), undefined, path)
  }
})

test('files of the user and packaged pages are served side by side', async (t) => {
  const directory = await temporaryDirectory(t)
  await mkdir(join(directory, 'wwwroot', 'css'), { recursive: true })
  await writeFile(join(directory, 'wwwroot', 'index.html'), '<p>mine</p>')
  await writeFile(join(directory, 'wwwroot', 'css', 'base.css'), 'p { color: red }')
  const own = await startServer(t, { directory, data: DATA })
  assert.equal(await (await own.fetch('/')).text(), '<p>mine</p>')
  assert.equal(await (await own.fetch('/css/base.css')).text(), 'p { color: red }')
  for (const [path, title] of [
    ['/home.html', 'Home'],
    ['/collections.html', 'Collections'],
    ['/sensors.html', 'Sensors'],
    ['/journal.html', 'Journal'],
  ] as const) {
    assert.match(await (await own.fetch(path)).text(), new RegExp(`<title>${title} ·`))
  }
})
