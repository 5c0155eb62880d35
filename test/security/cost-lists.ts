import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { io } from 'socket.io-client'
import { WebSocket } from 'ws'
import { OPERATORS } from '../../src/query/filter.ts'
import { eventOf, once } from '../support/deadline.ts'
import type { Random } from '../support/random.ts'
import { type CostServer, PLAIN_SOCKET } from './cost-coverage.ts'
import { asked, edited, headOf } from './cost-operations.ts'

/** The collection of many items; it has an event time. Each item refers to the first one. */
export const LIST = 'readings'
/** Bytes of the values of a list at full size, and those of a batch within `Limits.BatchBytes`. */
export const LIST_BYTES = 16 * 2 ** 20
const BATCH_BYTES = 8 * 2 ** 20
const MOST_ITEMS = 10_000
/** The events that a subscriber missed, or replays. */
const FOLLOWED_EVENTS = 500

interface List {
  readonly server: CostServer
  /** JSON texts of the items. */
  readonly items: readonly string[]
  readonly random: Random
}

type Operation = (list: List) => Promise<unknown>

/** A new list in place of the one before. */
export async function listOf(server: CostServer, values: readonly string[], random: Random): Promise<List> {
  const items = values.map((value, index) => {
    const time = new Date(Date.UTC(2026, 0, 1) + index * 1000).toISOString()
    const fields = `"g":"g${index}","h":${index % 10},"n":${random.next()},"t":"${time}","readingId":0,"a":${value}`
    return `{"id":${index},${fields}}`
  })
  await asked({ server }, 'DELETE', `/api/${LIST}?all=true`)
  for (const batch of batchesOf(items)) await post({ server }, `[${batch.join(',')}]`, 'application/json')
  return { server, items, random }
}

function* batchesOf(items: readonly string[]): Generator<readonly string[]> {
  let batch: string[] = []
  let bytes = 0
  for (const item of items) {
    if (bytes + item.length > BATCH_BYTES) {
      yield batch
      batch = []
      bytes = 0
    }
    batch.push(item)
    bytes += Buffer.byteLength(item)
  }
  yield batch
}

type ListShape = (bytes: number, random: Random) => readonly string[]

/** JSON of the field `a` of each item. */
export const LIST_SHAPES: Readonly<Record<string, ListShape>> = {
  numbers: (bytes, random) => values(bytes / 500, () => String(random.next())),
  'texts of one beginning': filling((index) => JSON.stringify(`${'x'.repeat(1500)}${index}`)),
  'longer texts of one beginning': filling((index) => JSON.stringify(`${'x'.repeat(66_000)}${index}`)),
  'texts of a megabyte': filling((index) => JSON.stringify(`${index}${'x'.repeat(2 ** 20 - 300)}`)),
  'other letters': filling((index) => JSON.stringify(`${'\u0130ß'.repeat(400)}${index}`)),
  'lone surrogates': filling((index) => `"${'\\ud800'.repeat(200)}${index}"`),
  'lists of numbers': filling((_, random) => JSON.stringify(Array.from({ length: 9000 }, () => random.integer(1000)))),
  'lists of texts': filling((index) => JSON.stringify(Array.from({ length: 9000 }, (_, at) => `x${at}${index}`))),
  'wide objects': filling(() => JSON.stringify(Object.fromEntries(values(900, (at) => `m${at}`).map((m) => [m, 0])))),
  'a thousand names': (bytes) => values(bytes / 1000, (index) => `{"m${index % 900}":0,"a":"${'x'.repeat(50)}"}`),
  'objects of other names': filling((index) => `{"m${index}":{"d":[{"a":"${'x'.repeat(200)}"}]}}`),
  'nested lists': filling(() => `${'['.repeat(97)}${'0,'.repeat(5000)}0${']'.repeat(97)}`),
}

function values(count: number, value: (index: number) => string): readonly string[] {
  return Array.from({ length: Math.max(1, Math.min(MOST_ITEMS, Math.floor(count))) }, (_, index) => value(index))
}

/** As many values as there is room for. */
function filling(value: (index: number, random: Random) => string): ListShape {
  return (bytes, random) => values(bytes / Buffer.byteLength(value(0, random)), (index) => value(index, random))
}

const PAGE = 'skip=0&take=10000'

