import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { test } from 'node:test'
import { WebSocket } from 'ws'
import { basic, login } from '../support/authentication.ts'
import { until } from '../support/deadline.ts'
import { type Reply, type Sent, send } from '../support/requests.ts'
import { type RunningProgram, startProgram } from '../support/server.ts'

/** Each stands for something that must not be found where it does not belong. */
const CANARY = {
  password: 'Canary-password-1f3a',
  otherPassword: 'Canary-wrong-9b2c',
  apiKey: 'Canary-apikey-77de',
  otherKey: 'Canary-otherkey-ab12',
  tokenSecret: 'Canary-tokensecret-0123456789abcdef',
  header: 'Canary-header-5e6f',
  query: 'Canary-query-c0de',
  refusedBody: 'Canary-refusedbody-d1ce',
  keptBody: 'Canary-keptbody-beef',
} as const

async function started(t: Parameters<typeof startProgram>[0]): Promise<RunningProgram> {
  const settings = {
    Authentication__Enabled: 'true',
    Authentication__AuthenticationType: 'token,basic,apikey',
    Authentication__Users: JSON.stringify([{ Username: 'admin', Password: CANARY.password }]),
    Authentication__ApiKeys: JSON.stringify([{ Name: 'key', Key: CANARY.apiKey, Role: 'reader' }]),
    Authentication__Token__Secret: CANARY.tokenSecret,
    Limits__FailuresPerMinute: '12',
    Limits__TrustedProxies: '127.0.0.1',
    Log__Level: 'debug',
  }
  return startProgram(t, { data: { things: [{ id: 1, name: CANARY.keptBody }] }, env: settings })
}

