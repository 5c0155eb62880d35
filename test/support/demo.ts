import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { temporaryDirectory } from './directory.ts'
import { spawnServer, storeBuilt } from './server.ts'

/** The address of a home of six sensors with a past of 14 days, whose server ends with the test. */
export async function startDemo(t: TestContext): Promise<string> {
  const TMPDIR = await temporaryDirectory(t)
  const demo = spawnServer(t, TMPDIR, { isBare: true, flags: ['demo', '--port', '0'], env: { TMPDIR } })
  const url = await demo.listening()
  assert.ok(url, demo.stderr())
  await storeBuilt(url)
  return url
}