const SEARCHES: Readonly<Record<string, string>> = {
  'a page': PAGE,
  'a page by its number': 'page=1&pageSize=10000',
  'a page of another name': 'page=1&per_page=10000',
  'a page by an offset': 'offset=1&limit=9999',
  'a page of json-server 1.0': '_page=1&_per_page=10000',
  'a page by a start': '_start=0&_limit=10000',
  'a page up to an end': '_start=0&_end=10000',
  'a page in the order of json-server': '_sort=a,n&_order=desc,asc',
  'sorted by the field': `sort=a&${PAGE}`,
  'sorted downwards by many': `sort=-a,h,-n,t,-g,a.m0&${PAGE}`,
  'the last page': 'sort=a&skip=9999&take=1',
  'sorted by the receipt': `sort=-$received&${PAGE}`,
  'some fields': `fields=g,a,$received&${PAGE}`,
  'any mention': `q=zz&q=9x&${PAGE}`,
  ...Object.fromEntries(
    OPERATORS.map((operator) => [`the filter ${operator}`, `a_${operator}=${operator === 'exists' ? 'true' : 'x9'}`]),
  ),
  'a row of everything': `aggregate=${columns('a')}`,
  'a row of each item': `groupBy=g&aggregate=${columns('n')}`,
  'a row of each text': 'groupBy=a,g&aggregate=count',
  'rows of the highest texts': 'groupBy=g&aggregate=max(a)&sort=-max(a),max(a),g',
  'rows of the highest texts of a few groups': `groupBy=h&aggregate=${columns('a')}&sort=-max(a)`,
  'rows of times': 'groupBy=t&aggregate=min(t),max(t),first(t),last(t)&sort=-max(t)',
  'windows of a second': `aggregate=${columns('n')}&window=1s&tz=Europe/Helsinki`,
  'windows that are filled':
    'aggregate=count,last(a)&groupBy=h&window=30s&fill=previous&t_gte=2026-01-01&t_lt=2026-01-01T03:00:00Z',
  distinct: 'distinct=a',
  'distinct, sorted': 'distinct=a&sort=-a',
  'the newest of each': 'newestBy=a',
  'the newest of each group': 'newestBy=g',
  'items in the first': `_embed=${LIST}&skip=0&take=1`,
  'items in a page': `_embed=${LIST}&skip=0&take=100`,
  'the first in all': `_expand=reading&${PAGE}`,
}

function columns(field: string): string {
  const functions = ['count', 'avg', 'sum', 'min', 'max', 'first', 'last', 'stddev', 'delta', 'p50', 'p99.9']
  return ['count', ...functions.map((name) => `${name}(${field})`)].join(',')
}

/** In each of the forms of a list. */
const FORMED: Readonly<Record<string, string>> = {
  'a page': PAGE,
  everything: 'all=true',
  'everything, sorted': 'all=true&sort=-a,n',
  'some fields of everything': 'all=true&fields=a,g',
  rows: 'groupBy=g&aggregate=count,max(a)',
  'distinct values': 'distinct=a',
}

const FORMS = ['application/json', 'application/x-ndjson', 'text/csv']
const AT_ONCE = 16

