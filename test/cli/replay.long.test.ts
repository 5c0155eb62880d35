import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { Validator } from '@seriousme/openapi-schema-validator'
import { io } from 'socket.io-client'
import { parseInvocation } from '../../src/cli/invocation.ts'
import { CLUSTER } from '../../src/cluster/cluster.ts'
import type { DomainEvent } from '../../src/events/event.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { Document } from '../../src/json/document.ts'
import { BadSettings } from '../../src/settings/settings.ts'
import type { Change, Subscribed } from '../../src/sockets/protocol.ts'
import { authentication, keyOf, login, passwordOf } from '../support/authentication.ts'
import { turnsUntil, until, within } from '../support/deadline.ts'
import { type Scope, stateOf, temporaryDirectory } from '../support/directory.ts'
import { openJournal } from '../support/journal.ts'
import { headOf } from '../support/requests.ts'
import { json, type RunningProgram, runToEnd, startProgram } from '../support/server.ts'
import { edit, FIRST, readJson, recollect, segmentOf, startWritten, write } from './recollect.ts'

interface Told {
  readonly position: number
  readonly time: string
}

const ends: (() => Promise<unknown>)[] = []
const scope = { after: (end: () => Promise<unknown>) => void ends.unshift(end) }
/** It runs all the while: a replay only reads. */
let server: RunningProgram
let events: readonly Told[]
let out: string
let names = 0

before(async () => {
  server = await startWritten(scope, 10)
  // One instant separates the two halves.
  const { time } = ((await (await server.fetch('/events')).json()) as Told[]).at(-1) as Told
  await turnsUntil('the next millisecond', () => new Date().toISOString() > time)
  await write(server, 11, 20)
  events = (await (await server.fetch('/events')).json()) as Told[]
})
after(async () => {
  for (const end of ends) await end()
})

const head = () => events.length
const newOut = () => {
  out = join(server.directory, `out-${names++}.json`)
  return out
}

/** The state after so many rounds. */
function stateAfter(rounds: number): unknown {
  return {
    a: [{ id: 'x', n: rounds }],
    b: Array.from({ length: rounds }, (_, index) => ({ id: index, n: index + 1 })),
  }
}

test('replay writes the state directly after a position', async (t) => {
  const first = head() - 40
  for (const rounds of [1, 7, 19, 20]) {
    const position = first + 2 * rounds
    const { code, stdout } = await recollect(t, server.directory, 'replay', '--to', String(position), '--out', newOut())
    assert.equal(code, 0)
    assert.equal(stdout, `Wrote ${out}: ${rounds + 1} items in 2 collections, as they were at position ${position}.\n`)
    assert.deepEqual(await readJson(out), stateAfter(rounds))
  }
  const between = await recollect(t, server.directory, 'replay', '--to', String(first + 3), '--out', newOut())
  assert.equal(between.code, 0)
  assert.deepEqual(await readJson(out), { a: [{ id: 'x', n: 2 }], b: [{ id: 0, n: 1 }] })
})

test('each position within the initial import can be replayed', async (t) => {
  const first = head() - 40
  assert.ok(first > 2)
  await recollect(t, server.directory, 'replay', '--to', String(first), '--out', newOut())
  assert.deepEqual(await readJson(out), FIRST)
  await recollect(t, server.directory, 'replay', '--to', '1', '--out', newOut())
  assert.deepEqual(await readJson(out), { a: [] })
})

test('position 0 is the empty state', async (t) => {
  const { code } = await recollect(t, server.directory, 'replay', '--to', '0', '--out', newOut())
  assert.equal(code, 0)
  assert.equal(await readFile(out, 'utf8'), '{}\n')
})

test('replay to an instant includes the last event up to it', async (t) => {
  const half = events[head() - 21] as Told
  const { code, stdout } = await recollect(t, server.directory, 'replay', '--to', half.time, '--out', newOut())
  assert.equal(code, 0)
  assert.match(stdout, new RegExp(`at position ${half.position}\\.$`, 'm'))
  assert.deepEqual(await readJson(out), stateAfter(10))
  await recollect(t, server.directory, 'replay', '--to', '2001-01-01', '--out', newOut())
  assert.deepEqual(await readJson(out), {})
})

test('a position beyond the head, or an invalid one, exits with 2 and writes nothing', async (t) => {
  for (const to of [String(head() + 1), '999999999999999', '-1', '1.5', 'yesterday', '2026-13-01', '']) {
    const { code, stderr } = await recollect(t, server.directory, 'replay', '--to', to, '--out', newOut())
    assert.equal(code, 2, `${to}: ${stderr}`)
    assert.ok(stderr.startsWith('recollect: '), stderr)
    assert.equal(existsSync(out), false)
  }
})

