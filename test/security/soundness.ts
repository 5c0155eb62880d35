import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import { run } from '../../src/cli/run.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { journalOf } from '../../src/settings/settings.ts'
import { send } from '../support/requests.ts'

/** The objects from which all others inherit. */
const FOUNDATIONS: readonly object[] = [
  ...[
    Object,
    Array,
    Function,
    String,
    Number,
    Boolean,
    Symbol,
    Map,
    Set,
    WeakMap,
    Promise,
    RegExp,
    Date,
    Error,
    Buffer,
  ].flatMap((made) => [made, made.prototype as object]),
  ...[JSON, Math, Reflect, Uint8Array.prototype, Object.getPrototypeOf([][Symbol.iterator]()) as object],
]

/** Every property of theirs, and of each of their functions what it holds itself. */
function look(): readonly (readonly [PropertyKey, unknown, unknown, unknown, readonly PropertyKey[]])[] {
  return FOUNDATIONS.flatMap((foundation) =>
    Reflect.ownKeys(foundation).map((name) => {
      const { value, get, set } = Object.getOwnPropertyDescriptor(foundation, name) ?? {}
      return [name, value, get, set, typeof value === 'function' ? Reflect.ownKeys(value) : []] as const
    }),
  )
}

const before = look()

export interface Attacked {
  readonly url: string
  /** The data file. */
  readonly file: string
  /** Where the service runs in this process: what would have ended it. */
  readonly failures?: readonly unknown[]
}

/** The server still answers, the language is what it was, and the journal is whole. */
export async function assertSound({ url, file, failures = [] }: Attacked): Promise<void> {
  const now = look()
  assert.equal(now.length, before.length)
  for (const [index, [name, value, get, set, keys]] of now.entries()) {
    const [oldName, oldValue, oldGet, oldSet, oldKeys] = before[index] ?? []
    const isSame = name === oldName && Object.is(value, oldValue) && get === oldGet && set === oldSet
    assert.ok(isSame && isDeepStrictEqual(keys, oldKeys), `${String(name)} was changed`)
  }
  assert.deepEqual(failures, [])
  assert.equal((await send(url, 'GET', '/health')).status, 200)
  let said = ''
  const out = (text: string) => {
    said += text
  }
  const command = { type: 'verify', file, journal: journalOf(file), idField: 'id', json: false, store: false } as const
  assert.equal(await run(command, nodeFiles, { out, progress: undefined }), 0, said)
}
