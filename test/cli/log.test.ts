import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formatEntry, openLog } from '../../src/cli/log.ts'
import type { Settings } from '../../src/settings/settings.ts'
import { fetch, until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { freePort } from '../support/process.ts'
import { spawnServer } from '../support/server.ts'

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
