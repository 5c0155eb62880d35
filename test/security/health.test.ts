import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import type { RunningServer } from '../support/server.ts'
import { startServer } from '../support/service.ts'

interface Health {
  readonly status: string
  readonly dataFile: { readonly state: string; readonly detail?: string }
  readonly warnings?: readonly string[]
  readonly access: unknown
}

const KEY = 'the-key-of-the-owner'
const ON = ['--Authentication.Enabled', 'true', '--Authentication.AuthenticationType', 'apikey']
const READER = JSON.stringify([{ Name: 'reader', Key: 'the-key-of-a-reader', Role: 'reader' }])

async function healthOf(server: RunningServer, key?: string): Promise<Health> {
  const answer = await server.fetch('/health', { headers: key === undefined ? {} : { 'X-API-KEY': key } })
  assert.equal(answer.status, 200)
  return (await answer.json()) as Health
}

/** An edit that gives two items one id, which must be reported to the owner of the file. */
async function breakFile(server: RunningServer): Promise<void> {
  await writeFile(server.file, '{"patients": [{"id": "jane-doe"}, {"id": "jane-doe"}]}')
  const reloaded = await server.fetch('/admin/reload', { method: 'POST', headers: { 'X-API-KEY': KEY } })
  assert.equal(reloaded.status, 422)
}

test('/health tells everybody that the data file has a problem, and only admins which', async (t) => {
  const flags = [...ON, '--Authentication.ApiKey', KEY, '--Authentication.ApiKeys', READER]
  const server = await startServer(t, { data: { patients: [] }, flags })
  await breakFile(server)
  for (const key of [undefined, 'wrong', 'the-key-of-a-reader']) {
    const seen = await healthOf(server, key)
    assert.deepEqual([seen.status, seen.dataFile.state], ['degraded', 'invalid'])
    assert.doesNotMatch(JSON.stringify(seen), /jane|patients|warnings/)
  }
  const seen = await healthOf(server, KEY)
  assert.match(String(seen.dataFile.detail), /patients\/1\/id/)
  assert.deepEqual(seen.warnings, [])
})

test('with authentication off, /health tells everybody which problem there is', async (t) => {
  const server = await startServer(t, { data: { patients: [] } })
  await breakFile(server)
  assert.match(String((await healthOf(server)).dataFile.detail), /patients\/1\/id/)
})

test('/health tells a client its user, and an anonymous one how to authenticate', async (t) => {
  const flags = [...ON, '--Authentication.ApiKey', KEY, '--Authentication.ApiKeys', READER]
  const server = await startServer(t, { data: { patients: [] }, flags })
  const schemes = ['apikey']
  assert.deepEqual((await healthOf(server)).access, { schemes, actor: null, role: null })
  assert.deepEqual((await healthOf(server, 'wrong')).access, { schemes, actor: null, role: null })
  assert.deepEqual((await healthOf(server, 'the-key-of-a-reader')).access, { schemes, actor: 'reader', role: 'reader' })
  const open = await startServer(t, { data: { patients: [] } })
  assert.deepEqual((await healthOf(open)).access, { schemes: [], actor: 'anonymous', role: 'admin' })
})
