import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { fetch, within } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { SEED } from '../support/random.ts'
import { type Reply, send, sendBytes } from '../support/requests.ts'
import { type RunningProgram, runToEnd, startProgram } from '../support/server.ts'
import { type Attempt, attemptOf, type Keys, type Role } from './attempts.ts'
import { OpenApiDocument, type Operation } from './document.ts'

/** Requests of each of the two runs. */
const REQUESTS = Math.ceil(Number(process.env.FUZZ_REQUESTS ?? 500) / 2)
const AT_ONCE = 8
/** Stands in an item, and must never be read by whoever may not. */
const SECRET = 'kept-from-strangers'
const HEADER_BYTES = 8192

const DATA = {
  sensors: [
    {
      id: 'F4:A5',
      mac: 'F4:A5',
      data: { temperature: 21.5, battery: 2984, note: SECRET },
      timestamp: '2026-11-20T12:50',
    },
    { id: 7, name: 'seven', data: { temperature: null }, tags: [{ id: 'x', y: SECRET }, 2, 'three'] },
  ],
  checked: [{ id: 0, name: SECRET }],
  mixed: [{ id: 'a/b' }, { id: '..', text: SECRET }, { id: '€', n: 1e-300 }],
  empty: [],
  'a/b': [{ id: 1, note: SECRET }],
}
const SCHEMA = { type: 'object', required: ['name'], properties: { name: { type: 'string', maxLength: 100 } } }
const FLAGS = [
  ...['--Api.Schemas.checked', 'schema.json', '--Limits.BodyBytes', '65536', '--Limits.HeaderBytes', `${HEADER_BYTES}`],
  ...['--Limits.PageSize', '1000', '--Limits.HeaderSeconds', '5', '--Limits.RequestSeconds', '10'],
  ...['--Limits.WaitSeconds', '1'],
  ...['--Limits.TrustedProxies', '127.0.0.1', '--Journal.SegmentBytes', '1048576'],
]

test('no request makes the server fail, or gets a response that OpenAPI does not list', async (t) => {
  await t.test('without authentication', (inner) =>
    attack(inner, SEED, ['--Api.UpsertOnPut', 'true', '--Api.ClientIdsOnPost', 'true'], async () => undefined),
  )
  await t.test('with authentication; anonymous clients learn nothing', (inner) =>
    attack(inner, SEED + 1, authenticated(), keysFor),
  )
})

const ROLES: readonly Role[] = ['reader', 'writer', 'admin']

function authenticated(): readonly string[] {
  const users = ROLES.map((role) => ({ Username: role, Password: `${role}-pässword`, Role: role }))
  const apiKeys = ROLES.map((role) => ({ Name: `${role}-key`, Key: `${role}-key-1234`, Role: role }))
  return [
    ...['--Authentication.Enabled', 'true', '--Authentication.AuthenticationType', 'token,basic,apikey'],
    ...['--Limits.FailuresPerMinute', '5'],
    ...['--Authentication.Users', JSON.stringify(users), '--Authentication.ApiKeys', JSON.stringify(apiKeys)],
  ]
}

function basic(name: string, password: string): string {
  return `Basic ${Buffer.from(`${name}:${password}`).toString('base64')}`
}

async function keysFor({ url }: RunningProgram): Promise<Keys> {
  const tokenOf = async (role: Role): Promise<string> => {
    const body = new URLSearchParams({ username: role, password: `${role}-pässword` })
    const answer = await fetch(`${url}/token`, { method: 'POST', body })
    return ((await answer.json()) as { access_token: string }).access_token
  }
  const [reader, writer, admin, doomed] = await Promise.all(
    (['reader', 'writer', 'admin', 'reader'] as const).map(tokenOf),
  )
  const tokens = { reader, writer, admin }
  const of = (role: Role) =>
    [
      ['Authorization', `Bearer ${tokens[role]}`],
      ['Authorization', basic(role, `${role}-pässword`)],
      ['X-API-KEY', `${role}-key-1234`],
    ] as const
  const [header, payload, signature] = String(admin).split('.')
  const unsigned = Buffer.from('{"alg":"none","typ":"JWT"}').toString('base64url')
  return {
    right: { reader: of('reader'), writer: of('writer'), admin: of('admin') },
    wrong: [
      ['X-API-KEY', 'reader-key-12345'],
      ['X-API-KEY', ''],
      ['Authorization', ''],
      ['Authorization', 'Bearer'],
      ['Authorization', 'Bearer a.b.c'],
      ['Authorization', `Bearer ${unsigned}.${payload}.`],
      ['Authorization', `Bearer ${header}.${payload}.${[...String(signature)].reverse().join('')}`],
      ['Authorization', 'Basic ='],
      ['Authorization', 'Basic YWRtaW4'],
      ['Authorization', 'Digest username="admin"'],
      ['Authorization', `Negotiate ${'A'.repeat(2000)}`],
      ['Authorization', '\u00ff\u00ff'],
    ],
    slow: ['Authorization', basic('admin', 'reader-pässword')],
    doomed: ['Authorization', `Bearer ${doomed}`],
  }
}

