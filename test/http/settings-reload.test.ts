import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { test } from 'node:test'
import { WebSocket } from 'ws'
import type { Gate } from '../../src/access/gate.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { LimitedLog } from '../../src/runtime/limited-log.ts'
import { SettingsReload } from '../../src/server/settings-reload.ts'
import type { Settings } from '../../src/settings/settings.ts'
import { SILENT } from '../support/cluster.ts'
import { fetch, once, until } from '../support/deadline.ts'
import { type Scope, temporaryDirectory } from '../support/directory.ts'
import { json, ofOneServer, startProgram } from '../support/server.ts'
import { startHere } from '../support/service.ts'

const ADMIN = { Name: 'admin', Key: 'the key of the admin' }
const READER = { Name: 'display', Key: 'the key of the display', Role: 'reader' }
const USER = { Username: 'anna', Password: 'her password', Role: 'writer' }
const AUTHENTICATION = {
  Enabled: true,
  AuthenticationType: ['token', 'basic', 'apikey'],
  Users: [USER],
  ApiKeys: [ADMIN, READER],
}
const key = (text: string) => ({ 'X-API-KEY': text })
const password = (text: string) => ({ Authorization: `Basic ${Buffer.from(`anna:${text}`).toString('base64')}` })

interface Reloaded {
  readonly users: number
  readonly apiKeys: number
  readonly schemas: readonly string[]
  readonly restartRequired: readonly string[]
}

/** A server with a settings file, and a schema in a file of its own. */
async function started(t: Scope, initial: object = { Authentication: AUTHENTICATION }) {
  const directory = await temporaryDirectory(t)
  const change = (settings: object) => writeFile(join(directory, 'settings.json'), JSON.stringify(settings))
  await change(initial)
  const flags = ['--settings', join(directory, 'settings.json'), '--Limits.PageSize', '50']
  const server = await startProgram(t, { directory, data: { things: [{ id: 1 }] }, flags })
  const reload = () => server.fetch('/admin/settings/reload', { method: 'POST', headers: key(ADMIN.Key) })
  const status = async (headers: Record<string, string>, path = '/api/things/1') =>
    (await server.fetch(path, { headers })).status
  return { ...server, change, reload, status }
}

const oneServer = { skip: ofOneServer('each node of a cluster reads its own settings') }

test(
  'users and API keys are read again: new ones are accepted, removed and changed ones are not',
  oneServer,
  async (t) => {
    const { change, reload, status } = await started(t)
    assert.equal(await status(password('her password')), 200)
    const Users = [{ ...USER, Password: 'another password' }]
    const ApiKeys = [ADMIN, { ...READER, Key: 'a new key', Role: 'writer' }]
    await change({ Authentication: { ...AUTHENTICATION, Users, ApiKeys } })
    assert.equal(await status(key(READER.Key)), 200, 'nothing changes before the reload')
    const reply = await reload()
    assert.equal(reply.status, 200)
    assert.deepEqual(await reply.json(), { users: 1, apiKeys: 2, schemas: [], restartRequired: [] })
    assert.equal(await status(password('her password')), 401)
    assert.equal(await status(password('another password')), 200)
    assert.equal(await status(key(READER.Key)), 401)
    assert.equal(await status(key('a new key')), 200)
  },
)

test('SIGHUP reads them again as well, and the log says what was read, or why not', oneServer, async (t) => {
  const { change, status, process, stderr } = await started(t)
  await change({ Authentication: { ...AUTHENTICATION, ApiKeys: [ADMIN, { ...READER, Key: 'a new key' }] } })
  process.kill('SIGHUP')
  await until('the log line', () => stderr().includes('"apiKeys":2,"schemas":[]'))
  assert.equal(await status(key('a new key')), 200)
  await change({ Authentication: { ...AUTHENTICATION, ApiKeys: [ADMIN, { ...READER, Role: 'owner' }] } })
  process.kill('SIGHUP')
  await until('the refusal', () => stderr().includes('ApiKeys[1].Role must be one of reader, writer, admin'))
  assert.equal(await status(key('a new key')), 200)
})

