import assert from 'node:assert/strict'
import { get, type IncomingMessage, type OutgoingHttpHeaders } from 'node:http'
import { after, test } from 'node:test'
import Papa from 'papaparse'
import { isObject, type JsonObject, type JsonValue } from '../../src/json/value.ts'
import { once, until, within } from '../support/deadline.ts'
import { Random, SEED } from '../support/random.ts'
import { openRaw } from '../support/raw.ts'
import { KOA_LINE, type Reply, send } from '../support/requests.ts'
import { startHere } from '../support/service.ts'

const readings = Array.from({ length: 3000 }, (_, n) => ({
  id: n,
  mac: `m${n % 3}`,
  data: { temperature: n / 4, ...(n === 2999 && { late: true }) },
}))
const odd = [
  { id: 1, text: 'a,"b"\r\nc', list: [1, { x: 'y' }], none: null, empty: {}, 'dot.ted': 1 },
  { id: 2, text: ' ä😀 ', deep: { er: { value: false } }, list: 'x', ' a': '\u2028' },
  { id: 3, deep: 7 },
]
const { url, failures } = await startHere({ after }, { data: { readings, odd, none: [] } })

const CSV_TYPE = 'text/csv'
const NDJSON_TYPE = 'application/x-ndjson'
const CSV = { Accept: CSV_TYPE }
const NDJSON = { Accept: NDJSON_TYPE }

function ask(path: string, headers: OutgoingHttpHeaders = {}, method = 'GET'): Promise<Reply> {
  return send(url, method, `/api/${path}`, { headers })
}

const lines = (text: string) =>
  text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line))

test('a page can be CSV with a header row, or NDJSON, with the same links', async () => {
  const csv = await ask('readings?pageSize=2&sort=-id', CSV)
  assert.equal(csv.status, 200)
  assert.equal(csv.headers['content-type'], 'text/csv; charset=utf-8')
  assert.equal(csv.headers.vary, 'Origin, Accept')
  assert.equal(csv.headers['x-total-count'], '3000')
  assert.match(String(csv.headers.link), /page=2>; rel="next"/)
  assert.equal(csv.text, 'id,mac,data.temperature,data.late\r\n2999,m2,749.75,true\r\n2998,m1,749.5,\r\n')
  const ndjson = await ask('readings?skip=1&take=2', NDJSON)
  assert.equal(ndjson.headers['content-type'], 'application/x-ndjson')
  assert.deepEqual(lines(ndjson.text), readings.slice(1, 3))
  assert.equal(ndjson.text.at(-1), '\n')
})

test('cells are quoted as in RFC 4180, arrays are JSON, and missing values are empty', async () => {
  const { text } = await ask('odd', CSV)
  const rows = Papa.parse<string[]>(text, { newline: '\r\n' }).data
  assert.deepEqual(rows, [
    ['id', 'text', 'list', 'none', 'empty', 'dot\\.ted', 'deep', 'deep.er.value', ' a'],
    ['1', 'a,"b"\r\nc', '[1,{"x":"y"}]', '', '{}', '1', '', '', ''],
    ['2', ' ä😀 ', 'x', '', '', '', '', 'false', '\u2028'],
    ['3', '', '', '', '', '', '7', '', ''],
    [''],
  ])
  const chosen = await ask('odd?fields=deep.er,text,nothing&id_ne=1', CSV)
  assert.equal(chosen.text, 'deep.er.value,text,nothing\r\nfalse," ä😀 ",\r\n,,\r\n')
  assert.equal((await ask('none', CSV)).text, '')
  assert.equal((await ask('none?fields=a', CSV)).text, 'a\r\n')
  assert.equal((await ask('none', NDJSON)).text, '')
})