async function attack(
  t: TestContext,
  seed: number,
  flags: readonly string[],
  keysOf: (server: RunningProgram) => Promise<Keys | undefined>,
): Promise<void> {
  const directory = await temporaryDirectory(t)
  await writeFile(join(directory, 'schema.json'), JSON.stringify(SCHEMA))
  const server = await startProgram(t, { directory, data: DATA, flags: [...FLAGS, ...flags] })
  const document = new OpenApiDocument(await (await server.fetch('/openapi.json')).json())
  const keys = await keysOf(server)
  const statuses = new Map<number, number>()
  const wrong: string[] = []
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < REQUESTS && wrong.length < 10 && server.process.exitCode === null) {
      const attempt = attemptOf(seed, next++, document, keys)
      const reply = await answerTo(server, attempt)
      if (reply) statuses.set(reply.status, (statuses.get(reply.status) ?? 0) + 1)
      const complaint = reply ? judge(attempt, reply, document, keys !== undefined) : undefined
      if (complaint) wrong.push(`${complaint}\n  ${shown(attempt)}\n  → ${reply?.status} ${reply?.text.slice(0, 300)}`)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  t.diagnostic(
    [...statuses]
      .sort()
      .map(([status, count]) => `${status}: ${count}`)
      .join(', '),
  )

  assert.equal(server.process.exitCode, null, `the server ended:\n${server.stderr().slice(-3000)}`)
  const failures = server
    .stderr()
    .split('\n')
    .filter((line) => /"level":(50|60)/.test(line))
  assert.deepEqual({ wrong, failures: failures.slice(0, 10) }, { wrong: [], failures: [] })
  const usual = [200, 201, 204, 400, 404, 405, 412, 414, 415, 422, 431, ...(keys ? [401, 403, 429] : [])]
  const rare = [304, 406, 409, 413]
  const wanted = REQUESTS < 1000 ? [] : REQUESTS < 10_000 ? usual : [...usual, ...rare]
  const absent = wanted.filter((status) => !statuses.has(status))
  assert.deepEqual(absent, [], 'the requests reach every kind of answer')

  assert.equal((await server.fetch('/health')).status, 200)
  assert.equal(await server.stop(), 0)
  const verified = await runToEnd(t, directory, ['verify', '--file', server.file, '--json'])
  assert.equal(verified.code, 0, verified.stdout)
  const { ok, dataFile } = JSON.parse(verified.stdout) as Record<string, unknown>
  assert.deepEqual({ ok, dataFile }, { ok: true, dataFile: 'current' })
}

/** Undefined when there was none because the request was no whole one. */
async function answerTo(server: RunningProgram, attempt: Attempt, isRetry = false): Promise<Reply | undefined> {
  const { method, target, headers, body, bytes } = attempt
  const what = `the answer to ${shown(attempt)}`
  try {
    if (bytes) {
      const answer = sendBytes(server.url, bytes, { hangUp: attempt.isGarbled || staysOpen(attempt) })
      return parse(await within(what, answer))
    }
    // Said here because Node says nothing of a body that comes with GET or DELETE.
    const length = body && { 'Content-Length': body.length }
    const sent = { headers: { ...Object.fromEntries(headers), ...length }, ...(body && { body }) }
    return await within(what, send(server.url, method, target, sent))
  } catch (error) {
    // A connection that was kept alive may end just when it is used again; an answer may come before all is read.
    const isReset = ['ECONNRESET', 'EPIPE'].includes((error as NodeJS.ErrnoException).code ?? '')
    if (!isReset || server.process.exitCode !== null) throw new Error(shown(attempt), { cause: error })
    return bytes || isRetry ? undefined : answerTo(server, attempt, true)
  }
}

