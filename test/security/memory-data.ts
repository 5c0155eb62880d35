import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Scope, temporaryDirectory } from '../support/directory.ts'
import { headOf, send, sendJson } from '../support/requests.ts'
import { startProgram } from '../support/server.ts'
import { FLAGS } from './memory-server.ts'

/** A directory with a data file and its history, of which each server gets a copy. */
export interface Prepared {
  readonly directory: string
  /** The positions of the first and the last change. */
  readonly changes: { readonly first: number; readonly last: number }
}

const MB = 1_000_000
const WRITERS = 16

/** Items of each kind that costs memory, and changes of them: such a part of those of the largest run. */
export async function prepare(t: Scope, part: number): Promise<Prepared> {
  const count = (most: number): number => Math.floor(most * part)
  const [small, large, changed] = [count(100_000), Math.max(count(250), 50), count(5000)]
  const directory = await temporaryDirectory(t)
  const text = (id: number, length: number): string => `${id} `.padStart(length, 'text ')
  const items = (count: number, fields: (id: number) => object): object[] =>
    Array.from({ length: count }, (_, id) => ({ id, ...fields(id) }))
  const members = Object.entries({
    small: items(small, (id) => ({ n: (id * 7919) % small, k: id % 1000, text: text(id, 100) })),
    large: items(large, (id) => ({ n: id, text: text(id, MB) })),
    nested: items(count(200), (id) => ({ list: Array.from({ length: 19 }, (_, n) => numbers(1000, id + n)) })),
    posts: items(500, (id) => ({ title: text(id, 100) })),
    comments: items(count(10_000), (id) => ({ postId: id % 500, text: text(id, 3000) })),
    changed: items(changed, (id) => ({ n: 0, text: text(id, 2000) })),
    former: items(count(500_000), (id) => ({ n: id })),
    posted: [],
  }).map(([name, list]) => `"${name}": [\n${list.map((item) => JSON.stringify(item)).join(',\n')}\n]`)
  await writeFile(join(directory, 'db.json'), `{${members.join(',')}}\n`)
  const server = await startProgram(t, { directory, flags: FLAGS })
  const { url } = server
  const first = await headOf(url)
  await changeEach(large, (id) =>
    sendJson(url, 'PATCH', `/api/large/${id}`, { n: id + 1 }, { 'Content-Type': 'application/merge-patch+json' }),
  )
  await changeEach(changed, (id) => sendJson(url, 'PUT', `/api/changed/${id}`, { n: 1, text: text(id + 1, 2000) }))
  assert.equal((await send(url, 'DELETE', '/api/former?id_exists=true')).status, 200)
  const last = await headOf(url)
  assert.equal((await send(url, 'POST', '/admin/snapshot')).status, 200)
  assert.equal(await server.stop(), 0)
  return { directory, changes: { first, last } }
}

function numbers(count: number, from: number): number[] {
  return Array.from({ length: count }, (_, index) => ((from + index) * 7919) % 10_007)
}

async function changeEach(count: number, change: (id: number) => ReturnType<typeof send>): Promise<void> {
  let next = 0
  const writer = async (): Promise<void> => {
    while (next < count) assert.ok((await change(next++)).status < 300)
  }
  await Promise.all(Array.from({ length: WRITERS }, writer))
}
