import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Refusal } from '../../src/runtime/errors.ts'
import { DATA_FILE, openTestEngine } from '../support/engine.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

test('an unreadable data file is rejected with the reason, and merged when it can be read again', async () => {
  const disk = new SimulatedDisk()
  disk.put(DATA_FILE, Buffer.from('{"things":[{"id":0}]}'))
  let code: string | undefined
  let failing: readonly string[] = ['open', 'read']
  const files = disk.files((operation, path) =>
    code !== undefined && path === DATA_FILE && failing.includes(operation) ? { type: 'error', code } : undefined,
  )
  const { engine } = await openTestEngine(files)
  disk.put(DATA_FILE, Buffer.from('{"things":[{"id":1}]}'))
  for (const one of ['EACCES', 'EIO', 'ESTALE', 'ELOOP']) {
    code = one
    if (one === 'ELOOP') failing = ['stat']
    await assert.rejects(engine.dataFile.reload(), (error: unknown) => {
      assert.ok(error instanceof Refusal, String(error))
      assert.equal(error.code, 'Unavailable')
      assert.ok(error.message.includes(DATA_FILE) && error.message.includes(one), error.message)
      return true
    })
  }
  code = undefined
  assert.equal((await engine.dataFile.reload()).events, 2)
  assert.equal(engine.health().status, 'ok')
  await engine.close()
})
