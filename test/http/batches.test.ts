import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { temporaryDirectory } from '../support/directory.ts'
import { longListOf } from '../support/long-json.ts'
import { type Reply, send } from '../support/requests.ts'
import { startProgram } from '../support/server.ts'
import { startHere } from '../support/service.ts'

const directory = await temporaryDirectory({ after })
const schema = join(directory, 'checked.json')
await writeFile(schema, JSON.stringify({ type: 'object', properties: { n: { type: 'number' } }, required: ['n'] }))
const { url, stderr } = await startProgram(
  { after },
  {
    directory,
    data: {},
    flags: ['--Limits.BatchItems', '3000', '--Limits.BatchBytes', '1000000', '--Api.Schemas.checked', schema],
  },
)
const byClients = await startHere(
  { after },
  { data: { things: [{ id: 'taken' }] }, flags: ['--Api.ClientIdsOnPost', 'true'] },
)

const JSON_TYPE = 'application/json'
const NDJSON = 'application/x-ndjson'
const CSV = 'text/csv'
const LENIENT = { Prefer: 'handling=lenient' }

let collections = 0

/** A name that no test used. */
function unused(): string {
  return `c${collections++}`
}

function post(name: string, type: string, body: string | Uint8Array, headers: object = {}, to = url): Promise<Reply> {
  return send(to, 'POST', `/api/${name}`, { headers: { 'Content-Type': type, ...headers }, body })
}

async function itemsOf(name: string, from = url): Promise<unknown> {
  const { status, text } = await send(from, 'GET', `/api/${name}?pageSize=10000`)
  return status === 404 ? undefined : JSON.parse(text)
}

interface Problem {
  readonly status: number
  readonly detail: string
  readonly errors?: readonly { readonly pointer: string; readonly message: string }[]
}

async function problemOf(reply: Promise<Reply>): Promise<Problem> {
  const { headers, text } = await reply
  assert.equal(headers['content-type'], 'application/problem+json', text)
  return JSON.parse(text) as Problem
}

test('a JSON list, NDJSON and CSV create all items in one write', async () => {
  const bodies = [
    [JSON_TYPE, '[{"mac":"a","data":{"t":1.5}},{"mac":"b"}]'],
    [NDJSON, '{"mac":"a","data":{"t":1.5}}\n\n{"mac":"b"}\r\n'],
    [CSV, 'mac,data.t\r\na,1.5\r\nb,\r\n'],
    ['Application/JSON;odata="a;charset=latin1"', '[{"mac":"a","data":{"t":1.5}},{"mac":"b"}]'],
    [`${NDJSON}; charset="UTF-8"`, '{"mac":"a","data":{"t":1.5}}\n{"mac":"b"}'],
    [`${CSV};x="header=absent;";CHARSET=Utf-8`, 'mac,data.t\na,1.5\nb,'],
    [`${CSV}; charset=utf-8; header=present`, '\ufeffmac,data.t\na,1.5\n\nb,'],
  ] as const
  for (const [type, body] of bodies) {
    const name = unused()
    const { status, headers, text } = await post(name, type, body)
    assert.equal(status, 201, text)
    assert.equal(text, '{"ids":[0,1]}')
    assert.equal(headers['content-type'], JSON_TYPE)
    assert.deepEqual(await itemsOf(name), [
      { id: 0, mac: 'a', data: { t: 1.5 } },
      { id: 1, mac: 'b' },
    ])
    const events = JSON.parse((await send(url, 'GET', `/events?collection=${name}`)).text)
    assert.equal(events.at(-1).position, Number(headers['journal-position']))
    assert.deepEqual(
      events.map(({ type }: { type: string }) => type),
      ['CollectionCreated', 'ItemCreated', 'ItemCreated'],
    )
    assert.equal(new Set(events.map(({ requestId }: { requestId: string }) => requestId)).size, 1)
  }
})

test('an empty list creates nothing, not even the collection', async () => {
  const name = unused()
  for (const [type, body] of [
    [JSON_TYPE, '[]'],
    [NDJSON, '\n'],
  ] as const) {
    const { status, text } = await post(name, type, body)
    assert.deepEqual([status, text], [201, '{"ids":[]}'], type)
  }
  assert.equal(await itemsOf(name), undefined)
})

