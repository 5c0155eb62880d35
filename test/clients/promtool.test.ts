import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { DEADLINE_MS, until } from '../support/deadline.ts'
import { plainSocket, socketIo } from '../support/listeners.ts'
import { send, sendJson } from '../support/requests.ts'
import { startProgram } from '../support/server.ts'
import { unlessThere } from './documented-proxies.ts'

test('promtool accepts the metrics and finds nothing to object to', {
  skip: unlessThere('PROMTOOL', 'prometheus'),
}, async (t) => {
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
  const { PROMTOOL = '' } = process.env
  const checked = spawnSync(PROMTOOL, ['check', 'metrics'], { input: metrics, encoding: 'utf8', timeout: DEADLINE_MS })
  assert.deepEqual([checked.status, checked.stdout, checked.stderr], [0, '', ''])
})
