import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { io } from 'socket.io-client'
import type { JsonValue } from '../../src/json/value.ts'
import { fetch, once, within } from '../support/deadline.ts'
import type { Scope } from '../support/directory.ts'
import { send, sendJson } from '../support/requests.ts'

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

/** A text that takes long to be searched for among the same letters. */
const SLOW_TO_FIND = `ab${'a'.repeat(198)}`

const QUERIES = [
  'a=5',
  'a=6',
  'a_ne=0&a_ne=7',
  'a_gt=[[[1]]]',
  'a_gte={"k1":1}',
  'a_in=1,[2],{}',
  'a_exists=true',
  'a.b.c_exists=true',
  'a.b=1',
  `a_contains=${SLOW_TO_FIND}`,
  'a_startswith=aab',
  'a_endswith=aab',
  'q=zz',
  `q=${SLOW_TO_FIND}`,
  'sort=a',
  'sort=-n,a.b',
  'a_gt=0&n=1&sort=a',
  'fields=a.b.c,n',
]

const JSON_BODY = { 'Content-Type': 'application/json' }

/** Stores an item whose field has that JSON, among others. */
export async function storeLong(url: string, collection: string, json: string): Promise<void> {
  for (const body of ['{"n":1,"a":1}', '{"n":2}', `{"n":3,"a":${json}}`]) {
    const path = `/api/${encodeURIComponent(collection)}`
    assert.equal((await send(url, 'POST', path, { body, headers: JSON_BODY })).status, 201)
  }
}

/** Stores one more item, and returns what asks every query, also as of the position before. */
export async function queriesOf(url: string, collection: string): Promise<() => Promise<void>> {
  const path = `/api/${encodeURIComponent(collection)}`
  const before = await send(url, 'GET', `${path}?pageSize=1`)
  await send(url, 'POST', path, { body: '{"n":9}', headers: JSON_BODY })
  const past = `asOf=${before.headers['journal-position']}&a=5&sort=a`
  return async () => {
    for (const query of [...QUERIES, past]) {
      const { status, text } = await send(url, 'GET', `${path}?${query}`)
      assert.equal(status, 200, `${query}: ${text}`)
    }
  }
}

const SUBSCRIPTIONS = 100

/** Two writes of an item whose field `a` is huge; each ends when everybody is told. */
interface WatchedWrites {
  /** To the collection with the subscriptions. */
  readonly watched: () => Promise<void>
  /** To a collection without any. */
  readonly deaf: () => Promise<void>
  /** How often a subscription was told of a change. */
  changes(): number
}

/** Subscribes a hundred times to a collection; `json` is the huge value. */
export async function watchedWrites(t: Scope, url: string, collection: string, json: string): Promise<WatchedWrites> {
  const socket = io(url, { transports: ['websocket'], forceNew: true, reconnection: false })
  t.after(async () => socket.close())
  let changes = 0
  socket.on('change', () => changes++)
  const slow = `ab${'a'.repeat(190)}`
  const queries = (n: number) => [`a=${n + 5}`, `a_gt=[[[${n}]]]`, `a_contains=${slow}${n}`, `q=zz${n}`, `a.b=${n}`]
  for (const one of ['deaf', collection]) await sendJson(url, 'PUT', `/api/${encodeURIComponent(one)}/0`, { n: 1 })
  for (let n = 0; n < SUBSCRIPTIONS; n++) {
    const subscribing = socket.emitWithAck('subscribe', { collection, query: queries(n)[n % 5] })
    const answer = await within('the response to a subscription', subscribing)
    assert.ok('subscription' in answer, JSON.stringify(answer))
  }
  const writeTo = (one: string) => async () => {
    const updated = once(socket, 'updated')
    const path = `/api/${encodeURIComponent(one)}/0`
    assert.ok((await send(url, 'PUT', path, { body: `{"a":${json}}`, headers: JSON_BODY })).status < 300)
    await updated
  }
  return { watched: writeTo(collection), deaf: writeTo('deaf'), changes: () => changes }
}
