import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { JsonValue } from '../../src/json/value.ts'
import { fetch } from '../support/deadline.ts'

type Item = Readonly<Record<string, JsonValue>>

interface Work {
  readonly name: string
  /** The value at the path before. */
  readonly first?: Item
  readonly work: (path: string, item: Item) => Promise<unknown>
}

const MERGE_PATCH = 'application/merge-patch+json'
const JSON_PATCH = 'application/json-patch+json'

/** The operations on a long item of the collection `c`, or on an item at a path; each checks its response. */
function worksOn(url: string, directory: string): readonly Work[] {
  const send = (method: string, path: string, body?: unknown, type?: string) => sendTo(url, method, path, body, type)
  return [
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
    {
      name: 'GET inside it',
      work: async (path, item) => assert.deepEqual(await send('GET', `${path}/e`), item),
    },
    {
      name: 'an edit of the data file',
      work: async (path, item) => {
        const items = [{ id: Number(idOf(path)), f: 1, e: item }]
        await writeFile(join(directory, 'db.json'), JSON.stringify({ c: items }))
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
}

function idOf(path: string): string {
  return path.slice('/api/c/'.length)
}

/** Returns the parsed response. */
async function sendTo(
  url: string,
  method: string,
  path: string,
  body?: unknown,
  type = 'application/json',
): Promise<unknown> {
  const headers = body === undefined ? {} : { 'content-type': type }
  const response = await fetch(url + path, { method, headers, body: body === undefined ? null : JSON.stringify(body) })
  const text = await response.text()
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text.slice(0, 300)}`)
  return text === '' ? undefined : JSON.parse(text)
}

/** Does all of it with an item, each by way of `around`. */
export async function workOn(
  { url, directory }: { readonly url: string; readonly directory: string },
  item: Item,
  around: (name: string, work: () => Promise<unknown>) => Promise<unknown>,
): Promise<void> {
  const { id } = (await sendTo(url, 'POST', '/api/c', { a: 1 })) as { id: number }
  for (const { name, first, work } of worksOn(url, directory)) {
    if (first) await sendTo(url, 'PUT', `/api/c/${id}`, first)
    await around(name, () => work(`/api/c/${id}`, item))
  }
  await sendTo(url, 'DELETE', `/api/c/${id}`)
}