test(
  'a mistake in users, API keys, schemas or the file keeps all that was in use, and is named',
  oneServer,
  async (t) => {
    const { change, reload, status, directory } = await started(t)
    const ApiKeys = [ADMIN, { ...READER, Key: 'a new key' }]
    const rows: readonly (readonly [settings: object | string, says: RegExp])[] = [
      [{ ...AUTHENTICATION, ApiKeys: [...ApiKeys, { Name: 'x', Key: '' }] }, /ApiKeys\[2\]\.Key must be text/],
      [{ ...AUTHENTICATION, ApiKeys, Users: [USER, USER] }, /"anna" is used twice/],
      [{ ...AUTHENTICATION, ApiKeys, Users: [{ ...USER, Rolle: 'reader' }] }, /unknown key Rolle/],
      [{ Enabled: false, Users: [USER] }, /Authentication\.ApiKey or Authentication\.ApiKeys is needed/],
      [{ ...AUTHENTICATION, AuthenticationType: ['apikey'], ApiKeys, Users: [] }, /Authentication\.Users is needed/],
    ]
    for (const [Authentication, says] of rows) {
      await change({ Authentication })
      await refused(reload, says)
    }
    const schemas: readonly (readonly [schema: unknown, says: RegExp])[] = [
      [{ type: 'nothing' }, /The schema of .*things.* is not a usable JSON Schema/],
      ['nowhere.json', /nowhere\.json, which does not exist/],
      [7, /must be a JSON Schema or the path of one/],
    ]
    for (const [things, says] of schemas) {
      await change({ Authentication: { ...AUTHENTICATION, ApiKeys }, Api: { Schemas: { things } } })
      await refused(reload, says)
    }
    await writeFile(join(directory, 'settings.json'), '{"Authentication": ')
    await refused(reload, /not well-formed JSON/)
    assert.equal(await status(key(READER.Key)), 200)
    assert.equal(await status(key('a new key')), 401)
    assert.equal(await status(password('her password')), 200)
  },
)

async function refused(reload: () => Promise<Response>, says: RegExp): Promise<void> {
  const reply = await reload()
  const { detail, errors } = (await reply.json()) as { detail: string; errors: readonly object[] }
  assert.equal(reply.status, 422, detail)
  assert.match(detail, says)
  assert.ok(errors.length > 0)
}

test(
  'schemas are read again, in the settings and in files by path; stored items are not checked',
  oneServer,
  async (t) => {
    const { change, reload, directory, fetch: ask } = await started(t)
    const post = async (body: object) => (await ask('/api/things', json('POST', body, key(ADMIN.Key)))).status
    const path = join(directory, 'things.json')
    await writeFile(path, JSON.stringify({ required: ['name'] }))
    await change({ Authentication: AUTHENTICATION, Api: { Schemas: { things: path } } })
    assert.equal(await post({}), 201)
    assert.deepEqual(((await (await reload()).json()) as Reloaded).schemas, ['things'])
    assert.equal(await post({}), 422)
    assert.equal(await post({ name: 'a' }), 201)
    await writeFile(path, JSON.stringify({ required: ['title'] }))
    await reload()
    assert.equal(await post({ name: 'a' }), 422)
    await change({
      Authentication: AUTHENTICATION,
      Collections: { things: { Schema: { required: ['size'] } }, others: { Schema: false } },
    })
    const { schemas, restartRequired } = (await (await reload()).json()) as Reloaded
    assert.deepEqual([schemas, restartRequired], [['things', 'others'], []])
    assert.equal(await post({ title: 'a' }), 422)
    assert.equal(await post({ size: 1 }), 201)
    assert.equal((await ask('/api/others', json('POST', {}, key(ADMIN.Key)))).status, 422)
    await change({ Authentication: AUTHENTICATION })
    await reload()
    assert.equal(await post({}), 201)
  },
)