test('a rejected item rejects the whole batch, and is named', async () => {
  const refused: readonly (readonly [string, string, number, RegExp, string?])[] = [
    [JSON_TYPE, '[{"n":1},7]', 422, /^The item 1 of the list: An item is a JSON object/, '/1'],
    [JSON_TYPE, '[{"n":1},{"n":"x"}]', 422, /^The item 1 of the list: .*schema/, '/1/n'],
    [JSON_TYPE, '[{"n":1},{"n":1e400}]', 400, /A number is too large/, '/1/n'],
    [NDJSON, '{"n":1}\n\n{"n":"x"}', 422, /^Line 3: .*schema/, '/1/n'],
    [NDJSON, '{"n":1}\n{"n":', 400, /^Line 2: It is not well-formed JSON/],
    [NDJSON, '{"n":1}\n{"n":9007199254740993}', 422, /^Line 2: A number beyond/, '/1/n'],
    [NDJSON, '{"n":1}\n[]', 422, /^Line 2: An item is a JSON object/, '/1'],
    [CSV, 'n,m\n1,"a\nb"\nx,2', 422, /^Line 4: .*schema/, '/1/n'],
    [CSV, 'n,m\n1,2\n1', 400, /^Line 3: The row has 1 cells, and the first line has 2/],
    [CSV, 'n,m\n1,2\n1,"2', 400, /^Line 3: the body is not well-formed CSV/],
    [CSV, 'n,n\n1,2', 400, /^Line 1: column 2 of the header, "n", is there twice/],
    [CSV, 'n,a..b\n1,2', 400, /has an empty name/],
    [CSV, 'n;a\n1;2', 400, /"n;a", is the only one: columns are separated by commas/],
    [CSV, 'n\ta\n1\t2', 400, /columns are separated by commas/],
    [CSV, 'n,__proto__.b\n1,2', 400, /must not be named __proto__/],
    [CSV, 'n,a,a.b\n1,,2\n1,2,2', 400, /^Line 3: The column "a.b" is inside another one/],
  ]
  for (const [type, body, status, detail, pointer] of refused) {
    const problem = await problemOf(post('checked', type, body))
    assert.equal(problem.status, status, body)
    assert.match(problem.detail, detail, body)
    if (pointer !== undefined) assert.equal(problem.errors?.[0]?.pointer, pointer, body)
  }
  assert.equal(await itemsOf('checked'), undefined)
})

test('with Prefer: handling=lenient each item gets its own result', async () => {
  const name = 'checked'
  const body = '{"n":1}\n{"n":"x"}\nnonsense\n{"n":2}'
  const { status, headers, text } = await post(name, NDJSON, body, LENIENT)
  assert.equal(status, 200)
  assert.equal(headers['preference-applied'], 'handling=lenient')
  const { results } = JSON.parse(text)
  assert.deepEqual(
    results.map(({ status, line, id, problem }: Record<string, unknown> & { problem?: Problem }) => [
      status,
      line,
      id,
      problem?.status,
    ]),
    [
      ['created', 1, 0, undefined],
      ['rejected', 2, undefined, 422],
      ['rejected', 3, undefined, 400],
      ['created', 4, 1, undefined],
    ],
  )
  assert.deepEqual(results[1].problem.errors, [{ pointer: '/n', message: 'must be number' }])
  assert.deepEqual(await itemsOf(name), [
    { id: 0, n: 1 },
    { id: 1, n: 2 },
  ])
  const list = await post(name, JSON_TYPE, '[{"n":3},{}]', LENIENT)
  assert.deepEqual(JSON.parse(list.text).results[0], { status: 'created', id: 2 })
  assert.equal(JSON.parse(list.text).results[1].status, 'rejected')
  const all = await post(name, CSV, 'n\nx\ny', LENIENT)
  assert.equal(all.status, 200)
  assert.equal(JSON.parse(all.text).results.length, 2)
})

test('client ids are kept when configured, and conflict within a batch, too', async () => {
  const csv = await post('things', CSV, 'id,n\na,1\n7,2\n', {}, byClients.url)
  assert.equal(csv.text, '{"ids":["a",7]}')
  const problem = await problemOf(post('things', JSON_TYPE, '[{"id":"b"},{"id":"b"}]', {}, byClients.url))
  assert.equal(problem.status, 409)
  assert.match(problem.detail, /^The item 1 of the list: An item with the id "b" exists already/)
  const { text } = await post('things', NDJSON, '{"id":"taken"}\n{"id":"c"}', LENIENT, byClients.url)
  const { results } = JSON.parse(text)
  assert.deepEqual([results[0].problem.status, results[1].id], [409, 'c'])
})

