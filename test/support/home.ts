import assert from 'node:assert/strict'
import { parseInvocation } from '../../src/cli/invocation.ts'
import { CLUSTER } from '../../src/cluster/cluster.ts'
import type { Settings } from '../../src/settings/settings.ts'

/** The settings of `recollect demo` in a directory, without flags and environment. */
export function homeSettings(directory: string): Settings {
  const invoked = parseInvocation({
    argv: ['demo'],
    env: {},
    absolute: (path) => path,
    packagedSettings: '',
    remoteJournal: CLUSTER,
    readText: () => undefined,
  })
  assert.ok(invoked.type === 'demo')
  return invoked.settingsIn(directory)
}