test('other settings that have changed are named, and need a restart', oneServer, async (t) => {
  const { change, reload, fetch: ask, stderr } = await started(t)
  const Token = { Secret: 'a secret of 32 bytes and a few more' }
  await change({
    Authentication: { ...AUTHENTICATION, AuthenticationType: ['token', 'apikey'], Token },
    Api: { UpsertOnPut: true },
    Limits: { PageSize: 7, QueryBytes: 100 },
    Collections: { things: { Indexes: ['name'], Schema: true } },
  })
  const { restartRequired } = (await (await reload()).json()) as Reloaded
  const named = [
    ...['Api.UpsertOnPut', 'Authentication.AuthenticationType', 'Authentication.Token.Secret'],
    ...['Limits.QueryBytes', 'Collections'],
  ]
  assert.deepEqual(new Set(restartRequired), new Set(named), 'a flag still takes precedence over Limits.PageSize')
  assert.match(stderr(), /"level":40,.*"restartRequired":\["Api.UpsertOnPut"/)
  assert.doesNotMatch(stderr(), /a secret of 32 bytes/)
  assert.equal((await ask('/api/things/9', json('PUT', {}, key(ADMIN.Key)))).status, 404)
})

test('sockets and event streams end with their user or key, and those of others stay open', oneServer, async (t) => {
  const { url, change, reload, fetch: ask } = await started(t)
  const login = await ask('/token', json('POST', { username: 'anna', password: USER.Password }))
  const { access_token: token } = (await login.json()) as { access_token: string }
  const open = async (headers: Record<string, string>) => {
    const socket = new WebSocket(`${url.replace('http', 'ws')}/ws`, { headers })
    await once(socket, 'open')
    const stream = await ask('/events?follow=true', { headers: { ...headers, Accept: 'application/x-ndjson' } })
    let isStreaming = true
    stream.text().then(
      () => {
        isStreaming = false
      },
      () => {},
    )
    return { isOpen: () => socket.readyState === WebSocket.OPEN, isStreaming: () => isStreaming }
  }
  const reader = await open(key(READER.Key))
  const user = await open({ Authorization: `Bearer ${token}` })
  const admin = await open(key(ADMIN.Key))
  await change({ Authentication: { ...AUTHENTICATION, Users: [{ ...USER, Username: 'bert' }], ApiKeys: [ADMIN] } })
  assert.equal((await reload()).status, 200)
  for (const one of [reader, user]) await until('their end', () => !one.isOpen() && !one.isStreaming())
  assert.ok(admin.isOpen() && admin.isStreaming())
  assert.equal((await ask('/api/things', { headers: { Authorization: `Bearer ${token}` } })).status, 401)
})

test('warnings follow what was read, and new ones are logged', oneServer, async (t) => {
  const { change, reload, fetch: ask, stderr } = await started(t)
  const warnings = async () => {
    const health = await ask('/health', { headers: key(ADMIN.Key) })
    return ((await health.json()) as { warnings: readonly string[] }).warnings.join('\n')
  }
  assert.match(await warnings(), /password of anna stands in the settings in plain text/)
  const Password = `scrypt$1024$8$1$${'s'.repeat(22)}$${'k'.repeat(43)}`
  await change({
    Authentication: {
      ...AUTHENTICATION,
      Users: [{ ...USER, Password }],
      ApiKeys: [ADMIN, { ...READER, Key: 'short' }],
    },
    Serilog: {},
  })
  await reload()
  assert.doesNotMatch(await warnings(), /password of anna/)
  const added = [/API key of display has less than 16 bytes/, /Serilog is ignored/]
  for (const warning of added) {
    assert.match(await warnings(), warning)
    await until('the log line', () => warning.test(stderr()))
  }
  await reload()
  const linesWith = (text: RegExp) =>
    stderr()
      .split('\n')
      .filter((line) => text.test(line)).length
  await until('the second reload', () => linesWith(/were read again/) === 2)
  for (const warning of added) assert.equal(linesWith(warning), 1, 'only new ones are logged')
})

test('only admins may reload, also on a read-only server, where nothing is written', oneServer, async (t) => {
  const { change, reload, fetch: ask } = await started(t, { Authentication: AUTHENTICATION, Api: { ReadOnly: true } })
  const post = (headers: Record<string, string>) => ask('/admin/settings/reload', { method: 'POST', headers })
  assert.equal((await post({})).status, 401)
  assert.equal((await post(key(READER.Key))).status, 403)
  assert.equal((await post(password(USER.Password))).status, 403)
  await change({ Authentication: { ...AUTHENTICATION, ApiKeys: [ADMIN] }, Api: { ReadOnly: true } })
  assert.deepEqual(await (await reload()).json(), { users: 1, apiKeys: 1, schemas: [], restartRequired: [] })
  const document = (await (await ask('/openapi.json')).json()) as { paths: Record<string, object> }
  assert.deepEqual(Object.keys(document.paths['/admin/settings/reload'] ?? {}), ['post', 'options'])
  assert.equal((await ask('/admin/reload', { method: 'POST', headers: key(ADMIN.Key) })).status, 405)
})

test('with authentication off only schemas are put in place', async (t) => {
  const directory = await temporaryDirectory(t)
  const path = join(directory, 'settings.json')
  await writeFile(path, '{}')
  const { url } = await startHere(t, { directory, data: {}, flags: ['--settings', path] })
  await writeFile(path, JSON.stringify({ Authentication: AUTHENTICATION, Api: { Schemas: { things: false } } }))
  const reply = await fetch(`${url}/admin/settings/reload`, { method: 'POST' })
  assert.deepEqual(await reply.json(), {
    users: 0,
    apiKeys: 0,
    schemas: ['things'],
    restartRequired: ['Authentication.Enabled', 'Authentication.AuthenticationType'],
  })
  assert.equal((await fetch(`${url}/api/things`, json('POST', {}))).status, 422)
  assert.equal((await fetch(`${url}/api/others`, json('POST', {}))).status, 201)
})

test('a reload rejects with a Refusal for an error of the file system, and with a bug itself, also if it has a code', async () => {
  const rows = [
    [() => readFileSync('/'), Refusal],
    [() => resolve(1 as unknown as string), TypeError],
  ] as const
  for (const [fail, expected] of rows) {
    const read = (): Settings => {
      throw new Error(`${fail()} was expected to throw`)
    }
    const settings = {} as Settings
    const log = new LimitedLog(SILENT, () => 0)
    const settingsReload = new SettingsReload({ settings, read, gate: {} as Gate, schemas: undefined, log })
    await assert.rejects(settingsReload.reload(), expected)
  }
})
