import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { test } from 'node:test'
import type { Gate } from '../../src/access/gate.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { LimitedLog } from '../../src/runtime/limited-log.ts'
import { SettingsReload } from '../../src/server/settings-reload.ts'
import type { Settings } from '../../src/settings/settings.ts'
import { SILENT } from '../support/cluster.ts'

test('a reload rejects with a Refusal for an error of the file system, and with a bug itself, also if it has a code', async () => {
  const rows = [
    [() => readFileSync('/'), Refusal],
    [() => resolve(1 as unknown as string), TypeError],
  ] as const
  for (const [fail, expected] of rows) {
    const read = (): Settings => {
      throw new Error(`${fail()} was expected to throw`)
    }
    const settings = {} as Settings
    const log = new LimitedLog(SILENT, () => 0)
    const settingsReload = new SettingsReload({ settings, read, gate: {} as Gate, schemas: undefined, log })
    await assert.rejects(settingsReload.reload(), expected)
  }
})