/** The first answer of those that came, as far as it is needed; rubbish behind a request has one of its own. */
function parse(bytes: string): Reply | undefined {
  const [, status, fields = '', body = ''] =
    /^HTTP\/1\.1 (?!100)(\d{3}) [^\r]*\r\n([\s\S]*?)\r\n\r\n([\s\S]*)$/m.exec(bytes) ?? []
  if (status === undefined) return undefined
  const headers = Object.fromEntries(
    fields.split('\r\n').map((line) => [line.split(':')[0]?.toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  )
  const text = body.slice(0, Number(headers['content-length'] ?? body.length))
  return { status: Number(status), headers, text, json: <T>() => JSON.parse(text) as T }
}

/** Whether a static file may be answered for so. */
function isOfFile(method: string, status: number, allow: unknown): boolean {
  if (method === 'GET' || method === 'HEAD') return [200, 304, 400].includes(status)
  return status === (method === 'OPTIONS' ? 200 : 405) && allow === 'GET, HEAD, OPTIONS'
}

/** The deviation of the response; undefined when there is none. */
function judge(attempt: Attempt, { status, headers, text }: Reply, document: OpenApiDocument, isGuarded: boolean) {
  const { method, target, who, isFramed, isGarbled } = attempt
  // A request with a later position waits for it until it gets 503, which is no failure.
  const isEarly = status === 503 && has(attempt, 'Wait-For-Position')
  if (status >= 500 && !isEarly) return 'The server failed.'
  if (isGuarded && who === 'stranger' && text.includes(SECRET)) return 'A stranger read an item.'
  const isNoHttp = isFramed || !/^\/[\x21-\x7e]*$/.test(target)
  if (isGarbled || (isNoHttp && [400, 408].includes(status) && !headers['x-request-id'])) return undefined
  if (status === 414 || status === 431)
    return bytesOf(attempt) > HEADER_BYTES / 2 ? undefined : 'The request line and the headers were not too large.'
  if (method === 'OPTIONS' && target === '*' && status === 200) return undefined
  const namesHost = has(attempt, 'Host') || /^[a-z][a-z\d+.-]*:\/\/[^/?#]/i.test(target)
  if (status === 421) return namesHost && !isGuarded ? undefined : 'The host is one of this machine.'
  if (method === 'OPTIONS' && target === '*' && status === 200) return undefined
  const path = pathOf(target)
  const isPreflight = method === 'OPTIONS' && has(attempt, 'Origin') && has(attempt, 'Access-Control-Request-Method')
  const operations = document.at(path)
  const operation = operations.filter((one) => one.method === method)
  const refused = isGuarded && !isPreflight ? [401, 403, 429] : []
  if (isPreflight && status === 204) return undefined
  if (path.startsWith('/socket.io/') || has(attempt, 'Upgrade')) return undefined
  if (isForeign(attempt) && !['GET', 'HEAD', 'OPTIONS'].includes(method)) {
    return status === 403 ? undefined : 'A page of another origin may write.'
  }
  if (operations.length === 0) {
    if (!isOfFile(method, status, headers.allow) && ![404, ...refused].includes(status))
      return 'Nothing is served there.'
  } else if (operation.length === 0) {
    if (![405, ...refused].includes(status)) return 'The method is not allowed there.'
    // At one path the description has the methods of lists and of single objects; only objects have PATCH.
    const ofList = /^\/api\/[^/]+$/.test(path) ? operations.filter((one) => one.method !== 'PATCH') : operations
    const isDescribed = [operations, ofList].some((one) => headers.allow === allowOf(one))
    if (status === 405 && !isDescribed) return 'Allow differs from the description.'
  } else if (!operation.some(({ statuses }) => statuses.has(status))) return 'The description does not list the status.'
  else if (isGuarded && !isPreflight) {
    // Without filters a DELETE takes the role admin, which the description says in words.
    const isWhole = who === 'writer' && status === 403 && text.includes('removes the whole collection')
    const complaint = isWhole ? undefined : judgeRole(who, operation, status)
    if (complaint) return complaint
  }
  if (status < 400 || method === 'HEAD') return undefined
  if (headers['content-type'] !== 'application/problem+json') return 'The refusal is no problem document.'
  return (JSON.parse(text) as { status: number }).status === status ? undefined : 'The problem has another status.'
}

/** Whether a page asks that may not. Two fields are one of no origin. */
function isForeign({ headers }: Attempt): boolean {
  const origins = headers.filter(([name]) => name === 'Origin').map(([, value]) => value)
  return origins.length > 0 && origins.join() !== 'http://localhost:1'
}

function judgeRole(who: Attempt['who'], operations: readonly Operation[], status: number): string | undefined {
  const [{ role: needed } = { role: undefined }] = operations
  if (needed === undefined || who === 'unclear') return undefined
  if (who === 'stranger') return status === 401 || status === 429 ? undefined : 'A stranger was let in.'
  const isEnough = ROLES.indexOf(who) >= ROLES.indexOf(needed as Role)
  if (isEnough) return [401, 403, 429].includes(status) ? `The role ${who} is enough.` : undefined
  return status === 403 ? undefined : `The role ${who} is not enough.`
}

/** As the server reads it: without the query, and without the host that a target may begin with. */
function pathOf(target: string): string {
  const path = target.replace(/^[a-z][a-z\d+.-]*:\/\/[^/?#]*/i, '').replace(/[?#].*$/s, '')
  return path.startsWith('/') ? path : `/${path}`
}

function allowOf(operations: readonly Operation[]): string {
  const methods = new Set(operations.map(({ method }) => method))
  return ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'].filter((method) => methods.has(method)).join(', ')
}

/** Such a response does not end by itself. */
function staysOpen({ headers }: Attempt): boolean {
  return headers.some(([, value]) => value === 'websocket' || value === 'text/event-stream')
}

function has({ headers }: Attempt, wanted: string): boolean {
  return headers.some(([name]) => name === wanted)
}

function bytesOf({ target, headers }: Attempt): number {
  return headers.reduce((sum, [name, value]) => sum + name.length + value.length + 4, target.length)
}

function shown({ index, method, target, headers, body, who }: Attempt): string {
  const fields = headers.map(([name, value]) => `${name}: ${value.slice(0, 60)}`).join(' | ')
  return `#${index} ${who}: ${method} ${target.slice(0, 200)} | ${fields} | ${JSON.stringify(body?.toString('latin1').slice(0, 200))}`
}
