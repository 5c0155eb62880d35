import assert from 'node:assert/strict'
import { type Scope, temporaryDirectory } from '../support/directory.ts'
import { json, startProgram } from '../support/server.ts'

export const FLAGS = ['--Api.UpsertOnPut', 'true']
export const ALL_DAY = ['--Store.CompactAt', '00:00-24:00']
/** Long items that are removed again, of a million bytes each. */
const REMOVED = 40

/** A directory with a store that has grown, which no server runs on. Its collection `a` has the items. */
export async function grownStore(t: Scope, items: number): Promise<string> {
  const directory = await temporaryDirectory(t)
  const a = Array.from({ length: items }, (_, id) => ({ id, n: 0, text: 'x'.repeat(id % 300) }))
  const server = await startProgram(t, { directory, flags: FLAGS, data: { a, b: [] } })
  const long = 'x'.repeat(1_000_000)
  for (let key = 0; key < REMOVED; key++) await server.fetch(`/api/b/k${key}`, json('PUT', { long }))
  for (let key = 0; key < REMOVED; key++) await server.fetch(`/api/b/k${key}`, { method: 'DELETE' })
  assert.equal(await server.stop(), 0, server.stderr())
  return directory
}

export function isCompacted(stderr: string): boolean {
  return /the store was compacted/.test(stderr)
}