test('a CSV cell is a number, true, false, missing, or text', async () => {
  const name = unused()
  const cells = {
    '1': 1,
    '-2.5': -2.5,
    '1e3': 1000,
    '-0': 0,
    '0.0': 0,
    true: true,
    false: false,
    '': undefined,
    null: 'null',
    True: 'True',
    '007': '007',
    '+1': '+1',
    '.5': '.5',
    '1.': '1.',
    ' 1': ' 1',
    '0x10': '0x10',
    NaN: 'NaN',
    Infinity: 'Infinity',
    '1e999': '1e999',
    '1e-999': '1e-999',
    '9007199254740991': 9007199254740991,
    '9007199254740993': '9007199254740993',
    '2026-11-20T12:00:00': '2026-11-20T12:00:00',
    '[1]': [1],
    '[]': [],
    '[1,{"a":[]}]': [1, { a: [] }],
    '[draft]': '[draft]',
    '[9007199254740993]': '[9007199254740993]',
    '{}': {},
    '{"a":1}': '{"a":1}',
    '"{}"': '{}',
    '"text"': '"text"',
    'a,b': 'a,b',
    'say "x"': 'say "x"',
    'two\r\nlines': 'two\r\nlines',
    'ä€😀': 'ä€😀',
  }
  const rows = Object.keys(cells).map((cell) => `"${cell.replaceAll('"', '""')}",x`)
  const { status, text } = await post(name, CSV, `deep.er.value,a\\.b\r\n${rows.join('\r\n')}\r\n`)
  assert.equal(status, 201, text)
  assert.deepEqual(
    await itemsOf(name),
    Object.values(cells).map((value, id) => ({
      id,
      ...(value !== undefined && { deep: { er: { value } } }),
      'a.b': 'x',
    })),
  )
})

test('lines of CSV end with CRLF or LF, in any mixture, also after a line break in the header', async () => {
  for (const text of [
    'a,b\r\n1,x\n2,"y"\r\n',
    'a,b\n1,"x"\r\n2,y\r\n\r\n',
    'a,b\r1,x\r2,y',
    '\ufeff"a",b\r\n\r\n1,x\r\n2,y\r',
  ]) {
    const name = unused()
    assert.equal((await post(name, CSV, text)).status, 201, JSON.stringify(text))
    assert.deepEqual(
      await itemsOf(name),
      [
        { id: 0, a: 1, b: 'x' },
        { id: 1, a: 2, b: 'y' },
      ],
      JSON.stringify(text),
    )
  }
  const name = unused()
  await post(name, CSV, '"two\nlines",b\r\n1,"ends with CR\r"\r\n')
  assert.deepEqual(await itemsOf(name), [{ id: 0, 'two\nlines': 1, b: 'ends with CR\r' }])
})

test('CSV rows of any length are read', async () => {
  const name = unused()
  const long = `"${'x,""y""\r\n'.repeat(20_000)}"`
  const rows = Array.from({ length: 2000 }, (_, n) => `${n},"${'z'.repeat(n % 300)}"`)
  const { status, text } = await post(name, CSV, ['n,text', ...rows, `-1,${long}`, '-2,end'].join('\r\n'))
  assert.equal(status, 201, text)
  const items = (await itemsOf(name)) as { n: number; text?: string }[]
  assert.equal(items.length, 2002)
  assert.equal(items[299]?.text?.length, 299)
  assert.equal(items[2000]?.text, 'x,"y"\r\n'.repeat(20_000))
  assert.deepEqual(items[2001], { id: 2001, n: -2, text: 'end' })
  const few = unused()
  await post(few, CSV, `n,text\n1,${'y'.repeat(100_000)}\n2,\n3,c\n`)
  assert.deepEqual(
    ((await itemsOf(few)) as { n: number }[]).map(({ n }) => n),
    [1, 2, 3],
  )
  const beyond = await problemOf(post(unused(), CSV, `text\n${'y'.repeat(270_000)}`))
  assert.match(beyond.detail, /^Line 2: .* longer than 262144 characters/)
  const late = await problemOf(post(unused(), CSV, ['n,text', ...rows, '1'].join('\r\n')))
  assert.match(late.detail, /^Line 2002: /)
})