test('no secret that was configured, sent or guessed appears where it does not belong', async (t) => {
  const server = await started(t)
  const { url } = server
  const answers: Reply[] = []
  let address = 0
  /** Each from an address of its own, so that the failures of one do not hide what comes next. */
  const ask = async (method: string, path: string, { headers, body }: Sent = {}): Promise<Reply> => {
    const own = {
      'X-Forwarded-For': `198.51.100.${address++ % 250}`,
      'X-Secret': CANARY.header,
      Cookie: `a=${CANARY.header}`,
    }
    const reply = await send(url, method, path, {
      headers: { ...own, ...headers },
      ...(body !== undefined && { body }),
    })
    answers.push(reply)
    return reply
  }
  const token = (await login(url, 'admin', CANARY.password)).json<{ access_token: string }>().access_token
  const forged = `${token.slice(0, -8)}AAAAAAAA`
  const right = { Authorization: `Bearer ${token}` }
  const typed = { ...right, 'Content-Type': 'application/json' }

  const credentials = [
    { Authorization: `Bearer ${forged}` },
    { Authorization: basic('admin', CANARY.otherPassword) },
    { Authorization: basic(CANARY.otherPassword, CANARY.otherPassword) },
    { Authorization: CANARY.header },
    { Authorization: `Digest ${CANARY.header}` },
    { 'X-API-KEY': CANARY.otherKey },
    { 'X-API-KEY': CANARY.apiKey },
    right,
  ]
  for (const headers of credentials) {
    for (const [method, path] of [
      ['GET', '/api'],
      ['POST', '/api/things'],
      ['POST', '/admin/reload'],
      ['GET', '/nothing'],
      ['PUT', '/health'],
    ] as const) {
      await ask(method, path, { headers })
    }
  }
  for (const path of [
    '/api/things',
    '/api/things/1',
    '/api',
    '/events',
    '/nothing',
    '/health',
    '/token',
    '/swagger/',
  ]) {
    await ask('GET', `${path}?access_token=${CANARY.query}&q=${CANARY.query}&${CANARY.query}=1`, { headers: right })
    await ask('GET', `${path}?access_token=${token}`, { headers: { Accept: 'application/json' } })
  }
  for (const body of [
    `{"secret":"${CANARY.refusedBody}"`,
    `{"secret":${CANARY.refusedBody}}`,
    CANARY.refusedBody,
    `["${CANARY.refusedBody}"]`,
    `"${CANARY.refusedBody}"`,
    `{"__proto__":"${CANARY.refusedBody}"}`,
    `{"secret":"${CANARY.refusedBody}","n":1e999}`,
    `{"id":2,"secret":"${CANARY.refusedBody}"}`,
    `{"username":"admin","password":"${CANARY.refusedBody}"`,
    `{"username":"admin","password":"${CANARY.refusedBody}"}`,
    `{"username":"admin","password":["${CANARY.refusedBody}"]}`,
  ]) {
    for (const [method, path] of [
      ['PUT', '/api/things/1'],
      ['PATCH', '/api/things/1'],
      ['POST', '/token'],
      ['POST', '/admin/restore'],
    ] as const) {
      if (method === 'PATCH' && body.startsWith('{"username')) continue
      if (method === 'PUT' && /^\{"username.*\}$/.test(body)) continue
      await ask(method, path, { headers: { ...typed, 'If-Match': '"never"' }, body })
    }
    const form = { ...right, 'Content-Type': 'application/x-www-form-urlencoded' }
    await ask('POST', '/token', {
      headers: form,
      body: `username=admin&password=${CANARY.refusedBody}&x[=${CANARY.refusedBody}`,
    })
    const multipart = { ...right, 'Content-Type': `multipart/form-data; boundary=${CANARY.header}` }
    await ask('POST', '/token', { headers: multipart, body: `--${CANARY.header}\r\n${body}` })
  }
  for (const headers of [
    { ...typed, 'Content-Encoding': 'zstd' },
    { ...right, 'Content-Type': 'application/json', 'Idempotency-Key': '' },
    { ...right, 'Content-Type': 'text/plain', Prefer: CANARY.header },
  ]) {
    await ask('PUT', '/api/things/1', { headers, body: '[]' })
  }
  const kept = await ask('PUT', '/api/things/1', {
    headers: { ...typed, 'Idempotency-Key': 'k', Prefer: CANARY.header },
    body: `{"name":"${CANARY.keptBody}"}`,
  })
  assert.equal(kept.status, 204)

  for (const query of [`access_token=${CANARY.query}`, `access_token=${forged}`]) {
    for (const path of ['/ws', '/socket.io/']) {
      const socket = new WebSocket(`${url.replace('http', 'ws')}${path}?EIO=4&transport=websocket&${query}`)
      socket.on('error', () => {})
      await until('a refusal', () => socket.readyState === socket.CLOSED)
    }
  }
  for (let count = 0; count < 15; count++) answers.push(await login(url, 'admin', CANARY.otherPassword))
  assert.equal(answers.at(-1)?.status, 429)
  const admin = await ask('GET', '/health', { headers: right })
  const events = await ask('GET', '/events', { headers: right })
  const openApi = await ask('GET', '/openapi.json')
  assert.equal((await ask('POST', '/logout', { headers: right })).status, 204)
  assert.equal(await server.stop(), 0)

  const tokens = [token, forged, token.split('.')[2] as string]
  /** Not even the beginning of one. */
  const clean = (what: string, text: string, mayHold = 'kept'): void => {
    for (const found of [...tokens, new RegExp(`Canary-(?!${mayHold})`, 'i')]) {
      const at = text.search(typeof found === 'string' ? found.replaceAll('.', '\\.') : found)
      assert.ok(at < 0, `a secret in ${what}: ${text.slice(Math.max(0, at - 200), at + 100)}`)
    }
  }
  clean('standard output', server.stdout(), 'nothing')
  clean('the log', server.stderr(), 'nothing')
  assert.match(server.stderr(), /"msg":"answered"/)
  const problems = answers.filter(({ status }) => status >= 400)
  assert.ok(problems.length > 100)
  for (const { text, headers } of problems) clean('a refusal', text + JSON.stringify(headers), 'nothing')
  clean('/health', admin.text, 'nothing')
  clean('/openapi.json', openApi.text, 'nothing')
  clean('/events', events.text)
  const entries = await readdir(server.directory, { recursive: true, withFileTypes: true })
  const files = entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(relative(server.directory, parentPath), name))
  for (const name of ['db.json', 'db.journal/store/store.mdb', 'db.journal/revoked.json', '.recollect/db.json.state'])
    assert.ok(files.includes(name), name)
  assert.ok(files.some((name) => name.endsWith('.ndjson')))
  for (const name of files) clean(name, await readFile(join(server.directory, name), 'utf8'))
})

test('each log line is one JSON object, which escapes whatever clients sent', async (t) => {
  const server = await startProgram(t, {
    data: { things: [] },
    flags: ['--Log.Level', 'debug', '--Api.UpsertOnPut', 'true'],
  })
  const { url } = server
  const line = '{"level":60,"msg":"forged"}'
  const encoded = encodeURIComponent(`\r\n${line}\n`)
  const odd = ['%0D%0A', '%0A%7B', '%E2%80%A8', '%1B%5B31m', '%00', '%C2%85', '%22%7D', '%5C%22', '%ED%A0%80']
  for (const piece of [encoded, ...odd]) {
    for (const path of [
      `/api/${piece}`,
      `/api/things/${piece}`,
      `/${piece}`,
      `/api/things?${piece}=${piece}`,
      `/events?actor=${piece}`,
    ]) {
      await send(url, 'GET', path)
      await send(url, 'PUT', path, {
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ name: line }),
      })
    }
  }
  const ids = ['a b', '{"a":1}', 'x'.repeat(129), '\u00ff', line.replaceAll(' ', ''), '"', '\t', '%0D%0A', 'a,b', '\\n']
  for (const id of ids) {
    const { headers } = await send(url, 'GET', '/api', {
      headers: { 'X-Request-Id': id, 'User-Agent': line, Referer: line },
    })
    assert.match(String(headers['x-request-id']), /^[\da-f-]{36}$/, id)
  }
  const own = await send(url, 'POST', '/api/things', {
    headers: { 'X-Request-Id': 'mine:1', 'Content-Type': 'application/json' },
    body: '{}',
  })
  assert.equal(own.headers['x-request-id'], 'mine:1')
  await server.stop()

  const lines = server.stderr().trimEnd().split('\n')
  assert.ok(lines.length > 100)
  for (const text of lines) {
    const { level, msg } = JSON.parse(text) as { level: number; msg: string }
    assert.ok(level < 50 && msg !== 'forged', text)
    // biome-ignore lint/suspicious/noControlCharactersInRegex: no terminal is to be told anything
    assert.doesNotMatch(text, /[\x00-\x1f\x7f]/)
  }
})
