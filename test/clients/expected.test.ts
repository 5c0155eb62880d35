import assert from 'node:assert/strict'
import { test } from 'node:test'
import { failsWith } from './expected.ts'

test('an expected failure counts only while the body fails, with the expected error', async () => {
  const error = Object.assign(new Error('Bad request'), { status: 400 })
  await failsWith(/^400 Bad/, () => Promise.reject(error))
  await assert.rejects(
    failsWith(/^400 Bad/, async () => {}),
    /works now: make it a test/,
  )
  await assert.rejects(
    failsWith(/^400 Bad/, () => Promise.reject(new Error('Cannot find module'))),
    /Cannot find module/,
  )
})