export const LIST_OPERATIONS: Readonly<Record<string, Operation>> = {
  ...Object.fromEntries(
    Object.entries(SEARCHES).flatMap(([name, search]): [string, Operation][] => [
      [name, (list) => read(list, search)],
      [`${name}, ${AT_ONCE} at once`, (list) => Promise.all(Array.from({ length: AT_ONCE }, () => read(list, search)))],
      [`${name}, asOf`, (list) => changed(list, (head) => read(list, `${search}&asOf=${head}`))],
    ]),
  ),
  ...Object.fromEntries(
    Object.entries(FORMED).flatMap(([name, search]) =>
      FORMS.map((form): [string, Operation] => [
        `${name} as ${form}`,
        (list) => read(list, search, { Accept: form, 'Wait-For-Position': '0' }),
      ]),
    ),
  ),
  'the first item with all others': (list) => asked(list, 'GET', `/api/${LIST}/0?_embed=${LIST}`),
  'an item with the first': (list) => asked(list, 'GET', `/api/${LIST}/1?_expand=reading`),

  'counts, asOf': (list) => changed(list, (head) => asked(list, 'GET', `/api?count=true&asOf=${head}`)),

  'a page of events': events('application/json', ''),
  'a page of events, newest first': events('application/json', '&order=desc&from=1000000000'),
  'events of an item': events('application/json', '&id=1'),
  'events of a type': events('application/json', '&type=ItemCreated&since=2026-01-01&until=2999-01-01&actor=x'),
  'events of a request': events('application/json', '&requestId=x'),
  'counts of events': (list) =>
    asked(list, 'GET', '/events?aggregate=count&groupBy=type,collection,actor&window=1m&tz=Europe/Helsinki'),
  'events of a journal': async (list) => {
    const [{ journal }] = (await asked(list, 'GET', '/events?limit=1')).json<[{ journal: string }]>()
    await asked(list, 'GET', `/events?journal=${journal}&limit=10000`)
  },
  'events with changes': events('application/json', '&changes=true'),
  'lines of events': events('application/x-ndjson', '&follow=false'),
  'a stream of events': events('text/event-stream', '&follow=false', { 'Last-Event-ID': '0' }),
  'an event': async (list) => asked(list, 'GET', `/events/${await headOf(list)}`),
  'an event with its changes': async (list) => asked(list, 'GET', `/events/${await headOf(list)}?changes=true`),
  'an event as a line': async (list) =>
    asked(list, 'GET', `/events/${await headOf(list)}`, { headers: { Accept: 'application/x-ndjson' } }),

  'a batch': batch('application/json', (items) => `[${items.join(',')}]`),
  'a batch of lines': batch('application/x-ndjson', (items) => items.join('\n')),
  'a batch of rows': async (list) => {
    const { text } = await read(list, 'all=true&fields=g,n,a', { Accept: 'text/csv' })
    await restored(list, () => post(list, text.slice(0, BATCH_BYTES), 'text/csv'))
  },
  'a batch with gzip': batch('application/json', (items) => gzipSync(`[${items.join(',')}]`), {
    'Content-Encoding': 'gzip',
  }),
  'a batch with deflate': batch('application/json', (items) => deflateSync(`[${items.join(',')}]`), {
    'Content-Encoding': 'deflate',
  }),
  'a batch with Brotli': batch('application/x-ndjson', (items) => brotliCompressSync(items.join('\n')), {
    'Content-Encoding': 'br',
  }),
  'a batch of which nothing is right': batch('application/json', (items) => `[${items.map(() => '[]').join(',')}]`, {
    Prefer: 'handling=lenient',
  }),
  'a batch that is sent again': (list) => {
    const headers = { 'Idempotency-Key': String(list.random.next()) }
    const text = `[${firstBatch(list).join(',')}]`
    return restored(list, async () => {
      await post(list, text, 'application/json', headers)
      await post(list, text, 'application/json', headers)
    })
  },
  'a deletion, tried': (list) => asked(list, 'DELETE', `/api/${LIST}?n_gte=0&dryRun=true`),
  'a deletion': (list) => restored(list, () => asked(list, 'DELETE', `/api/${LIST}?n_gte=0`)),
  'a deletion by a mention': (list) => restored(list, () => asked(list, 'DELETE', `/api/${LIST}?q=g1`)),
  'a deletion of everything': (list) => restored(list, () => asked(list, 'DELETE', `/api/${LIST}?all=true`)),
  'a deletion with dependents': (list) =>
    restored(list, () => asked(list, 'DELETE', `/api/${LIST}/0?_dependent=${LIST}`)),
  'another data file, tried': (list) => replaced(list, '?dryRun=true'),
  'another data file': (list) => restored(list, () => replaced(list, '')),
  'another collection': (list) => asked(list, 'PUT', `/api/d${list.random.integer(2 ** 31)}`),

  'the collections': (list) => asked(list, 'GET', '/api'),
  'the collections, asOf': (list) => changed(list, (head) => asked(list, 'GET', `/api?asOf=${head}`)),
  'a restore of everything, tried': (list) => changed(list, (to) => restore(list, { to, dryRun: true })),
  'a restore of everything': (list) => changed(list, (to) => restore(list, { to })),
  'a restore from nothing, tried': (list) => restore(list, { to: 0, collection: LIST, dryRun: true }),
  'a reset, tried': (list) => asked(list, 'POST', '/admin/reset', json({ dryRun: true })),
  'a reset': (list) => restored(list, () => asked(list, 'POST', '/admin/reset')),
  'a snapshot': (list) => asked(list, 'POST', '/admin/snapshot'),
  'a reload of an edited list': (list) =>
    restored(list, () => edited(list, (text) => text.replaceAll(/"h": ?5/g, '"h": 77'))),
  'a count of what expires': (list) => asked(list, 'POST', '/admin/retention?dryRun=true'),
  'a confirmation of what expires': (list) => asked(list, 'POST', '/admin/retention'),
  'a verification': (list) => asked(list, 'POST', '/admin/verify'),
  'a reload of the settings': (list) => asked(list, 'POST', '/admin/settings/reload'),
  health: (list) => asked(list, 'GET', '/health'),
  metrics: (list) => asked(list, 'GET', '/metrics'),

  'a subscription': (list) => subscribed(list, [{ collection: LIST }], () => changed(list, async () => {})),
  'subscriptions of many filters': (list) => {
    const wanted = Array.from({ length: 50 }, (_, index) => ({ collection: LIST, query: `h=${index}&q=zz&a_gt=x` }))
    return subscribed(list, wanted, () => changed(list, async () => {}))
  },
  'a subscription that resumes': async (list) => {
    const after = Math.max(0, (await headOf(list)) - FOLLOWED_EVENTS)
    const { journal } = (await asked(list, 'GET', '/health')).json<{ journal: { id: string } }>()
    await subscribed(list, [{ collection: LIST, after, journal: journal.id }], () => changed(list, async () => {}))
  },
  'a replay': async (list) => {
    const from = Math.max(0, (await headOf(list)) - FOLLOWED_EVENTS)
    await subscribed(list, [{ collection: LIST, from, speed: 1000 }], () => changed(list, async () => {}))
  },
  'subscriptions during a deletion': (list) =>
    subscribed(list, [{ collection: LIST }], () => restored(list, () => asked(list, 'DELETE', `/api/${LIST}?n_gte=0`))),
  'a plain WebSocket during a deletion': (list) =>
    listening(list, () => restored(list, () => asked(list, 'DELETE', `/api/${LIST}?n_gte=0`))),
}