test('the format follows Accept; the default is JSON, and an unsupported one gets 406', async () => {
  const cases: readonly (readonly [accept: string | string[] | undefined, type: string])[] = [
    [undefined, 'application/json'],
    ['*/*', 'application/json'],
    ['text/html, */*;q=0.1', 'application/json'],
    ['application/json;q=0.5, text/csv', 'text/csv; charset=utf-8'],
    ['TEXT/CSV', 'text/csv; charset=utf-8'],
    ['text/*', 'text/csv; charset=utf-8'],
    ['application/json; charset=utf-8', 'application/json'],
    ['Application/JSON;odata=verbose', 'application/json'],
    ['text/csv; header=present', 'text/csv; charset=utf-8'],
    ['text/html;level=1, */*;v=b3;q=0.1', 'application/json'],
    ['application/json; charset=utf-8; q=0.2, text/csv; header=present; q=0.5', 'text/csv; charset=utf-8'],
    ['application/json;x="a,b;\\"q=0.1";q=0.9, text/csv;Q=0.5', 'application/json'],
    ['application/json;x="text/csv', 'application/json'],
    [['application/xml; a=b', 'application/x-ndjson; charset=utf-8'], 'application/x-ndjson'],
  ]
  for (const [accept, type] of cases) {
    const { status, headers } = await ask('odd', accept === undefined ? {} : { Accept: accept })
    assert.deepEqual([status, headers['content-type']], [200, type], String(accept))
    assert.match(String(headers.vary), /Accept/)
  }
  const unsupported = [
    'application/xml',
    'text/csv;q=0',
    'text/csv;header=present;q=0',
    'image/*',
    'application/*+json',
  ]
  for (const accept of unsupported) {
    for (const method of ['GET', 'HEAD']) assert.equal((await ask('odd', { Accept: accept }, method)).status, 406)
  }
})

test('aggregates and the past come as JSON, too, if Accept has parameters', async () => {
  const headers = { Accept: 'application/json; charset=utf-8' }
  for (const query of ['aggregate=count', 'asOf=1', 'all=true']) {
    const { status, headers: sent } = await ask(`readings?${query}`, headers)
    assert.deepEqual([status, sent['content-type']], [200, 'application/json'], query)
  }
})

test('all=true sends the whole result, in each format, for every query', async () => {
  const expected = readings.filter(({ mac }) => mac === 'm1')
  for (const [query, items] of [
    ['', readings],
    ['mac=m1', expected],
    ['mac=m1', expected],
    ['mac=m1', expected],
    ['mac=m1&data.temperature_gte=10', expected.filter(({ data }) => data.temperature >= 10)],
    ['sort=-data.temperature', [...readings].reverse()],
    ['sort=-data.temperature', [...readings].reverse()],
    ['sort=-data.temperature', [...readings].reverse()],
    ['sort=mac,-id&mac_ne=m0', [...expected].reverse().concat(readings.filter(({ mac }) => mac === 'm2').reverse())],
    ['mac=nobody', []],
  ] as const) {
    const json = await ask(`readings?all=true&${query}`)
    assert.equal(json.headers['content-type'], 'application/json')
    assert.deepEqual(json.json(), items, query)
    assert.deepEqual(lines((await ask(`readings?all=true&${query}`, NDJSON)).text), items, query)
    const csv = await ask(`readings?${query}&all=true`, CSV)
    const rows = Papa.parse<{ id: string }>(csv.text, { header: true, skipEmptyLines: true }).data
    assert.deepEqual(
      rows.map(({ id }) => Number(id)),
      items.map(({ id }) => id),
      query,
    )
  }
  const some = await ask('readings?all=true&fields=mac&id_gt=2997', NDJSON)
  assert.deepEqual(lines(some.text), [{ mac: 'm1' }, { mac: 'm2' }])
  assert.deepEqual((await ask('none?all=true')).json(), [])
  assert.equal((await ask('readings?all=false&pageSize=2')).json<unknown[]>().length, 2)
})

