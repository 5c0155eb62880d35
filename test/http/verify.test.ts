import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { progressOf, Verification } from '../../src/http/admin.ts'
import { Corruption, Refusal } from '../../src/runtime/errors.ts'
import { until } from '../support/deadline.ts'
import { headOf, send } from '../support/requests.ts'
import { ofOneServer, plainSegments } from '../support/server.ts'
import { startServer } from '../support/service.ts'

const DATA = { things: Array.from({ length: 50 }, (_, id) => ({ id, text: 'x'.repeat(100) })) }

function linesOf(text: string): readonly Record<string, unknown>[] {
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

test('POST /admin/verify checks the journal of a running server, and detects a flipped bit', {
  skip: ofOneServer('each node checks its own copy, and one of them is damaged here'),
}, async (t) => {
  const server = await startServer(t, { data: DATA, flags: plainSegments(4096) })
  for (let n = 0; n < 3; n++) await send(server.url, 'POST', '/api/things', { headers: JSON_TYPE, body: '{"n":1}' })
  const whole = await send(server.url, 'POST', '/admin/verify')
  assert.deepEqual([whole.status, whole.headers['content-type']], [200, 'application/x-ndjson'])
  // Its progress arrives also through a proxy that compresses.
  assert.equal(whole.headers['content-encoding'], 'identity')
  const head = await headOf(server.url)
  const [first, last] = [linesOf(whole.text)[0], linesOf(whole.text).at(-1)]
  assert.equal(first?.of, head)
  assert.deepEqual(last, { ok: true, position: head })

  const directory = server.file.replace(/\.json$/, '.journal')
  const [segment] = readdirSync(directory).filter((name) => name.endsWith('.ndjson'))
  const path = join(directory, segment as string)
  const bytes = readFileSync(path)
  bytes[1000] = (bytes[1000] as number) ^ 4
  writeFileSync(path, bytes)
  const damaged = linesOf((await send(server.url, 'POST', '/admin/verify')).text).at(-1)
  assert.equal(damaged?.ok, false)
  assert.match(String(damaged?.problem), new RegExp(`${segment}, offset \\d+, position \\d+: `))

  const { journal } = (await send(server.url, 'GET', '/health')).json<{ journal: { segments: { first: number }[] } }>()
  assert.ok(journal.segments.length > 1)
  assert.equal(journal.segments[0]?.first, 1)
})

const JSON_TYPE = { 'Content-Type': 'application/json' }

test('concurrent requests share one check, which stops when nobody reads the result', async () => {
  let checks = 0
  let isChecking = false
  const verification = new Verification(
    async (rest) => {
      checks++
      isChecking = true
      try {
        for (let position = 1; ; position++) await rest(position)
      } finally {
        isChecking = false
      }
    },
    { head: Number.MAX_SAFE_INTEGER },
  )
  for (const check of [verification.join(), verification.join()]) {
    for await (const line of progressOf(check)) if ((JSON.parse(line) as { position: number }).position > 0) break
    assert.deepEqual([checks, isChecking], [1, true])
    verification.leave(check)
  }
  await until('the end of the check that nobody reads', () => !isChecking)
  verification.leave(verification.join())
  assert.equal(checks, 2)
})

test('a server without a journal of its own cannot check one', () => {
  const refuse = (): never => {
    throw new Refusal('NotFound', 'There is none.')
  }
  assert.throws(() => new Verification(refuse, { head: 0 }).join(), { code: 'NotFound' })
})

test('an unexpected error aborts the response without a verdict', async () => {
  const broken = new Verification(() => Promise.reject(new Error('EIO')), { head: 1 })
  await assert.rejects(async () => {
    for await (const line of progressOf(broken.join())) assert.doesNotMatch(line, /ok/)
  }, /EIO/)
  const damaged = new Verification(() => Promise.reject(new Corruption('here')), { head: 1 })
  const lines: string[] = []
  for await (const line of progressOf(damaged.join())) lines.push(line)
  assert.equal(lines.at(-1), '{"ok":false,"position":0,"problem":"here"}\n')
})
