import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { JsonValue } from '../../src/json/value.ts'
import { fetch } from '../support/deadline.ts'
import { longObjects } from '../support/long-json.ts'
import { startProbed } from '../support/probe.ts'

const CHARACTERS = Number(process.env.LONG_ITEM_CHARACTERS ?? 400_000)
const TIMES = Number(process.env.LONG_ITEM_TIMES ?? 2)
/** The slowest shapes of longObjects; `all` for all. */
const SHAPES = process.env.LONG_ITEM_SHAPES ?? 'members of a member,many nested'
/** How much longer an item of any shape may block than one of the same size that is a single text. */
const MOST = 6

type Item = Readonly<Record<string, JsonValue>>

const { url, directory, longestBlock } = await startProbed({ after }, { data: { c: [] } })
const file = join(directory, 'db.json')

interface Work {
  readonly name: string
  /** The value at the path before. */
  readonly first?: Item
  readonly work: (path: string, item: Item) => Promise<unknown>
}

/** The operations on a long item, or on an item at a path. */
const WORKS: readonly Work[] = [
  { name: 'POST', work: (_, item) => send('POST', '/api/c', item) },
  { name: 'PUT with the id in another form', work: (path, item) => send('PUT', path, { ...item, id: idOf(path) }) },
  { name: 'a merge patch of it', work: (path) => send('PATCH', path, { x: 1 }, MERGE_PATCH) },
  {
    name: 'a JSON Patch of it',
    work: (path) => send('PATCH', path, [{ op: 'add', path: '/y', value: 1 }], JSON_PATCH),
  },
  { name: 'a merge patch', first: { a: 1 }, work: (path, item) => send('PATCH', path, { b: item }, MERGE_PATCH) },
  {
    name: 'a JSON Patch',
    first: { a: 1 },
    work: (path, item) => send('PATCH', path, [{ op: 'add', path: '/e', value: item }], JSON_PATCH),
  },
  {
    name: 'a JSON Patch that compares',
    work: (path, item) => send('PATCH', path, [{ op: 'test', path: '/e', value: item }], JSON_PATCH),
  },
  { name: 'GET inside it', work: (path) => send('GET', `${path}/e`) },
  {
    name: 'a hand edit',
    work: async (path, item) => {
      await writeFile(file, JSON.stringify({ c: [{ id: Number(idOf(path)), f: 1, e: item }] }))
      await send('POST', '/admin/reload')
      assert.equal(((await send('GET', path)) as Item).f, 1)
    },
  },
  {
    name: 'restoring',
    work: async (path) => {
      const to = Number((await fetch(url + path)).headers.get('journal-position'))
      await send('DELETE', path)
      await send('POST', '/admin/restore', { to, collection: 'c', id: idOf(path) })
      assert.equal(((await send('GET', path)) as Item).f, 1)
    },
  },
]

const MERGE_PATCH = 'application/merge-patch+json'
const JSON_PATCH = 'application/json-patch+json'

function idOf(path: string): string {
  return path.slice('/api/c/'.length)
}

/** Returns the parsed response. */
async function send(method: string, path: string, body?: unknown, type = 'application/json'): Promise<unknown> {
  const headers = body === undefined ? {} : { 'content-type': type }
  const response = await fetch(url + path, { method, headers, body: body === undefined ? null : JSON.stringify(body) })
  const text = await response.text()
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text.slice(0, 300)}`)
  return text === '' ? undefined : JSON.parse(text)
}

/** The longest block in milliseconds of each work. */
async function blocksOf(item: Item): Promise<ReadonlyMap<string, number>> {
  const blocks = new Map<string, number>()
  for (let time = 0; time < TIMES; time++) {
    const { id } = (await send('POST', '/api/c', { a: 1 })) as { id: number }
    for (const { name, first, work } of WORKS) {
      if (first) await send('PUT', `/api/c/${id}`, first)
      const block = await longestBlock(() => work(`/api/c/${id}`, item), 1)
      blocks.set(name, Math.min(block, blocks.get(name) ?? block))
    }
    await send('DELETE', `/api/c/${id}`)
  }
  return blocks
}

const harmless = Math.max(...(await blocksOf({ a: 'a'.repeat(CHARACTERS) })).values())

for (const [shape, item] of Object.entries(longObjects(CHARACTERS))) {
  if (SHAPES !== 'all' && !SHAPES.split(',').includes(shape)) continue
  test(`an item of the structure "${shape}" blocks the event loop hardly longer than a text, for every operation`, async () => {
    const blocks = [...(await blocksOf(item))]
    const told = blocks.map(([name, block]) => `${name} ${block.toFixed(1)} ms`).join(', ')
    if (process.env.LONG_ITEM_CHARACTERS) process.stderr.write(`${shape}: ${told}; a text ${harmless.toFixed(1)} ms\n`)
    assert.ok(Math.max(...blocks.map(([, block]) => block)) < MOST * harmless, `${told}; a text ${harmless} ms`)
  })
}