test('the columns of a whole result are those of all its items', async () => {
  const { text } = await ask('readings?all=true', CSV)
  assert.equal(text.slice(0, text.indexOf('\r\n')), 'id,mac,data.temperature,data.late')
  const wide = Array.from({ length: 1100 }, (_, n) => ({ [`f${n}`]: n }))
  await send(url, 'POST', '/api/wide', { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(wide) })
  const refused = await ask('wide?all=true', CSV)
  assert.equal(refused.status, 400)
  assert.match(refused.text, /more than 1000 different fields/)
  assert.equal((await ask('wide?all=true&fields=f0,f1', CSV)).text.split('\r\n').length, 1102)
})

test('all=true excludes paging, and all must be true or false', async () => {
  for (const query of ['all=true&page=1', 'all=true&take=1', 'all=yes', 'all=true&all=true', 'all']) {
    assert.equal((await ask(`readings?${query}`)).status, 400, query)
  }
  assert.equal((await ask('nothing?all=true', CSV)).status, 404)
})

test('aggregates are exported in each format, on one page', async () => {
  const flags = ['--Collections', JSON.stringify({ readings: { Indexes: [], Time: 'data.time' } })]
  const data = {
    readings: readings.slice(0, 9).map(({ data, ...rest }) => ({ ...rest, data: { ...data, time: rest.id } })),
  }
  const own = await startHere({ after }, { data, flags })
  const csv = async (query: string) => (await send(own.url, 'GET', `/api/readings?${query}`, { headers: CSV })).text
  const rows = 'aggregate=count,max(data.temperature)&groupBy=mac'
  assert.equal(await csv(rows), 'mac,count,max(data.temperature)\r\nm0,3,1.5\r\nm1,3,1.75\r\nm2,3,2\r\n')
  assert.equal(await csv('distinct=data.temperature&id_lt=2'), 'data.temperature\r\n0\r\n0.25\r\n')
  assert.equal(
    await csv('newestBy=mac&fields=id,data.temperature'),
    'id,data.temperature\r\n6,1.5\r\n7,1.75\r\n8,2\r\n',
  )
  const page = await send(own.url, 'GET', `/api/readings?${rows}&page=2&pageSize=2`, { headers: NDJSON })
  assert.deepEqual(lines(page.text), [{ mac: 'm2', count: 3, 'max(data.temperature)': 2 }])
  assert.deepEqual([page.headers['x-total-count'], /rel="prev"/.test(String(page.headers.link))], ['3', true])
  const distinct = await send(own.url, 'GET', '/api/readings?distinct=mac', { headers: NDJSON })
  assert.deepEqual(lines(distinct.text), ['m0', 'm1', 'm2'])
  const whole = await send(own.url, 'GET', `/api/readings?all=true&${rows}`)
  assert.equal(whole.status, 400)
  assert.match(whole.text, /The parameter all cannot be combined with groups/)
  assert.equal(
    (await send(own.url, 'GET', '/api/readings?data.time_lt=now-1h', { headers: CSV })).headers.etag,
    undefined,
  )
})