test('an existing file is never overwritten', async (t) => {
  await writeFile(newOut(), 'mine')
  const { code, stderr } = await recollect(t, server.directory, 'replay', '--to', '1', '--out', out)
  assert.equal(code, 1)
  assert.match(stderr, /exists already/)
  assert.equal(await readFile(out, 'utf8'), 'mine')
})

test('a missing argument exits with 2 and names it; a missing journal exits with 1 and creates nothing', async (t) => {
  const without = await recollect(t, server.directory, 'replay')
  assert.equal(without.code, 2)
  assert.match(without.stderr, /needs --to/)
  assert.match(without.stderr, /needs --out/)
  const before = await stateOf(server.directory)
  const nowhere = join(server.directory, 'nowhere')
  const { code, stderr } = await recollect(
    t,
    server.directory,
    'replay',
    '--journal',
    nowhere,
    '--to',
    '0',
    '--out',
    newOut(),
  )
  assert.equal(code, 1)
  assert.match(stderr, /There is no journal in/)
  assert.deepEqual(await stateOf(server.directory), before)
})

test('a server imports a replayed file as its initial items', async (t) => {
  await recollect(t, server.directory, 'replay', '--to', String(head()), '--out', newOut())
  const other = await startProgram(t, { data: await readJson(out) })
  assert.deepEqual(await (await other.fetch('/api/b?pageSize=100')).json(), (stateAfter(20) as { b: unknown }).b)
})

interface Health {
  readonly status: string
  readonly position: number
  readonly journal: { readonly id: string; readonly writable: boolean }
  readonly dataFile?: unknown
  readonly replay: { readonly speed: number; readonly from: number; readonly until: number; readonly time: string }
}

function play(t: Scope, directory: string, ...flags: readonly string[]): Promise<RunningProgram> {
  const own = ['replay', '--file', join(directory, 'db.json'), '--urls', 'http://127.0.0.1:0']
  return startProgram(t, { directory, isBare: true, flags: [...own, ...flags] })
}

async function healthOf(played: RunningProgram): Promise<Health> {
  return (await (await played.fetch('/health')).json()) as Health
}

async function atItsEnd(played: RunningProgram): Promise<Health> {
  return until('the replay to reach its end', async () => {
    const health = await healthOf(played)
    return health.position === health.replay.until && health
  })
}

const HOUR_MS = 3_600_000
const YESTERDAY = Date.parse('2026-11-20T12:00:00.000Z')

/** A journal of yesterday: ten puts, an hour without any, thirty more. */
async function recordYesterday(directory: string): Promise<void> {
  let ms = YESTERDAY
  const { journal } = await openJournal(nodeFiles, join(directory, 'db.journal'), { now: () => new Date(ms) })
  const write = (...events: readonly DomainEvent[]) =>
    journal.append({ expected: journal.head + 1, actor: 'a', requestId: 'r', events })
  await write({ type: 'CollectionCreated', collection: 'a' })
  for (let n = 1; n <= 40; n++) {
    ms += n === 11 ? HOUR_MS : n < 11 ? 0 : 5000
    const item = { collection: 'a', id: 'x', revision: n, item: Document.of({ id: 'x', n }) }
    await write({ type: n === 1 ? 'ItemCreated' : 'ItemReplaced', ...item, prior: n === 1 ? 0 : n })
  }
  await journal.close()
}