test('a batch may be compressed', async () => {
  const body = Buffer.from(longListOf(1000))
  for (const [coding, bytes] of [
    ['gzip', gzipSync(body)],
    ['X-Gzip', gzipSync(body)],
    ['deflate', deflateSync(body)],
    ['br', brotliCompressSync(body)],
  ] as const) {
    const { status, text } = await post(unused(), JSON_TYPE, bytes, { 'Content-Encoding': coding })
    assert.equal(status, 201, coding)
    assert.equal(JSON.parse(text).ids.length, 1000)
  }
  const torn = await post(unused(), JSON_TYPE, gzipSync(body).subarray(0, 100), { 'Content-Encoding': 'gzip' })
  assert.equal(torn.status, 400)
  const unknown = await post(unused(), NDJSON, body, { 'Content-Encoding': 'zstd' })
  assert.equal(unknown.status, 415)
  assert.equal(unknown.headers['accept-encoding'], 'gzip, deflate, br')
})

test('a long batch keeps its characters, and is rejected if it is not UTF-8', async () => {
  const items = ['ä漢', '😀', 'aé'].map((text) => ({ text: text.repeat(100_000) }))
  for (const [type, body] of [
    [JSON_TYPE, JSON.stringify(items)],
    [NDJSON, items.map((one) => JSON.stringify(one)).join('\n')],
  ] as const) {
    const name = unused()
    for (const before of ['', '\ufeff', '\ufeff ']) {
      const { status, text } = await post(name, type, before + body, {}, byClients.url)
      assert.equal(status, 201, text)
    }
    const stored = (await itemsOf(name, byClients.url)) as readonly { text: string }[]
    assert.deepEqual(
      stored.map(({ text }) => text),
      [...items, ...items, ...items].map(({ text }) => text),
    )
    const damaged = Buffer.from(body)
    damaged[damaged.length - 10] = 0xff
    const { status, detail } = await problemOf(post(name, type, damaged, {}, byClients.url))
    assert.deepEqual([status, detail], [400, 'The body is not valid UTF-8.'])
  }
})

test('a batch beyond the limits gets 413 and is not inflated any further', async () => {
  const many = await problemOf(post(unused(), JSON_TYPE, longListOf(3001)))
  assert.equal(many.status, 413)
  assert.match(many.detail, /at most 3000 items/)
  assert.equal((await post(unused(), NDJSON, '{}\n'.repeat(3001))).status, 413)
  assert.equal((await post(unused(), CSV, `a\n${'1\n'.repeat(3001)}`, LENIENT)).status, 413)
  const large = await problemOf(post(unused(), NDJSON, `{"a":"${'x'.repeat(1_000_000)}"}`))
  assert.equal(large.status, 413)
  assert.match(large.detail, /exceeds 1000000 bytes/)
  const bomb = gzipSync(Buffer.alloc(200_000_000, '[{},'))
  assert.equal((await post(unused(), JSON_TYPE, bomb, { 'Content-Encoding': 'gzip' })).status, 413)
})

test('the limit of an item applies in a batch and alone', async () => {
  const small = await startHere({ after }, { data: {}, flags: ['--Limits.BodyBytes', '100'] })
  const item = JSON.stringify({ text: 'x'.repeat(100) })
  assert.equal((await post('things', JSON_TYPE, item, {}, small.url)).status, 413)
  assert.equal((await post('things', JSON_TYPE, `[{},${item}]`, {}, small.url)).status, 422)
  assert.equal((await post('things', JSON_TYPE, ` [{},${'{},'.repeat(100)}{}]`, {}, small.url)).status, 201)
})

test('a batch of CSV has no more bytes as JSON than one of JSON, although its names are there once', async () => {
  const name = unused()
  const rows = '1,\n'.repeat(100)
  const refused = await problemOf(post(name, CSV, `${'k'.repeat(10_000)},b\n${rows}`, LENIENT))
  assert.equal(refused.status, 413)
  assert.match(refused.detail, /more than 1000000 bytes as JSON/)
  assert.equal(await itemsOf(name), undefined)
  assert.equal((await post(name, CSV, `${'k'.repeat(9_000)},b\n${rows}`)).status, 201)
  const wide = await problemOf(post(name, CSV, Array.from({ length: 1001 }, (_, n) => `c${n}`).join(',')))
  assert.equal(wide.status, 400)
  assert.match(wide.detail, /at most 1000 are accepted; send NDJSON/)
})