test('the CSV of aggregates can be posted again, and gives items like the rows', async () => {
  const flags = ['--Collections', JSON.stringify({ readings: { Indexes: [], Time: 'data.time' } })]
  const data = {
    readings: readings.slice(0, 9).map(({ data: { temperature }, ...rest }) => ({
      ...rest,
      data: { temperature, 'a.b': rest.id, time: rest.id * 1800, room: `r${rest.id % 2}` },
    })),
  }
  const own = await startHere({ after }, { data, flags })
  const posted = async (name: string, query: string) => {
    const csv = await send(own.url, 'GET', `/api/readings?${query}`, { headers: CSV })
    const headers = { 'Content-Type': 'text/csv' }
    const { status, text } = await send(own.url, 'POST', `/api/${name}`, { headers, body: csv.text })
    assert.equal(status, 201, text)
    const items = (await send(own.url, 'GET', `/api/${name}`)).json<{ readonly id: number }[]>()
    const rows = (await send(own.url, 'GET', `/api/readings?${query}`)).json<object[]>()
    assert.deepEqual(
      items.map(({ id, ...item }) => item),
      rows,
      csv.text,
    )
    return csv.text.slice(0, csv.text.indexOf('\r\n'))
  }
  const columns = 'count,avg(data.temperature),p99.9(data.temperature),count(data.room),last(mac)'
  assert.equal(await posted('hourly', `aggregate=${columns}&groupBy=mac&window=1h`), `mac,window,${columns}`)
  assert.equal(
    await posted('rooms', 'aggregate=max(data.temperature)+as+t.max,count+as+n&groupBy=data.room'),
    'data\\.room,t\\.max,n',
  )
  assert.equal(await posted('escaped', 'aggregate=max(data.a\\.b)'), 'max(data\\.a\\\\\\.b)')
  // A stored member of such a name is written as any other.
  const again = await send(own.url, 'GET', '/api/hourly?fields=avg(data\\.temperature)&pageSize=1', { headers: CSV })
  assert.equal(again.text, 'avg(data\\.temperature)\r\n0\r\n')
  const nested = { headers: { 'Content-Type': 'text/csv' }, body: 'size(in.cm),a.p50\r\n1,2\r\n' }
  await send(own.url, 'POST', '/api/nested', nested)
  assert.deepEqual((await send(own.url, 'GET', '/api/nested')).json(), [
    { id: 0, 'size(in': { 'cm)': 1 }, a: { p50: 2 } },
  ])
})

test('each format has its own ETag, which gets 304', async () => {
  const tags = new Set<string>()
  for (const headers of [{}, CSV, NDJSON]) {
    const { headers: got } = await ask('readings?all=true', headers)
    const tag = String(got.etag)
    tags.add(tag)
    assert.equal((await ask('readings?all=true', { ...headers, 'If-None-Match': tag })).status, 304)
    const head = await ask('readings?all=true', headers, 'HEAD')
    assert.deepEqual(
      [head.status, head.headers.etag, head.headers['content-type'], head.text],
      [200, tag, got['content-type'], ''],
    )
  }
  assert.equal(tags.size, 3)
})

/** Asks, and reads nothing yet. */
function open(path: string, headers: Record<string, string>): Promise<IncomingMessage> {
  return within(
    `the response to GET /api/${path}`,
    new Promise((resolve, reject) => {
      get(`${url}/api/${path}`, { headers, agent: false }, resolve).on('error', reject)
    }),
  )
}

async function textOf(response: IncomingMessage): Promise<string> {
  return Buffer.concat(await within('the end of a response', response.toArray())).toString()
}

test('a whole result shows one position, however slowly it is read, and supports asOf', async () => {
  const text = 'x'.repeat(10_000)
  const items = Array.from({ length: 900 }, (_, n) => ({ n, text }))
  const json = { 'Content-Type': 'application/json' }
  await send(url, 'POST', '/api/large', { headers: json, body: JSON.stringify(items) })
  const response = await open('large?all=true', NDJSON)
  const at = response.headers['journal-position']
  const changed = await send(url, 'PATCH', '/api/large/899', { headers: json, body: '{"n":"changed"}' })
  assert.equal(changed.status, 204)
  await send(url, 'DELETE', '/api/large?n_gte=500')
  const before = lines(await textOf(response))
  assert.deepEqual(
    before.map(({ n }) => n),
    items.map(({ n }) => n),
  )
  const again = await ask(`large?all=true&asOf=${at}&fields=n,id`, CSV)
  assert.equal(again.headers['journal-position'], at)
  assert.equal(again.text.split('\r\n')[900], '899,899')
  assert.equal(lines((await ask('large?all=true', NDJSON)).text).length, 500)
})