describe('recollect replay --from, of a journal that a server is writing', () => {
  let directory: string
  let live: RunningProgram
  before(async () => {
    directory = await temporaryDirectory(scope)
    await recordYesterday(directory)
    live = await startProgram(scope, { directory })
  })

  test('begins with the earlier state and waits as long as the original pauses', async (t) => {
    const played = await play(t, directory, '--from', '11')
    const answer = await played.fetch('/api/a/x')
    assert.equal(answer.headers.get('Journal-Position'), '11')
    assert.deepEqual(await answer.json(), { id: 'x', n: 10 })
    assert.equal((await played.fetch('/api/a/x?asOf=12')).status, 400, 'that is still to come')
    assert.equal((await played.fetch(`/api/a/x?asOf=${new Date().toISOString()}`)).status, 400)
    assert.match(played.stderr(), /"from":11,"until":41,"speed":1,/)
  })

  test('serves every position exactly as asOf of the original server, to the end', async (t) => {
    const from = new Date(YESTERDAY + HOUR_MS - 20_000).toISOString()
    const played = await play(t, directory, '--from', from, '--speed', '1000')
    await live.fetch('/api/a/x', json('PATCH', { now: true }))
    const seen = new Map<number, string>()
    for (let position = 0; position < 41; ) {
      const answer = await played.fetch('/api/a')
      const next = Number(answer.headers.get('Journal-Position'))
      assert.ok(next >= Math.max(11, position), 'it never goes back')
      position = next
      seen.set(position, await answer.text())
    }
    for (const [position, text] of seen) {
      assert.equal(text, await (await live.fetch(`/api/a?asOf=${position}`)).text(), `position ${position}`)
    }
    await until('the log to say that it has ended', () => played.stderr().includes('the replay has reached its end'))
    assert.equal((await healthOf(played)).position, 41, 'what was written since is none of its')
    assert.equal(await played.stop(), 0)
    assert.equal((await live.fetch('/health')).status, 200, 'and the server goes on')
  })

  test('/health reports a replay', async (t) => {
    const { journal } = await healthOf(live)
    const played = await play(t, directory, '--from', '40', '--speed', '1')
    const { status, position, replay, ...rest } = await healthOf(played)
    assert.deepEqual([status, rest.journal], ['ok', { id: journal.id, writable: false }])
    assert.deepEqual([replay.speed, replay.from, rest.dataFile], [1, 40, undefined])
    assert.ok(position >= 40 && position <= 41 && replay.until >= 41)
    assert.match(replay.time, /^2026-11-20T13:0/)
  })
})

