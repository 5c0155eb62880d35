import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tokensInDirectory } from '../../src/engine/token-storage.ts'
import { Corruption } from '../../src/runtime/errors.ts'
import { SimulatedDisk } from '../support/simulated-files.ts'

const REVOKED = [{ id: 'a', expiresAt: 1 }]

test('revocations are stored as a JSON array, and read by the next start', async () => {
  const disk = new SimulatedDisk()
  await disk.files().makeDirectory('/data')
  const first = tokensInDirectory(disk.files(), '/data', false)
  assert.deepEqual(await first.revocations.read(), [])
  await first.revocations.write(REVOKED)
  assert.equal(String(disk.bytes('/data/revoked.json')), `${JSON.stringify(REVOKED)}\n`)
  assert.deepEqual(await tokensInDirectory(disk.files(), '/data', false).revocations.read(), REVOKED)
})

test('a file of revocations that is damaged in any way prevents the start', async () => {
  for (const text of ['', 'null', '0', '{}', '[{"id":"a"}]', '[{"id":"a","expiresAt":1}']) {
    const disk = new SimulatedDisk()
    disk.put('/data/revoked.json', Buffer.from(text))
    await assert.rejects(tokensInDirectory(disk.files(), '/data', false).revocations.read(), Corruption, text)
  }
})