test('sixteen whole results are sent at a time; one that is aborted makes room', async () => {
  const text = 'x'.repeat(1000)
  const items = JSON.stringify(Array.from({ length: 9000 }, () => ({ text })))
  await send(url, 'POST', '/api/long', { headers: { 'Content-Type': 'application/json' }, body: items })
  const responses = await Promise.all(Array.from({ length: 16 }, () => open('long?all=true', NDJSON)))
  const refused = await ask('long?all=true', NDJSON)
  assert.deepEqual([refused.status, refused.headers['retry-after']], [429, '5'])
  assert.equal((await ask('long?pageSize=1', NDJSON)).status, 200)
  for (const response of responses) response.destroy()
  await until('there is room', async () => (await ask('long?all=true', NDJSON)).status === 200)
})

test('a client that closes its side ends a whole result, which is no error in the log', async (t) => {
  const many = Array.from({ length: 20_000 }, (_, id) => ({ id, text: 'x'.repeat(100) }))
  const server = await startHere(t, { data: { many } })
  for (const origin of ['', `${KOA_LINE}\r\n`]) {
    const { socket } = await openRaw(t, server.url)
    socket.once('data', () => socket.end())
    const closed = once(socket, 'close')
    socket.write(`GET /api/many?all=true HTTP/1.1\r\nHost: localhost\r\n${origin}\r\n`)
    await closed
  }
  assert.deepEqual(
    server.log.filter((line) => line.includes('"level":50')),
    [],
  )
})

const JSON_TYPE = 'application/json'

/** Texts that CSV keeps. */
const TEXTS = [
  '007',
  '+1',
  '-',
  '.5',
  '1e999',
  '9007199254740993',
  'True',
  'null',
  '{}',
  '{ }',
  '{"a":1}',
  '[]',
  '[1]',
  '[1',
  '[1,{"a":"]"}]',
  '["\ud800"]',
  '"',
  '"text"',
  '"{}"',
  '"[1]"',
  '"\\"{}\\""',
  '"\\ud800"',
  '=1+1',
  '@SUM(A1)',
  ' leading',
  'trailing ',
  ' ',
  '\t',
  '\r\n',
  'two\r\nlines',
  'CR\r',
  '\n',
  '\ufeffBOM',
  '\ud800',
  'a\udc00b',
  '\ud83d',
  '😀',
  '\u0000',
  'a,b;c',
  '\u2028',
  '__proto__',
]
/** Texts that CSV reads as something else. NDJSON and JSON keep them. */
const CHANGED = ['', 'true', 'false', '0', '-1', '1e5', '1.50']
const NAMES = ['a', 'b', 'a.b', 'a\\', ' a', '1', 'a,b', '"', '\n', '\ufeff', '\ud800', '{}', '[1]', '=x', 'length']

function anyItem(random: Random, texts: readonly string[], isCsv: boolean): JsonObject {
  const scalar = (): JsonValue => {
    const choices = [
      () => random.pick(texts),
      () => random.chance(0.5),
      () => random.integer(1000) / 8 - 60,
      () => 1e-7,
    ]
    return random.pick(isCsv ? choices : [...choices, () => null])()
  }
  /** Anything within a list, which is JSON in CSV. */
  const any = (depth: number): JsonValue => {
    const kind = random.integer(depth > 0 ? 4 : 2)
    if (kind < 2) return random.chance(0.2) ? null : random.pick([...texts, ...CHANGED])
    return kind === 2 ? Array.from({ length: random.integer(3) }, () => any(depth - 1)) : object(depth - 1, any)
  }
  const object = (depth: number, value: (depth: number) => JsonValue): JsonObject =>
    Object.fromEntries(Array.from({ length: random.integer(4) }, () => [random.pick(NAMES), value(depth)]))
  const value = (depth: number): JsonValue => {
    const kind = random.integer(depth > 0 ? 5 : 3)
    if (kind < 2) return scalar()
    return kind === 2 ? Array.from({ length: random.integer(3) }, () => any(2)) : object(depth - 1, value)
  }
  return { ...object(2, value), last: scalar() }
}