test('CSV of a single line is 400, and the parameter header says whether the first line is an item', async () => {
  for (const body of ['mac,n', 'mac,n\r\n', '\ufeffmac,n\n\n', 'm1']) {
    for (const headers of [{}, LENIENT]) {
      const name = unused()
      const problem = await problemOf(post(name, CSV, body, headers))
      assert.equal(problem.status, 400, body)
      assert.match(problem.detail, /single line, the header row.*header=absent/)
      assert.equal(await itemsOf(name), undefined)
    }
  }
  for (const parameter of ['header=absent', 'Header="Absent"', 'charset=utf-8;header=absent', 'header = absent']) {
    const name = unused()
    assert.equal((await post(name, `${CSV}; ${parameter}`, 'm1,1,[2]\r\nm2,,x\r\n')).status, 201, parameter)
    assert.deepEqual(await itemsOf(name), [
      { id: 0, field1: 'm1', field2: 1, field3: [2] },
      { id: 1, field1: 'm2', field3: 'x' },
    ])
  }
  const one = unused()
  assert.equal((await post(one, `${CSV};header=absent`, 'm1')).status, 201)
  const name = unused()
  assert.equal((await post(name, `${CSV}; header=present`, 'a\n1')).status, 201)
  assert.deepEqual(await itemsOf(name), [{ id: 0, a: 1 }])
  const uneven = await problemOf(post(unused(), `${CSV}; header=absent`, '1,2\n1'))
  assert.match(uneven.detail, /^Line 2: The row has 1 cells, and the first line has 2/)
  const unknown = await problemOf(post(unused(), `${CSV}; header=maybe`, 'a\n1'))
  assert.equal(unknown.status, 400)
  assert.match(unknown.detail, /header of text\/csv is present or absent, and not maybe/)
})

test('NUL bytes are named with their place, also those of UTF-16', async () => {
  const bodies = [
    [JSON_TYPE, Buffer.from('{"a":"x\0"}'), 7],
    [JSON_TYPE, Buffer.from('{"a":1}', 'utf16le'), 1],
    [NDJSON, Buffer.from('{"a":1}\n{"a":\0}\n'), 13],
    [NDJSON, Buffer.from('\ufeff{"a":1}\n', 'utf16le'), 3],
    [CSV, Buffer.from('a\nx\0\n'), 3],
    [CSV, Buffer.from('\ufeffa\n1\n', 'utf16le').swap16(), 2],
  ] as const
  for (const [type, body, offset] of bodies) {
    const problem = await problemOf(post(unused(), type, body))
    assert.equal(problem.status, 400)
    assert.match(problem.detail, new RegExp(`NUL byte at offset ${offset}\\. Is it UTF-16\\?`), type)
  }
  const everything = await problemOf(
    send(url, 'POST', '/api', { headers: { 'Content-Type': JSON_TYPE }, body: '{\0}' }),
  )
  assert.match(everything.detail, /NUL byte at offset 1/)
  const name = unused()
  assert.equal((await post(name, JSON_TYPE, '{"a":"\\u0000"}')).status, 201)
  assert.deepEqual(await itemsOf(name), [{ id: 0, a: '\0' }])
})

test('a retry of a batch with its Idempotency-Key gets the first response', async () => {
  const name = unused()
  for (const headers of [{ 'Idempotency-Key': 'strict' }, { 'Idempotency-Key': 'lenient', ...LENIENT }]) {
    const first = await post(name, NDJSON, '{"n":1}\n{"n":2}\n', headers)
    const again = await post(name, NDJSON, '{"n":1}\n{"n":2}\n', headers)
    assert.equal(again.status, first.status)
    assert.equal(again.text, first.text)
    assert.equal(again.headers['journal-position'], first.headers['journal-position'])
    const other = await post(name, NDJSON, '{"n":1}\n{"n":3}\n', headers)
    assert.equal(other.status, 422)
  }
  assert.equal(((await itemsOf(name)) as unknown[]).length, 4)
})

test('an unsupported content type gets the list of supported ones', async () => {
  const { status, headers } = await post(unused(), 'text/plain', 'a')
  assert.equal(status, 415)
  assert.equal(headers.accept, 'application/json, application/x-ndjson, text/csv')
  assert.equal((await post(unused(), `${CSV}; charset=latin1`, 'a\n1')).status, 415)
  const notUtf8 = await post(unused(), CSV, Buffer.from([0x61, 0x0a, 0xff]))
  assert.equal(notUtf8.status, 400)
})

test('the server logged no unexpected error', () => {
  assert.doesNotMatch(stderr(), /unexpected/)
  assert.deepEqual(byClients.failures, [])
})