/** The response cache has no query twice. */
function read(list: List, search: string, headers = {}) {
  return asked(list, 'GET', `/api/${LIST}?${search}&n_ne=${list.random.next()}`, { headers })
}

function events(accept: string, search: string, headers = {}): Operation {
  return (list) =>
    asked(list, 'GET', `/events?collection=${LIST}&limit=10000${search}`, { headers: { Accept: accept, ...headers } })
}

/** Calls `work` with the position before a small change. */
async function changed(list: List, work: (head: number) => Promise<unknown>): Promise<void> {
  const head = await headOf(list)
  await asked(list, 'PATCH', `/api/${LIST}/1`, json({ h: list.random.next() }))
  await work(head)
}

/** Brings everything back after work that changes much. */
async function restored(list: List, work: () => Promise<unknown>): Promise<void> {
  const to = await headOf(list)
  await work()
  await restore(list, { to })
}

function restore(list: List, body: object) {
  return asked(list, 'POST', '/admin/restore', json(body))
}

function json(value: unknown) {
  return { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(value) }
}

function post({ server }: Pick<List, 'server'>, body: string | Uint8Array, type: string, headers = {}) {
  return asked({ server }, 'POST', `/api/${LIST}`, { headers: { 'Content-Type': type, ...headers }, body })
}

/** As many items as a batch may have, without their ids. */
function firstBatch({ items }: List): readonly string[] {
  const [first = []] = batchesOf(items.map((item) => item.replace(/"id":\d+,/, '')))
  return first
}

function batch(type: string, bodyOf: (items: readonly string[]) => string | Uint8Array, headers = {}): Operation {
  return (list) => restored(list, () => post(list, bodyOf(firstBatch(list)), type, headers))
}

function replaced(list: List, search: string) {
  const [items = []] = batchesOf(list.items)
  const body = `{"${LIST}":[${items.join(',')}],"profile":{}}`
  return asked(list, 'POST', `/api${search}`, { headers: { 'Content-Type': 'application/json' }, body })
}

async function subscribed({ server }: List, wanted: readonly object[], work: () => Promise<unknown>): Promise<void> {
  const socket = io(server.url, { transports: ['websocket'], reconnection: false, forceNew: true })
  const exchanged = async (): Promise<void> => {
    let last = 'none'
    for (const one of wanted) {
      const { subscription } = await socket.timeout(60_000).emitWithAck('subscribe', one)
      if (subscription !== undefined) server.coverage.noteMessage('subscribe', one)
      last = subscription ?? last
    }
    await work()
    // The notifications have been sent by then.
    await socket.timeout(60_000).emitWithAck('unsubscribe', { subscription: last })
    server.coverage.noteMessage('unsubscribe')
  }
  try {
    await Promise.race([exchanged(), eventOf(socket, 'disconnect')])
  } finally {
    socket.close()
  }
}

async function listening({ server }: List, work: () => Promise<unknown>): Promise<void> {
  const socket = new WebSocket(`${server.url.replace('http', 'ws')}/ws`)
  await once(socket, 'open')
  server.coverage.noteMessage(PLAIN_SOCKET)
  await work()
  socket.close()
}