/** Members in any order: CSV has them in the order of the columns. */
function sorted(value: JsonValue): JsonValue {
  if (!isObject(value)) return value
  const members = Object.entries(value).map(([name, member]) => [name, sorted(member)] as const)
  return Object.fromEntries(members.sort(([a], [b]) => (a < b ? -1 : 1)))
}

async function itemsOf(name: string): Promise<readonly JsonObject[]> {
  const { status, text } = await send(url, 'GET', `/api/${name}?all=true&sort=id`)
  assert.equal(status, 200, text)
  return JSON.parse(text)
}

async function post(name: string, type: string, body: string): Promise<void> {
  const { status, text } = await send(url, 'POST', `/api/${name}`, { headers: { 'Content-Type': type }, body })
  assert.equal(status, 201, text)
}

for (const [type, texts] of [
  [CSV_TYPE, TEXTS],
  [NDJSON_TYPE, [...TEXTS, ...CHANGED]],
  [JSON_TYPE, [...TEXTS, ...CHANGED]],
] as const) {
  test(`items exported as ${type} and posted again are the same`, async () => {
    const random = new Random(SEED)
    for (let round = 0; round < 30; round++) {
      const [from, to] = [`from-${type.replace('/', '-')}-${round}`, `to-${type.replace('/', '-')}-${round}`]
      const items = Array.from({ length: 20 }, () => anyItem(random, texts, type === CSV_TYPE))
      await post(from, JSON_TYPE, JSON.stringify(items))
      const path = `/api/${from}?all=true&sort=id`
      const exported = await send(url, 'GET', path, { headers: { Accept: type } })
      await post(to, type, exported.text)
      const [before, then] = [await itemsOf(from), await itemsOf(to)]
      assert.equal(then.length, items.length)
      for (const [index, item] of before.entries()) {
        assert.deepEqual(sorted(then[index] as JsonObject), sorted(item), `SEED=${SEED}, round ${round}, item ${index}`)
      }
    }
  })
}

test('an empty object and a lone surrogate survive as CSV, beside text that looks like them', async () => {
  const items = [
    { a: {}, b: '\ud800', c: [] },
    { a: '{}', b: '"\\ud800"', c: '[]' },
    { a: { inner: {} }, b: '[1]', c: [[], {}, '{}'] },
  ]
  await post('unusual', JSON_TYPE, JSON.stringify(items))
  const { text } = await send(url, 'GET', '/api/unusual?fields=a,b,c', { headers: CSV })
  assert.equal(
    text,
    [
      'a,a.inner,b,c',
      '{},,"""\\ud800""",[]',
      '"""{}""",,"""\\""\\\\ud800\\""""","""[]"""',
      ',{},"""[1]""","[[],{},""{}""]"',
      '',
    ].join('\r\n'),
  )
  await post('again', CSV_TYPE, text)
  assert.deepEqual(
    await itemsOf('again'),
    items.map((item, id) => ({ id, ...item })),
  )
})

test('CSV reads empty text and null as missing, and text that looks like a number or true as that', async () => {
  await post('lossy', JSON_TYPE, JSON.stringify([{ a: '', b: null, c: '1e5', d: 'true', e: '007' }]))
  const { text } = await send(url, 'GET', '/api/lossy?fields=a,b,c,d,e', { headers: CSV })
  await post('lossy-again', CSV_TYPE, text)
  assert.deepEqual(await itemsOf('lossy-again'), [{ id: 0, c: 100000, d: true, e: '007' }])
})

test('a list with members named as methods of objects is exported as CSV', async (t) => {
  const a = [
    { id: 1, x: [{ toString: 'ok', valueOf: 1 }] },
    { id: 2, x: { toString: {} } },
  ]
  const { url } = await startHere(t, { data: { a } })
  const csv = await send(url, 'GET', '/api/a', { headers: { Accept: 'text/csv' } })
  assert.equal(csv.status, 200)
  assert.match(csv.text, /""toString"":""ok""/)
})

test('the server logged no unexpected error', () => {
  assert.deepEqual(failures, [])
})