describe('a server of the past', () => {
  let ended: RunningProgram
  let played: RunningProgram
  let last: number

  before(async () => {
    ended = await startWritten(scope, 8)
    last = await headOf(ended.url)
    await ended.stop()
    played = await play(scope, ended.directory, '--from', String(last), '--speed', '60')
  })

  test('answers every kind of request that reads', async () => {
    const cases: readonly (readonly [string, number, string?])[] = [
      ['/api', 200],
      ['/api/a', 200],
      ['/api/b?n_gt=5&sort=-n&fields=n', 200],
      ['/api/a/x', 200],
      ['/api/a/x/n', 200],
      [`/api/a/x?asOf=${last - 4}`, 200],
      [`/api/a?asOf=${last}`, 200],
      [`/api/a?asOf=${last + 1}`, 400],
      ['/api/a?asOf=2999-01-01', 400],
      ['/events', 200],
      [`/events/${last}`, 200],
      [`/events/${last + 1}`, 404],
      ['/events?collection=a&id=x', 200],
      ['/events', 200, 'application/x-ndjson'],
      ['/health', 200],
      ['/metrics', 200],
      ['/openapi.json', 200],
      ['/swagger/', 200],
      ['/', 200],
      ['/nothing', 404],
    ]
    for (const [path, status, accept] of cases) {
      const answer = await played.fetch(path, accept ? { headers: { Accept: accept } } : {})
      assert.equal(answer.status, status, path)
      await answer.arrayBuffer()
    }
    assert.deepEqual(await (await played.fetch('/api/b?n_gt=6&sort=-n&fields=n')).json(), [{ n: 8 }, { n: 7 }])
  })

  test('rejects every write with 405, and does not list writes in Allow', async () => {
    const put = json('PUT', { n: 1 })
    const cases: readonly (readonly [string, RequestInit])[] = [
      ['/api/a', json('POST', { n: 1 })],
      ['/api/a/x', put],
      ['/api/a/x', json('PATCH', { n: 1 })],
      ['/api/a/x', { method: 'DELETE' }],
      ['/api/a/x', { ...put, headers: { 'Content-Type': 'application/json', 'If-Match': '"never"' } }],
      ['/api/a/x', { method: 'PUT', body: 'no JSON' }],
      ['/api/nothing/7', { method: 'DELETE' }],
      ['/api/%61/x', { method: 'DELETE', headers: { Origin: 'http://localhost:1' } }],
      ['/api/a/x/n', put],
      ['/api', json('POST', {})],
      ['/admin/reload', { method: 'POST' }],
      ['/admin/restore', json('POST', { to: 1 })],
    ]
    for (const [path, init] of cases) {
      const context = `${init.method} ${path}`
      const answer = await played.fetch(path, init)
      const allowed = path.startsWith('/admin') ? 'OPTIONS' : 'GET, HEAD, OPTIONS'
      assert.equal(answer.status, 405, context)
      assert.equal(answer.headers.get('Allow'), allowed, context)
      const { type, detail } = (await answer.json()) as { type: string; detail: string }
      assert.equal(type, 'urn:recollect:problem:MethodNotAllowed', context)
      assert.match(detail, /plays what was recorded: nothing can be written/, context)
      const offered = await played.fetch(path, { method: 'OPTIONS' })
      assert.equal(offered.headers.get('Allow'), allowed, context)
      assert.equal(offered.headers.get('Accept-Patch'), null, context)
    }
    assert.equal((await healthOf(played)).position, last)
  })

  test('is described by OpenAPI without the operations that write', async () => {
    const document = (await (await played.fetch('/openapi.json')).json()) as { paths: Record<string, object> }
    const { '/admin/settings/reload': reload, ...others } = document.paths
    const methods = new Set(Object.values(others).flatMap((item) => Object.keys(item)))
    assert.deepEqual([...methods].sort(), ['get', 'head', 'options'])
    assert.ok(Object.hasOwn(reload ?? {}, 'post'), 'which changes no data')
    assert.ok(Object.hasOwn(document.paths, '/api/a/{id}'))
    const result = await new Validator().validate(structuredClone(document) as Record<string, unknown>)
    assert.deepEqual(result, { valid: true })
  })

  test('sends its events to clients, which can also replay its past', async (t) => {
    const other = await play(t, ended.directory, '--from', '0', '--speed', '1')
    const { replay } = await atItsEnd(other)
    const socket = io(other.url, { transports: ['websocket'], forceNew: true, reconnection: false })
    t.after(() => socket.close())
    const positions: number[] = []
    let current = 0
    socket.on('change', ({ position }: Change) => positions.push(position))
    socket.on('current', ({ position }: { position: number }) => {
      current = position
    })
    const wanted = { collection: 'a', from: 2, speed: 1000 }
    const answered: Subscribed = await within('the response to a subscription', socket.emitWithAck('subscribe', wanted))
    assert.deepEqual('items' in answered && answered.items, [{ id: 'x', n: 0 }])
    await until('all to be played', () => current > 0)
    assert.equal(current, replay.until)
    const events = (await (await other.fetch('/events?collection=a&from=3')).json()) as { position: number }[]
    assert.deepEqual(
      positions,
      events.map(({ position }) => position),
    )
    assert.equal(positions.length, 8)
  })

  test('writes nothing: no file, no lock, no secret', async (t) => {
    const directory = ended.directory
    await rm(join(directory, 'db.journal', 'lock'))
    const before = await stateOf(directory)
    const scheme = authentication(['token', 'basic', 'apikey']).filter(
      (_, index, all) =>
        all[index] !== '--Authentication.Token.Secret' && all[index - 1] !== '--Authentication.Token.Secret',
    )
    const guarded = await play(t, directory, '--from', '1', '--speed', '1000', ...scheme)
    const refused = await guarded.fetch('/api/a/x', { method: 'DELETE' })
    assert.equal(refused.status, 401, 'who asks is looked at first')
    const reader = { headers: { 'X-API-KEY': keyOf('reader') } }
    assert.equal((await guarded.fetch('/api/a/x', { method: 'DELETE', ...reader })).status, 403)
    const admin = { 'X-API-KEY': keyOf('admin') }
    assert.equal((await guarded.fetch('/api/a/x', { method: 'DELETE', headers: admin })).status, 405)
    const { access_token } = (await login(guarded.url, 'reader', passwordOf('reader'))).json<{ access_token: string }>()
    const bearer = { headers: { Authorization: `Bearer ${access_token}` } }
    assert.equal((await guarded.fetch('/api/a', bearer)).status, 200)
    assert.equal((await guarded.fetch('/logout', { method: 'POST', ...bearer })).status, 204)
    assert.equal((await guarded.fetch('/api/a', bearer)).status, 401, 'a token that has ended has ended')
    assert.equal(await guarded.stop(), 0)
    assert.deepEqual(await stateOf(directory), before)
  })
})

test('accepts the tokens of the server that writes the journal', async (t) => {
  const flags = authentication(['token'])
  const at = flags.indexOf('--Authentication.Token.Secret')
  const withoutSecret = [...flags.slice(0, at), ...flags.slice(at + 2)]
  const guarded = await startProgram(t, { data: { a: [{ id: 1 }] }, flags: withoutSecret })
  const [kept, ended] = await Promise.all(
    [1, 2].map(async () => (await login(guarded.url, 'reader', passwordOf('reader'))).json<{ access_token: string }>()),
  )
  const bearer = (token?: { access_token: string }) => ({ headers: { Authorization: `Bearer ${token?.access_token}` } })
  await guarded.fetch('/logout', { method: 'POST', ...bearer(ended) })
  const played = await play(t, guarded.directory, '--from', '0', ...withoutSecret)
  assert.equal((await played.fetch('/api', bearer(kept))).status, 200)
  assert.equal((await played.fetch('/api', bearer(ended))).status, 401)
})

