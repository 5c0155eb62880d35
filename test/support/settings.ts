import assert from 'node:assert/strict'
import { parseInvocation } from '../../src/cli/invocation.ts'
import { CLUSTER } from '../../src/cluster/cluster.ts'
import { BadSettings, type Settings } from '../../src/settings/settings.ts'

export interface Given {
  readonly argv?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** The text of files by their path; `/work` is the working directory. */
  readonly files?: Readonly<Record<string, unknown>>
}

export const PACKAGED = '/package/appsettings.json'

export function read({ argv = [], env = {}, files = {} }: Given) {
  return parseInvocation({
    argv,
    env: { PATH: '/bin', HOME: '/root', npm_package_version: '1', Unknown__Key: 'x', ...env },
    absolute: (path) => (path.startsWith('/') ? path : `/work/${path}`),
    packagedSettings: PACKAGED,
    remoteJournal: CLUSTER,
    readText: (path) => {
      const content = files[path]
      return content === undefined || typeof content === 'string' ? content : JSON.stringify(content)
    },
  })
}

export function settings(given: Given = {}): Settings {
  const invocation = read(given)
  assert.ok(invocation.type === 'serve')
  return invocation.settings
}

export function mistakesOf(given: Given): readonly string[] {
  try {
    read(given)
    return []
  } catch (error) {
    assert.ok(error instanceof BadSettings, String(error))
    return error.mistakes
  }
}

/** Every mistake matches its pattern, in any order, and there is none else. */
export function mistakes(given: Given, ...patterns: readonly RegExp[]): void {
  const found = mistakesOf(given)
  for (const pattern of patterns) assert.match(found.join('\n'), pattern)
  assert.equal(found.length, patterns.length, found.join('\n'))
}
