import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { realpath, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, type TestContext, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import Router from '@koa/router'
import type { Middleware } from 'koa'
import koaBody from 'koa-body'
import { connect } from '../src/client/index.ts'
import { segmentName } from '../src/events/segment.ts'
import { type KoaContext, type RunningServer, type StartOptions, start } from '../src/library/index.ts'
import type { Refusal } from '../src/runtime/errors.ts'
import { fetch, until, within } from './support/deadline.ts'
import { type Scope, temporaryDirectory } from './support/directory.ts'
import { startProcess } from './support/process.ts'
import { json } from './support/server.ts'

const LIBRARY = fileURLToPath(new URL('../dist/library/index.js', import.meta.url))
const PEOPLE = { people: [{ id: 1, name: 'Ada' }] }

// Other tests make directories in the usual place.
const TEMPORARY = await temporaryDirectory({ after })
process.env.TMPDIR = TEMPORARY

/** It ends with the test. */
async function started(t: TestContext, options?: StartOptions): Promise<RunningServer> {
  const server = await start(options)
  t.after(() => server.close())
  return server
}

async function read(url: string, init?: RequestInit): Promise<unknown> {
  return (await fetch(url, init)).json()
}

/** A program in a directory, as its author runs it. */
async function run(
  t: Scope,
  directory: string,
  source: string,
  under: readonly string[] = [],
  env: NodeJS.ProcessEnv = {},
) {
  const file = join(directory, 'program.mjs')
  await writeFile(file, source.replaceAll("'recollect'", JSON.stringify(LIBRARY)))
  const program = startProcess(t, [...under, process.execPath, file], { cwd: directory, env })
  const { code } = await program.ended()
  return { code, output: program.output() }
}

function temporaryNames(): readonly string[] {
  return readdirSync(TEMPORARY)
}

test('a server with data in memory serves it on a free port, and leaves no files behind', async () => {
  const server = await start({ data: PEOPLE })
  try {
    assert.match(server.url, /^http:\/\/127\.0\.0\.1:[1-9]\d*$/)
    assert.deepEqual(await read(`${server.url}/api/people`), PEOPLE.people)
    assert.equal((await fetch(`${server.url}/api/people`, json('POST', { name: 'Grace' }))).status, 201)
    assert.deepEqual(await read(`${server.url}/api/people?name=Grace`), [{ name: 'Grace', id: 2 }])
    assert.equal((await fetch(`${server.url}/`)).status, 200)
    assert.equal(temporaryNames().length, 1)
  } finally {
    await server[Symbol.asyncDispose]()
  }
  await server.close()
  assert.deepEqual(temporaryNames(), [])
  await assert.rejects(fetch(`${server.url}/api`))
  assert.deepEqual(PEOPLE, { people: [{ id: 1, name: 'Ada' }] })
})

test('a server reads its settings object again when an admin asks for it', async (t) => {
  const admin = { Name: 'admin', Key: 'the key of the admin' }
  const Authentication = { Enabled: true, AuthenticationType: 'apikey', ApiKeys: [admin] }
  const { url } = await started(t, { data: PEOPLE, settings: { Authentication } })
  const headers = { 'X-API-KEY': 'a new key' }
  assert.equal((await fetch(`${url}/api/people`, { headers })).status, 401)
  Authentication.ApiKeys.push({ Name: 'reader', Key: 'a new key' })
  const reloading = { method: 'POST', headers: { 'X-API-KEY': admin.Key } }
  const reloaded = { users: 0, apiKeys: 2, schemas: [], restartRequired: [] }
  assert.deepEqual(await read(`${url}/admin/settings/reload`, reloading), reloaded)
  assert.equal((await fetch(`${url}/api/people`, { headers })).status, 200)
})

test('a server without file and data starts with no collections', async (t) => {
  const { url } = await started(t)
  assert.deepEqual(await read(`${url}/api`), [])
})

test('a server with a file keeps its journal beside it, for the next start', async (t) => {
  const file = join(await temporaryDirectory(t), 'db.json')
  const first = await start({ file })
  await fetch(`${first.url}/api/people`, json('POST', { name: 'Ada' }))
  await assert.rejects(start({ file }), /another process|in use|lock/i)
  await first.close()
  const second = await started(t, { file })
  assert.deepEqual(await read(`${second.url}/api/people/0`), { name: 'Ada', id: 0 })
  assert.deepEqual(
    await read(`${second.url}/api/people?asOf=0`, {}).then((body) => (body as { status: number }).status),
    404,
  )
})

test('several servers in one process are independent', async (t) => {
  const servers = await Promise.all([1, 2, 3].map((n) => started(t, { data: { things: [{ id: n }] } })))
  const clients = servers.map(({ url }) => connect(url))
  const lists = await Promise.all(
    clients.map(async (client) => {
      const list = client.collection<{ id: number }>('things').live()
      await within('the items of a live list', list.ready)
      return list
    }),
  )
  await Promise.all(servers.map(({ url }, n) => fetch(`${url}/api/things`, json('POST', { n }))))
  for (const [n, list] of lists.entries()) {
    await until('the new item in the list', () => list.total >= 2)
    assert.deepEqual(list.items, [{ id: n + 1 }, { n, id: n + 2 }])
  }
  for (const client of clients) client.close()
  await servers[0]?.close()
  assert.deepEqual(await read(`${servers[1]?.url}/api/things/2`), { id: 2 })
})

test('settings have the names of appsettings.json; every mistake is reported, and nothing is created', async (t) => {
  const closed = await started(t, {
    data: PEOPLE,
    settings: {
      Authentication: { Enabled: true, AuthenticationType: ['apikey'], ApiKey: 'k'.repeat(32) },
      Http: { BasePath: '/below' },
    },
  })
  assert.ok(closed.url.endsWith('/below'))
  assert.equal((await fetch(`${closed.url}/api/people`)).status, 401)
  assert.equal((await fetch(`${closed.url}/api/people`, { headers: { 'X-API-KEY': 'k'.repeat(32) } })).status, 200)

  const before = temporaryNames()
  await assert.rejects(
    start({ settings: { Api: { UpsertOnput: true }, Apy: {} } }),
    /^BadSettings: settings: .*\nsettings: /,
  )
  await assert.rejects(start({ settings: { Log: 'loud' } }), /settings: Log must be an object/)
  await assert.rejects(start({ data: { people: [1] as unknown as object } }), /people/)
  await assert.rejects(start({ settings: { Http: { Static: join(TEMPORARY, 'none') } } }), /none, does not exist/)
  await assert.rejects(start({ port: 65_536 }), /65536/)
  await assert.rejects(start({ file: 'db.json', data: {} }), TypeError)
  await assert.rejects(start({ dat: {} } as unknown as StartOptions), /no option "dat"; did you mean data\?/)
  await assert.rejects(start('db.json' as unknown as StartOptions), /takes an object of options/)
  assert.deepEqual(
    temporaryNames().filter((name) => !before.includes(name)),
    [],
  )
})

test('Http.Static names a directory that is served before the packaged pages', async (t) => {
  const directory = await temporaryDirectory(t)
  await writeFile(join(directory, 'index.html'), '<p>mine</p>')
  const { url } = await started(t, { settings: { Http: { Static: directory } } })
  assert.equal(await (await fetch(`${url}/`)).text(), '<p>mine</p>')
  assert.equal((await fetch(`${url}/collections.html`)).status, 200)
})

test('middleware gets each request first, and authorization applies to the request that it passes on', async (t) => {
  const router = new Router()
  router.get('/hello', (ctx) => {
    ctx.body = 'world'
  })
  router.post('/echo', koaBody() as unknown as Parameters<typeof router.use>[0], (ctx) => {
    ctx.body = (ctx.request as { body?: unknown }).body
  })
  router.get('/teapot', (ctx) => ctx.throw(418, 'short and stout'))
  const rewrite: Middleware = (ctx, next) => {
    if (ctx.path.startsWith('/v1/')) ctx.path = ctx.path.replace('/v1/', '/api/')
    ctx.set('X-Seen', 'yes')
    return next()
  }
  const own = (ctx: KoaContext, next: () => Promise<unknown>): unknown => {
    if (ctx.path !== '/own') return next()
    ctx.body = { own: 1 }
  }
  const server = await started(t, {
    data: PEOPLE,
    settings: { Authentication: { Enabled: true, AuthenticationType: ['apikey'], ApiKey: 'k'.repeat(32) } },
    middleware: [rewrite, router.routes(), own],
  })
  const headers = { 'X-API-KEY': 'k'.repeat(32) }
  assert.equal(await (await fetch(`${server.url}/hello`)).text(), 'world')
  assert.deepEqual(await read(`${server.url}/echo`, json('POST', { n: 1 })), { n: 1 })
  assert.deepEqual(await read(`${server.url}/own`), { own: 1 })
  const teapot = await fetch(`${server.url}/teapot`)
  assert.deepEqual([teapot.status, await teapot.text()], [418, 'short and stout'])
  assert.equal((await fetch(`${server.url}/v1/people`)).status, 401)
  const seen = await fetch(`${server.url}/v1/people/1`, { headers })
  assert.deepEqual(await seen.json(), PEOPLE.people[0])
  assert.equal(seen.headers.get('x-seen'), 'yes')
  const created = await fetch(`${server.url}/api/people`, json('POST', { name: 'Grace' }, headers))
  assert.equal(created.status, 201)
  assert.equal(created.headers.get('x-seen'), 'yes')
})

test('middleware gets every request, even without authentication', async (t) => {
  const paths: string[] = []
  const note: Middleware = (ctx, next) => {
    paths.push(ctx.path)
    return next()
  }
  const { url } = await started(t, { data: PEOPLE, middleware: [note] })
  for (const path of ['/api/people', '/api/people/1', '/api']) assert.equal((await fetch(url + path)).status, 200)
  assert.deepEqual(paths, ['/api/people', '/api/people/1', '/api'])
})

test('a body that was consumed by middleware is rejected where the server needs it, with the reason', async (t) => {
  const { url } = await started(t, { data: PEOPLE, middleware: [koaBody() as unknown as Middleware] })
  const answer = await fetch(`${url}/api/people`, json('POST', { name: 'Grace' }))
  assert.equal(answer.status, 400)
  assert.match(((await answer.json()) as { detail: string }).detail, /^The body could not be read/)
})

test('reset returns to the first data between tests, with the same ids again, and keeps the journal', async (t) => {
  const server = await started(t, { data: PEOPLE })
  const people = `${server.url}/api/people`
  for (let round = 1; round <= 3; round++) {
    const { id } = (await read(people, json('POST', { name: 'Grace' }))) as { id: number }
    assert.equal(id, 2)
    await fetch(`${people}/1`, { method: 'DELETE' })
    const position = await server.reset()
    assert.deepEqual(await read(people), PEOPLE.people)
    assert.equal(await server.reset(), position, 'nothing is left to do')
  }
  const events = (await read(`${server.url}/events?collection=people&id=2`)) as { revision: number; actor: string }[]
  assert.deepEqual(
    events.map(({ revision, actor }) => [revision, actor]),
    [1, 2, 3, 4, 5, 6].map((revision) => [revision, revision % 2 === 0 ? 'library' : 'anonymous']),
  )
})

test('reset to data makes it the state, with the ids of a start with it', async (t) => {
  const server = await started(t, { data: PEOPLE })
  const data = { tasks: [{ title: 'a' }, { id: 7, title: 'b' }, { title: 'c' }], theme: { dark: true } }
  for (let round = 0; round < 2; round++) {
    await server.reset(data)
    assert.deepEqual(await read(`${server.url}/api`), ['tasks', 'theme'])
    assert.deepEqual(await read(`${server.url}/api/tasks`), [
      { id: 8, title: 'a' },
      { id: 7, title: 'b' },
      { id: 9, title: 'c' },
    ])
    assert.deepEqual(await read(`${server.url}/api/theme`), data.theme)
    assert.deepEqual(await read(`${server.url}/api/tasks`, json('POST', { title: 'd' })), { id: 10 })
    assert.deepEqual(await read(`${server.url}/api/people`, json('POST', {})), { id: 0 })
  }
  await server.reset()
  assert.deepEqual(await read(`${server.url}/api`), ['people'])
  assert.deepEqual(await read(`${server.url}/api/people`, json('POST', {})), { id: 2 })
})

test('reset to invalid data rejects with the place and changes nothing', async (t) => {
  const settings = { Collections: { people: { Schema: { required: ['name'] } } } }
  const server = await started(t, { data: PEOPLE, settings })
  for (const [data, place] of [
    [{ people: [{ name: 'Ada' }, 7] }, '/people/1'],
    [{ people: [{ id: 1 }, { id: 1 }] }, '/people/1/id'],
    [{ people: [{ id: 1, name: 'Ada' }, { id: 2 }] }, '/people/1'],
    [{ people: [{ id: null, name: 'Ada' }] }, '/people/0/id'],
    [[], ''],
  ] as const) {
    await assert.rejects(server.reset(data as object as Record<string, object>), (error: Error) => {
      const [fault] = (error as Refusal).faults
      return fault?.pointer === place || assert.fail(`${JSON.stringify(fault)}: ${error.message}`)
    })
  }
  assert.deepEqual(await read(`${server.url}/api/people`), PEOPLE.people)
})

test('reset rejects on a read-only server and after close', async (t) => {
  const server = await started(t, { data: PEOPLE, settings: { Api: { ReadOnly: true } } })
  await assert.rejects(server.reset(), { code: 'MethodNotAllowed' })
  const closed = await started(t, { data: PEOPLE })
  await closed.close()
  await assert.rejects(closed.reset({ people: [] }), { code: 'Unavailable' })
})

test('a program exits when its servers are closed, and keeps its own signal handlers', async (t) => {
  const { code, output } = await run(
    t,
    await temporaryDirectory(t),
    `import { start } from 'recollect'
    const count = () => ['SIGTERM', 'SIGINT', 'uncaughtException', 'unhandledRejection', 'exit'].map((name) => process.listenerCount(name))
    const before = count()
    for (let round = 0; round < 3; round++) {
      const [one, other] = await Promise.all([start({ data: { a: [] } }), start()])
      await fetch(one.url + '/api/a', { method: 'POST', body: '{}', headers: { 'Content-Type': 'application/json' } })
      await (await fetch(one.url + '/metrics')).text()
      await new Promise((resolve) => { new WebSocket(one.url.replace('http', 'ws') + '/ws').onopen = resolve })
      await Promise.all([one.close(), other.close()])
    }
    console.log(String(before) === String(count()))`
      .replace('new WebSocket(', `new (await import(${JSON.stringify(import.meta.resolve('ws'))})).WebSocket(`)
      .replace('await new Promise((resolve) => {', 'await new Promise(async (resolve) => {'),
  )
  assert.deepEqual({ code, output }, { code: 0, output: 'true\n' })
})

const STRACE = process.env.STRACE ?? '/usr/bin/strace'

test('when the journal can no longer be written the server stops and close rejects with the reason; the process continues', {
  skip: existsSync(STRACE) ? false : 'strace is missing',
}, async (t) => {
  const directory = await temporaryDirectory(t)
  const file = join(directory, 'db.json')
  await (await start({ file })).close()
  const segment = await realpath(join(directory, 'db.journal', segmentName(1)))
  const { code, output } = await run(
    t,
    directory,
    `import { start } from 'recollect'
    const server = await start({ file: ${JSON.stringify(file)} })
    const post = () => fetch(server.url + '/api/a', { method: 'POST', body: '{}', headers: { 'Content-Type': 'application/json' } })
    console.log(await post().then(({ ok }) => ok, () => false))
    while (await fetch(server.url + '/health').then(() => true, () => false)) await new Promise((resolve) => setTimeout(resolve, 10))
    console.log(await server.close().then(() => 'closed', ({ code }) => code))`,
    [
      STRACE,
      '-f',
      '-qqq',
      '-o',
      '/dev/null',
      '-P',
      segment,
      '-e',
      'trace=pwrite64',
      '-e',
      'inject=pwrite64:error=EIO:when=1',
    ],
    { UV_THREADPOOL_SIZE: '1' },
  )
  assert.deepEqual({ code, output }, { code: 0, output: 'false\nEIO\n' })
})
