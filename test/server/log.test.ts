import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { pino } from 'pino'
import { formatEntry, openLog } from '../../src/cli/log.ts'
import { type Files, writeAll } from '../../src/files/files.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { Reply } from '../../src/http/exchange.ts'
import { observing, RequestTimes } from '../../src/http/pipeline.ts'
import { replyProblem } from '../../src/http/problems.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { LimitedLog } from '../../src/runtime/limited-log.ts'
import type { Settings } from '../../src/settings/settings.ts'
import { clock } from '../support/clock.ts'
import { fetch, until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { freePort } from '../support/process.ts'
import { send, sendJson, THROUGH_KOA } from '../support/requests.ts'
import { plainSegments, spawnServer } from '../support/server.ts'
import { type OwnService, startHere } from '../support/service.ts'

interface Line {
  readonly level: number
  readonly msg: string
  readonly unlogged?: number
  readonly [fact: string]: unknown
}

const [INFO, WARN, ERROR] = [30, 40, 50]
const MINUTE_MS = 60_000

/** The lines of a log that say this. */
function linesOf({ log }: Pick<OwnService, 'log'>, message: RegExp): readonly Line[] {
  return log.map((line) => JSON.parse(line) as Line).filter(({ msg }) => message.test(msg))
}

/** The real files, where writing to some fails with an error code while it is set. */
function failing(isFailing: (path: string) => boolean) {
  let code: string | undefined
  const fail = (path: string): void => {
    if (code !== undefined && isFailing(path)) throw Object.assign(new Error(`${code}: simulated`), { code })
  }
  const files: Files = {
    ...nodeFiles,
    async open(path, how, mode) {
      if (how !== 'read') fail(path)
      const file = await nodeFiles.open(path, how, mode)
      return {
        ...file,
        async write(bytes, offset) {
          fail(path)
          await writeAll(file, bytes, offset)
          return bytes.length
        },
      }
    },
  }
  return {
    files,
    fail: (with_: string | undefined) => {
      code = with_
    },
  }
}

const post = (url: string, value: unknown) => sendJson(url, 'POST', '/api/things', value)

test('a full disk is logged when it begins, once a minute with the number of refused writes, and when it is over', async (t) => {
  const disk = failing((path) => path.includes('db.journal'))
  const { elapsedMs, pass } = clock()
  const service = await startHere(t, { data: { things: [] }, ...disk, elapsedMs })
  disk.fail('ENOSPC')
  for (let count = 0; count < 5; count++) assert.equal((await post(service.url, {})).status, 507)
  const [first, ...others] = linesOf(service, /journal cannot be written/)
  assert.deepEqual(others, [])
  assert.equal(first?.level, ERROR)
  assert.equal(first?.path, join(service.directory, 'db.journal'))
  assert.equal(first?.refused, 1)
  assert.match(JSON.stringify(first?.err), /ENOSPC/)

  pass(MINUTE_MS)
  assert.equal((await post(service.url, {})).status, 507)
  const [, second] = linesOf(service, /journal cannot be written/)
  assert.deepEqual([second?.refused, second?.unlogged], [6, 4])

  disk.fail(undefined)
  assert.equal((await post(service.url, {})).status, 201)
  assert.deepEqual(linesOf(service, /journal is written again/), [])
  pass(MINUTE_MS)
  for (let count = 0; count < 3; count++) assert.equal((await post(service.url, {})).status, 201)
  const [over, ...again] = linesOf(service, /journal is written again/)
  assert.deepEqual([over?.level, over?.refused, again], [INFO, 6, []])
})

for (const code of ['ENOSPC', 'EROFS']) {
  test(`a data file that cannot be written (${code}) is logged once a minute, and when it is written again`, async (t) => {
    const disk = failing((path) => path.includes('db.json'))
    const { elapsedMs, pass } = clock()
    const service = await startHere(t, { data: { things: [] }, files: disk.files, elapsedMs })
    disk.fail(code)
    assert.equal((await post(service.url, {})).status, 201)
    for (let count = 0; count < 3; count++) {
      assert.ok((await send(service.url, 'POST', '/admin/snapshot')).status >= 500)
    }
    const lines = linesOf(service, /data file could not be written/)
    assert.deepEqual([lines.length, lines[0]?.level, lines[0]?.path], [1, ERROR, service.file])
    assert.match(JSON.stringify(lines[0]?.err), new RegExp(code))
    disk.fail(undefined)
    pass(MINUTE_MS)
    for (let count = 0; count < 2; count++) {
      assert.equal((await send(service.url, 'POST', '/admin/snapshot')).status, 200)
    }
    assert.equal(linesOf(service, /data file is written again/).length, 1)
  })
}

test('clock jumps are warnings, at most one a minute, and the last one is never left out', async (t) => {
  const { elapsedMs, pass, now } = clock()
  let aheadMs = 0
  const delay = (delayMs: number): number => (delayMs === MINUTE_MS ? 5 : delayMs)
  const service = await startHere(t, { data: {}, now: () => new Date(now().getTime() + aheadMs), elapsedMs, delay })
  const jump = async (days: number) => {
    aheadMs += days * 24 * 60 * MINUTE_MS
    await send(service.url, 'GET', '/health')
  }
  for (const days of [2, -3, 4, -5]) await jump(days)
  assert.equal(linesOf(service, /clock/).length, 1)
  pass(MINUTE_MS)
  await until('the last jump to be logged', () => linesOf(service, /clock/).length === 2)
  const [first, second] = linesOf(service, /clock/)
  assert.deepEqual([first?.level, second?.level], [WARN, WARN])
  assert.match(JSON.stringify(second?.clock), /"seconds":-432000\b/)
})

test('slow requests are warnings without their query, also those that Koa serves, at most one a minute', async (t) => {
  const { elapsedMs, pass } = clock()
  const flags = ['--Log.SlowMs', '1', '--Simulate.Delay.Enabled', 'true', '--Simulate.Delay.MinMs', '20']
  const service = await startHere(t, {
    data: { things: [] },
    flags: [...flags, '--Simulate.Delay.MaxMs', '20'],
    elapsedMs,
  })
  const ask = (headers = {}) =>
    send(service.url, 'GET', '/api/things?secret=1', { headers: { 'X-Request-Id': 'mine', ...headers } })
  // GET /health may have been slow at the start.
  pass(MINUTE_MS)
  for (let count = 0; count < 3; count++) await ask()
  pass(MINUTE_MS)
  await ask(THROUGH_KOA)
  const lines = linesOf(service, /request was slow/).filter(({ path }) => path !== '/health')
  assert.equal(lines.length, 2)
  for (const { level, method, path, status, requestId, ms } of lines) {
    assert.deepEqual([level, method, path, status, requestId], [WARN, 'GET', '/api/things', 200, 'mine'])
    assert.ok(Number(ms) > 1)
  }
  assert.equal(lines[1]?.unlogged, 2)
  assert.ok(!service.log.some((line) => line.includes('secret')))
})

test('a response is slow if it takes longer to begin than Log.SlowMs, and none is with 0', () => {
  const warned = (slowMs: number, ms: number): number => {
    const lines: string[] = []
    const log = pino({ level: 'info' }, { write: (line) => lines.push(line) })
    const observe = observing(new RequestTimes(), log, new LimitedLog(log, () => 0), slowMs)
    observe({ method: 'GET', path: '/api', requestId: 'r' }, '/api', 200, ms)
    return lines.length
  }
  assert.deepEqual([warned(1000, 1000), warned(1000, 1001), warned(0, 1e6)], [0, 1, 0])
})

test('damage of the journal is logged once for each place, and a request that needs it at most once a minute', async (t) => {
  const service = await startHere(t, {
    data: { things: Array.from({ length: 100 }, (_, id) => ({ id, text: 'x'.repeat(100) })) },
    flags: plainSegments(4096),
  })
  const directory = join(service.directory, 'db.journal')
  const [segment = ''] = readdirSync(directory).filter((name) => name.endsWith('.ndjson'))
  const bytes = readFileSync(join(directory, segment))
  bytes[1000] = (bytes[1000] as number) ^ 4
  writeFileSync(join(directory, segment), bytes)

  for (let count = 0; count < 3; count++) await send(service.url, 'POST', '/admin/verify')
  const found = linesOf(service, /journal is damaged/)
  assert.deepEqual([found.length, found[0]?.level], [1, ERROR])
  assert.deepEqual([found[0]?.path, typeof found[0]?.offset], [join(directory, segment), 'number'])

  for (let count = 0; count < 3; count++) await send(service.url, 'GET', '/events/1')
  const read = linesOf(service, /request failed: what it reads is damaged/)
  assert.deepEqual([read.length, read[0]?.level], [1, ERROR])
})

test('unexpected errors of requests have at most ten lines in ten seconds, and failures of the environment one', () => {
  const lines: string[] = []
  const log = new LimitedLog(pino({ base: null }, { write: (line) => void lines.push(line) }), () => 0)
  const answer = (error: unknown): Reply => {
    const reply = new Reply()
    replyProblem(error, { method: 'GET', base: '', path: '/api', requestId: 'r' }, reply, log)
    return reply
  }
  const full = Object.assign(new Error('ENOSPC: simulated'), { code: 'ENOSPC' })
  for (let count = 0; count < 25; count++) {
    assert.equal(answer(new TypeError('a bug')).status, 500)
    assert.equal(answer(Object.assign(new Error('EMFILE'), { code: 'EMFILE' })).status, 503)
    assert.equal(answer(new Refusal('DiskFull', 'The disk is full.', [], { cause: full })).status, 507)
    assert.equal(answer(new Refusal('DiskFull', 'The disk is full.')).status, 507)
  }
  const messages = linesOf({ log: lines }, /./).map(({ msg }) => msg)
  assert.deepEqual(messages.sort(), [
    ...Array.from({ length: 10 }, () => 'a request failed unexpectedly'),
    'a request failed: the disk is full',
    'a request failed: too many files are open',
  ])
})

test('failed logins are warnings, at most ten in ten seconds', async (t) => {
  const { elapsedMs, pass } = clock()
  const flags = ['--Authentication.Enabled', 'true', '--Authentication.AuthenticationType', 'apikey']
  const service = await startHere(t, {
    data: {},
    flags: [...flags, '--Authentication.ApiKey', 'k'.repeat(32)],
    elapsedMs,
  })
  const guess = () => send(service.url, 'GET', '/api', { headers: { 'X-Api-Key': 'wrong' } })
  for (let count = 0; count < 15; count++) await guess()
  assert.equal(linesOf(service, /login failed/).length, 10)
  pass(10_000)
  await guess()
  const last = linesOf(service, /login failed/).at(-1)
  assert.deepEqual([last?.level, last?.scheme, last?.unlogged], [WARN, 'apikey', 5])
})

function logged(log: Pick<Settings['log'], 'level' | 'format'>, isTerminal: boolean, hasColours = false) {
  const written: string[] = []
  const opened = openLog(log, { write: (text) => written.push(text), isTerminal, hasColours })
  opened.debug({ requestId: 'r', method: 'GET', path: '/api/posts', status: 200, ms: 3 }, 'answered')
  opened.debug('a detail')
  opened.info({ version: '1', settings: { 'Limits.PageSize': 7 } }, 'Recollect starts')
  opened.warn({ actor: 'a b' }, 'a login failed')
  opened.error({ err: new Error('on the disk') }, 'a request failed')
  return written
}

test('on a terminal the log shows times, requests and messages for people', () => {
  const lines = logged({ level: 'info', format: 'auto' }, true).join('').split('\n')
  const withoutTime = lines.map((line) => line.replace(/^\d\d:\d\d:\d\d /, '<time> '))
  assert.deepEqual(withoutTime.slice(0, 5), [
    '<time> GET /api/posts 200 3 ms',
    '<time> Recollect starts version=1 settings={"Limits.PageSize":7}',
    '<time> warning: a login failed actor="a b"',
    '<time> error: a request failed',
    'Error: on the disk',
  ])
})

test('a slow request is a warning with its facts, and not a line of a request', () => {
  const slow = { level: 40, time: '2026-11-20T12:00:00Z', msg: 'a request was slow' }
  const line = formatEntry({ ...slow, method: 'GET', path: '/api', status: 200, ms: 1200 }, false)
  assert.match(line, /warning: a request was slow method=GET path=\/api status=200 ms=1200/)
})

test('the log shows requests from level info on, and details at level debug', () => {
  const of = (level: Settings['log']['level']) => logged({ level, format: 'text' }, false).length
  assert.deepEqual([of('debug'), of('info'), of('warn'), of('error'), of('silent')], [5, 4, 2, 1, 0])
})

test('without a terminal the log has one JSON object a line, with requests at level debug', () => {
  const lines = logged({ level: 'info', format: 'auto' }, false)
  assert.deepEqual(
    lines.map((line) => (JSON.parse(line) as { msg: string }).msg),
    ['Recollect starts', 'a login failed', 'a request failed'],
  )
  assert.equal(logged({ level: 'debug', format: 'json' }, true).length, 5)
})

test('control characters of a client never reach the terminal', () => {
  const written: string[] = []
  const log = openLog(
    { level: 'info', format: 'text' },
    { write: (text) => written.push(text), isTerminal: true, hasColours: false },
  )
  log.debug({ method: 'GET', path: '/\u001b[2J\u009b\u202e', status: 404, ms: 1 }, 'answered')
  log.warn({ actor: '\u001b]0;x\u0007\n12:00:00 forged' }, 'a login failed')
  assert.equal(written.length, 2)
  assert.match(written[0] ?? '', /\/\\u001b\[2J\\u009b\\u202e 404/)
  assert.equal(written[1]?.split('\n').length, 2)
  assert.ok(!['\u001b', '\u0007', '\u009b'].some((control) => written.join('').includes(control)))
})

test('a server whose log cannot be written, as on a full disk, starts, answers and ends as any other', async (t) => {
  const directory = await temporaryDirectory(t)
  const under = ['sh', '-c', 'exec "$0" "$@" 2>/dev/full']
  const server = spawnServer(t, directory, { under, flags: ['--Log.Level', 'debug'] })
  const url = await server.listening()
  assert.ok(url, 'it listens')
  for (let request = 0; request < 3; request++) assert.equal((await fetch(`${url}/api`)).status, 200)
  server.process.kill('SIGTERM')
  assert.deepEqual(await server.ended(), { code: 0, signal: null })
})

test('a server whose standard output cannot be written starts as any other', async (t) => {
  const directory = await temporaryDirectory(t)
  const port = await freePort()
  const under = ['sh', '-c', 'exec "$0" "$@" >/dev/full']
  const server = spawnServer(t, directory, { under, isBare: true, flags: ['db.json', '--port', String(port)] })
  const answer = () => fetch(`http://127.0.0.1:${port}/api`).catch(() => undefined)
  await until('an answer', async () => (await answer())?.status === 200)
  server.process.kill('SIGTERM')
  assert.deepEqual(await server.ended(), { code: 0, signal: null }, server.stderr())
})