describe('errors of replay', () => {
  const refused: readonly (readonly [string, readonly string[], ...RegExp[]])[] = [
    ['a file and a server', ['--from', '1', '--to', '2', '--out', 'x.json'], /not both/],
    ['a file with a speed', ['--to', '2', '--out', 'x.json', '--speed', '2'], /not both/],
    ['no beginning', ['--speed', '60'], /needs --from/],
    ['an empty beginning', ['--from', ''], /--from needs a value/],
    ['a beginning that is none', ['--from', 'yesterday'], /position or an ISO 8601 date-time, not "yesterday"/],
    ['a negative beginning', ['--from=-1'], /position or an ISO 8601 date-time, not "-1"/],
    ['two beginnings', ['--from', '1', '--from=2'], /--from is given more than once/],
    ['a speed that is none', ['--from', '1', '--speed', 'fast'], /--speed must be a number from 1 to 1000, not "fast"/],
    ['no speed', ['--from', '1', '--speed'], /--speed needs a value/],
    ['too fast', ['--from', '1', '--speed', '1001'], /from 1 to 1000/],
    ['too slow', ['--from', '1', '--speed', '0.5'], /from 1 to 1000/],
    ['a data file to be believed', ['--from', '1', '--accept-journal'], /does not take --accept-journal/],
    [
      'a journal in NATS',
      ['--from', '1', '--Journal.Type', 'jetstream', '--Journal.Servers', 'nats://127.0.0.1:1'],
      /Journal\.Type must be file/,
    ],
    [
      'several mistakes',
      ['--from', 'x', '--speed=0', '--bogus', '--Api.UpsertOnPut', '7'],
      /--from/,
      /--speed/,
      /--bogus/,
      /UpsertOnPut/,
    ],
  ]
  for (const [what, argv, ...messages] of refused) {
    test(`${what}: the message says what was expected`, () => {
      const context = {
        argv: ['replay', ...argv],
        env: {},
        absolute: resolve,
        packagedSettings: 'none',
        readText: () => undefined,
        remoteJournal: CLUSTER,
      }
      assert.throws(
        () => parseInvocation(context),
        (error) => {
          assert.ok(error instanceof BadSettings)
          for (const message of messages) assert.match(error.message, message)
          return error.mistakes.length === messages.length
        },
      )
    })
  }

  test('wrong flags and a missing start position exit with 2', async (t) => {
    const directory = await temporaryDirectory(t)
    await recordYesterday(directory)
    const run = (...flags: readonly string[]) =>
      runToEnd(t, directory, ['replay', '--file', join(directory, 'db.json'), ...flags])
    const cases: readonly (readonly [readonly string[], RegExp])[] = [
      [[], /needs --to[\s\S]*needs --out[\s\S]*needs --from/],
      [['--from', '1', '--speed', '0'], /--speed must be a number from 1 to 1000/],
      [['--from', '42'], /Position 42 is beyond the journal's end, 41/],
      [['--from', '2999-01-01'], /in the future/],
    ]
    for (const [flags, message] of cases) {
      const { code, stdout, stderr } = await run(...flags)
      assert.deepEqual([code, stdout], [2, ''])
      assert.match(stderr, message)
    }
  })

  test('a missing journal exits with 1, and none is created', async (t) => {
    const directory = await temporaryDirectory(t)
    const { code, stderr } = await runToEnd(t, directory, ['replay', '--from', '0'])
    assert.equal(code, 1)
    assert.match(stderr, /There is no journal in/)
    assert.deepEqual(await stateOf(directory), {})
  })

  test('a damaged journal exits with 1, names the place, and is left unchanged', async (t) => {
    const damaged = await startWritten(t, 8)
    await damaged.stop()
    await edit(segmentOf(damaged.directory), (bytes) => bytes.fill(0x20, 700, 720))
    const before = await stateOf(damaged.directory)
    const { code, stderr } = await runToEnd(t, damaged.directory, [
      'replay',
      ...['--file', damaged.file, '--from', '0', '--urls', 'http://127.0.0.1:0'],
    ])
    assert.equal(code, 1)
    assert.match(stderr, /offset \d+, position \d+/)
    assert.deepEqual(await stateOf(damaged.directory), before)
  })
})
