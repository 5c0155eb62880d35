import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { DEADLINE_MS, until } from '../support/deadline.ts'
import { plainSocket, socketIo } from '../support/listeners.ts'
import { send, sendJson } from '../support/requests.ts'
import { startProgram } from '../support/server.ts'
import { unlessThere } from './documented-proxies.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const skip = unlessThere('PROMTOOL', 'prometheus')

function promtool(
  args: readonly string[],
  input = '',
): readonly [status: number | null, stdout: string, stderr: string] {
  const { PROMTOOL = '' } = process.env
  const cwd = `${root}/examples/operations`
  const { status, stdout, stderr } = spawnSync(PROMTOOL, args, { cwd, input, encoding: 'utf8', timeout: DEADLINE_MS })
  return [status, stdout, stderr]
}

test('promtool accepts the metrics and finds nothing to object to', { skip }, async (t) => {
  const { url } = await startProgram(t, {
    data: { things: [{ id: 1, n: 1 }], profile: { a: 1 } },
    flags: ['--Collections', JSON.stringify({ things: { Indexes: ['n'] } })],
  })
  await plainSocket(t, url)
  await socketIo(t, url)
  assert.equal((await sendJson(url, 'POST', '/api/things', [{ n: 2 }, { n: 3 }])).status, 201)
  const metrics = await until('an index', async () => {
    assert.equal((await send(url, 'GET', '/api/things?n_gte=2&sort=-n')).status, 200)
    const { text } = await send(url, 'GET', '/metrics')
    return text.includes('recollect_index_entries{') && text
  })
  assert.deepEqual(promtool(['check', 'metrics'], metrics), [0, '', ''])
})

const read = (path: string): string => readFileSync(`${root}/${path}`, 'utf8')
const alerts = read('examples/operations/alerts.yml')

test('the alert rules fire when their tests say so, and not before', { skip }, () => {
  const [status, stdout, stderr] = promtool(['test', 'rules', 'alerts.test.yml'])
  assert.equal(status, 0, stdout + stderr)
  const names = Array.from(alerts.matchAll(/- alert: (\w+)/g), ([, name]) => name as string)
  assert.ok(names.length > 10)
  const cases = read('examples/operations/alerts.test.yml')
  for (const name of names) {
    assert.match(cases, new RegExp(`alertname: ${name}\\n *exp_alerts:\\n`), `${name} fires in a test`)
    assert.match(cases, new RegExp(`alertname: ${name}\\n *exp_alerts: \\[\\]\\n`), `${name} does not fire in a test`)
  }
})

test('the alert rules use metrics and states that exist', async (t) => {
  const { url } = await startProgram(t, { data: { things: [{ id: 1 }] } })
  const { text } = await send(url, 'GET', '/metrics')
  const known = text + read('docs/cluster.md') + read('examples/operations/recollect-backup.service')
  const expressions = Array.from(alerts.matchAll(/expr: (>\n(?: {10}.*\n)+|.*)/g), ([, expression]) => expression).join(
    '\n',
  )
  const metrics = new Set(expressions.match(/\b(?:recollect|nodejs|process)_\w+/g))
  assert.ok(metrics.has('recollect_journal_flush_duration_seconds_sum') && metrics.size > 12)
  for (const name of metrics) assert.match(known, new RegExp(`\\b${name}\\b`), name)
  for (const [, name, states = ''] of expressions.matchAll(/(recollect_\w+)\{state=~"([^"]*)"\}/g)) {
    for (const state of states.split('|')) assert.ok(text.includes(`${name}{state="${state}"}`), `${name} ${state}`)
  }
})
