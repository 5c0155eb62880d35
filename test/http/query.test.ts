import assert from 'node:assert/strict'
import { before, describe, type TestContext, test } from 'node:test'
import type { JsonObject, JsonValue } from '../../src/json/value.ts'
import { type Reply, send } from '../support/requests.ts'
import type { RunningServer } from '../support/server.ts'
import { startServer } from '../support/service.ts'

/** A field for each class of values. */
const readings = [
  { id: 'r1', n: -1, t: 'apple', at: '2026-01-01T12:00:00Z', on: false, x: null },
  { id: 'r2', n: 7, t: 'Apple pie', at: '2026-01-01T14:00:00.000+02:00', on: true, x: 1 },
  { id: 'r3', n: 7.5, t: '007', at: '2026-01-01T12:00:00.000001', on: false },
  { id: 'r4', n: 70, t: 'é,7', at: '2026-01-02', on: true, x: 'null' },
  { id: 'r5' },
]

/** All classes in one field. */
const mixed = [
  { id: 'null', v: null },
  { id: 'true', v: true },
  { id: 'seven', v: 7 },
  { id: 'day', v: '2026-01-01' },
  { id: 'text', v: '7' },
  { id: 'zeros', v: '007' },
  { id: 'list', v: [7, 'red', ['blue']] },
  { id: 'none', v: [] },
  { id: 'object', v: { b: [2], a: 1 } },
  { id: 'missing' },
]

const sensors = [
  { id: 'a', data: { acceleration_x: 78, acceleration: 1.5, identifier: null, axes: [{ n: 1 }, { n: 2 }] } },
  { id: 'b', data: { acceleration_x: 70, acceleration: 1.25, identifier: 'left', axes: [{ n: 2 }, [{ n: 3, m: 1 }]] } },
  { id: 'c', data: { acceleration_x: -200, axes: [] }, tags: ['Indoor', 'old'] },
]

const odd: readonly JsonObject[] = [
  { id: 1, page: 2, gt: 5, a_gt: 1, q: 'x', constructor: 'own', ' padded': 1 },
  { id: 2, page: 3, gt: 6, a_gt: 2, q: 'y' },
]

/** Names in which a dot, a comma or a backslash is a letter like any other. */
const dotted: readonly JsonObject[] = [
  { id: 1, 'a.b': 1, a: { b: 9, 'c.d': [{ 'e.f': 'x' }] }, 'a,b': 'one', 'a\\b': 3, 'a\\': 5 },
  { id: 2, 'a.b': 2, a: { b: 8 }, 'a,b': 'two', 'a\\b': 4, 'a\\': 4 },
]

const many = Array.from({ length: 1200 }, (_, id) => ({ id, third: id % 3, name: `item ${id}` }))
const long = [{ id: 'long', text: 'a'.repeat(200_000), at: '2026-01-01' }]

let server: RunningServer

before(async (t) => {
  const scope = t as unknown as TestContext
  server = await startServer(scope, { data: { readings, mixed, sensors, odd, dotted, many, long, empty: [] } })
})

function ask(path: string): Promise<Reply> {
  return send(server.url, 'GET', `/api/${path}`)
}

async function items(path: string): Promise<JsonObject[]> {
  const reply = await ask(path)
  assert.equal(reply.status, 200, `${path}: ${reply.text}`)
  return reply.json<JsonObject[]>()
}

async function ids(path: string): Promise<JsonValue[]> {
  return (await items(path)).map(({ id }) => id as JsonValue)
}

/** Each query of a collection brings the items of these ids, in this order. */
async function brings(collection: string, expected: Readonly<Record<string, string>>): Promise<void> {
  for (const [query, wanted] of Object.entries(expected)) {
    assert.equal((await ids(`${collection}?${query}`)).join(' '), wanted, query)
  }
}

async function isRefused(path: string): Promise<void> {
  const reply = await ask(path)
  assert.equal(reply.status, 400, path.slice(0, 100))
  assert.equal(reply.headers['content-type'], 'application/problem+json')
  assert.equal(reply.json<JsonObject>().type, 'urn:recollect:problem:Invalid')
}

function linksOf({ headers }: Reply): Record<string, string> {
  const links = [...String(headers.link ?? '').matchAll(/<([^>]*)>; rel="(\w+)"/g)]
  return Object.fromEntries(links.map(([, target, relation]) => [relation as string, target as string]))
}

describe('filters', () => {
  test('numbers are compared as numbers', () =>
    brings('readings', {
      'n=7': 'r2',
      'n_eq=7.50': 'r3',
      'n=70e-1': 'r2',
      'n_ne=7': 'r1 r3 r4',
      'n_gt=7': 'r3 r4',
      'n_gte=7': 'r2 r3 r4',
      'n_lt=7': 'r1',
      'n_lte=7': 'r1 r2',
      'n_gt=-2&n_lt=10': 'r1 r2 r3',
      'n_lt=1e999': 'r1 r2 r3 r4',
      'n_in=70,-1,8': 'r1 r4',
    }))

  test('a number only matches text that is a JSON number', () =>
    brings('readings', { 'n=007': '', 'n=%2B7': '', 'n=0x7': '', 'n=7.': '', 'n=%207': '', 'n_ne=007': '', 'n=': '' }))

  test('text is compared by code point and case-sensitively', () =>
    brings('readings', {
      't=apple': 'r1',
      't=Apple+pie': 'r2',
      't=Apple%20pie': 'r2',
      't=007': 'r3',
      't=7': '',
      't=%C3%A9%2C7': 'r4',
      't_ne=apple': 'r2 r3 r4',
      't_gt=Apple': 'r1 r2 r4',
      't_gte=apple': 'r1 r4',
      't_lt=apple': 'r2 r3',
      't_lte=apple': 'r1 r2 r3',
      't_in=apple,007,': 'r1 r3',
    }))

  test('contains, startswith and endswith search text case-sensitively', () =>
    brings('readings', {
      't_contains=pp': 'r1 r2',
      't_contains=PP': '',
      't_contains=': 'r1 r2 r3 r4',
      't_startswith=Apple': 'r2',
      't_endswith=7': 'r3 r4',
      't_endswith=le': 'r1',
      'at_startswith=2026-01-01T12': 'r1 r3',
      'n_contains=7': '',
      'on_startswith=t': '',
      'x_contains=ul': 'r4',
    }))

  test('date-times are compared as instants in any time zone, to the microsecond', () =>
    brings('readings', {
      'at=2026-01-01T12:00:00': 'r1 r2',
      'at=2026-01-01T12:00:00.0000004Z': 'r1 r2',
      'at=2026-01-01T13:00:00%2B01:00': 'r1 r2',
      'at=2026-01-01T13:00:00+01:00': 'r1 r2',
      'at=2026-01-01T06:30-0530': 'r1 r2',
      'at_ne=2026-01-01T12:00Z': 'r3 r4',
      'at_gt=2026-01-01T12:00:00Z': 'r3 r4',
      'at_gte=2026-01-01T12:00:00.000001Z': 'r3 r4',
      'at_lt=2026-01-01T12:00:00.000001': 'r1 r2',
      'at_lte=2026-01-01T12:00:00.000001': 'r1 r2 r3',
      'at=2026-01-02T00:00:00Z': 'r4',
      'at_in=2026-01-02,2026-01-01T12:00Z': 'r1 r2 r4',
      'at=noon': '',
      'at_ne=noon': '',
      'at_lt=9': '',
      'at=2026-02-30': '',
    }))

  test('booleans and null are recognized', () =>
    brings('readings', {
      'on=true': 'r2 r4',
      'on_ne=true': 'r1 r3',
      'on_gt=false': 'r2 r4',
      'on_lte=false': 'r1 r3',
      'on_in=true,false': 'r1 r2 r3 r4',
      'on=1': '',
      'on=TRUE': '',
      'x=null': 'r1 r4',
      'x_ne=null': '',
      'x_gte=null&x_lte=null': 'r1 r4',
      'x=': '',
    }))

  test('a filter is compared within the type of each value, and never matches another type, not even with ne', () =>
    brings('mixed', {
      'v=7': 'seven text list',
      'v=007': 'zeros',
      'v_ne=7': 'zeros list',
      'v_ne=null': 'text zeros list',
      'v=true': 'true',
      'v_lt=1e9': 'seven zeros list',
      'v=2026-01-01T00:00:00Z': 'day',
      'v_contains=7': 'text zeros',
    }))

  test('a missing field matches only exists=false', () =>
    brings('mixed', {
      'v_exists=false': 'missing',
      'v_exists=true': 'null true seven day text zeros list none object',
      'v_exists=true&v_exists=false': 'null true seven day text zeros list none object missing',
      'nope=1': '',
      'nope_ne=1': '',
      'nope=null': '',
      'nope=': '',
      'nope_contains=': '',
    }))

  test('exists takes true or false', () => isRefused('mixed?v_exists=yes'))

  test('arrays and objects are compared as JSON, with members in any order', () =>
    brings('mixed', {
      'v=[]': 'none',
      'v=%5B7,%20"red",["blue"]]': 'list',
      'v=["blue"]': 'list',
      'v_gt=[]': 'list',
      'v_ne=[]': 'text zeros list',
      'v={"a":1,"b":[2]}': 'object',
      'v={"b":[2],"a":1.0}': 'object',
      'v_ne={}': 'text zeros list object',
      'v={': '',
      'v=[7': '',
    }))

  test('any element of an array may match, at any depth', () =>
    brings('mixed', { 'v=red': 'list', 'v=blue': 'list', 'v_startswith=bl': 'list', 'v_in=x,blue': 'list' }))

  test('a dotted path leads into objects and through arrays', () =>
    brings('sensors', {
      'data.acceleration_x=78': 'a',
      'data.acceleration_x_gt=70': 'a',
      'data.acceleration_x_gte=70': 'a b',
      'data.acceleration_gt=1.3': 'a',
      'data.identifier=null': 'a',
      'data.identifier_exists=true': 'a b',
      'data.axes.n=2': 'a b',
      'data.axes.n=3': 'b',
      'data.axes.m_exists=true': 'b',
      'data.axes.n_exists=false': 'c',
      'tags=old': 'c',
      'tags_contains=door': 'c',
      'data.acceleration_x.deeper=1': '',
      'data.=1': '',
    }))

  test('only operators are suffixes; a field with such a name, or that of a parameter, needs _eq', () =>
    brings('odd', {
      'page_eq=2': '1',
      'page_gt=2': '2',
      'gt=5': '1',
      'gt_eq=6': '2',
      'gt_lt=6': '1',
      'a_gt=1': '',
      'a_gt_eq=1': '1',
      'q_eq=y': '2',
      'a_like=1': '',
      '+padded=1': '1',
    }))

  test('a backslash escapes a dot or a comma in names, in filters, sort and fields', async () => {
    const e = encodeURIComponent
    await brings('dotted', {
      'a.b=9': '1',
      'a.b=1': '',
      'a\\.b=1': '1',
      [`${e('a\\.b')}_gt=1`]: '2',
      'a\\.b_exists=true': '1 2',
      'a.c\\.d.e\\.f=x': '1',
      'a\\,b=two': '2',
      'a\\b=4': '2',
      'a\\\\b=3': '1',
      'a\\\\_eq=5': '1',
      'a\\=5': '1',
      'sort=-a\\.b': '2 1',
      'sort=a.b': '2 1',
      'sort=a\\,b_desc,id': '2 1',
      'sort=a\\': '2 1',
    })
    assert.deepEqual(await items('dotted?id=2&fields=a\\.b,a\\,b'), [{ 'a.b': 2, 'a,b': 'two' }])
    assert.deepEqual(await items('dotted?id=1&fields=a.c\\.d.e\\.f'), [{ a: { 'c.d': [{ 'e.f': 'x' }] } }])
    const { next } = linksOf(await ask('dotted?a\\.b_gt=0&sort=-a\\.b&pageSize=1'))
    assert.deepEqual((await send(server.url, 'GET', String(next))).json<JsonObject[]>()[0]?.id, 1)
  })

  test('values of a repeated parameter are alternatives, those of ne and of different parameters must all hold', () =>
    brings('readings', {
      'n=7&n=70': 'r2 r4',
      'n_gt=60&n_gt=7': 'r3 r4',
      'n_ne=7&n_ne=70': 'r1 r3',
      'n_in=7,8&n_in=70': 'r2 r4',
      't_contains=pie&t_contains=00': 'r2 r3',
      'n_ne=7&n_ne=x': 'r1 r3 r4',
      'n_ne=x&n_ne=y': '',
      'x_ne=2&x_ne=null': 'r2',
      'at_ne=noon&at_ne=2026-01-01T12:00Z': 'r3 r4',
      'n=7&on=true': 'r2',
      'n=7&on=false': '',
      'n=7&n_eq=70': '',
      'n_gt=0&n_lt=10&on=true': 'r2',
    }))

  test('q searches text case-insensitively in all values but not in names', () =>
    brings('sensors', {
      'q=LEFT': 'b',
      'q=indoor': 'c',
      'q=-200': 'c',
      'q=1.25': 'b',
      'q=null': 'a',
      'q=acceleration': '',
      'q=left&q=old': 'b c',
      'q=left&data.acceleration_x=70': 'b',
      'q=': 'a b c',
    }))

  test('inherited members match nothing', async () => {
    for (const name of ['constructor', '__proto__', 'toString', 'hasOwnProperty', '__proto__.toString', 'id.length']) {
      await brings('readings', {
        [`${name}=1`]: '',
        [`${name}_ne=1`]: '',
        [`${name}_exists=true`]: '',
        [`${name}_exists=false`]: 'r1 r2 r3 r4 r5',
        [`sort=-${name}`]: 'r1 r2 r3 r4 r5',
      })
      assert.deepEqual(await items(`readings?pageSize=1&fields=${name}`), [{}], name)
    }
    await brings('odd', { 'constructor=own': '1', 'constructor_exists=false': '2' })
    assert.equal((await ask('odd?fields=constructor')).text, '[{"constructor":"own"},{}]')
  })
})

describe('sort', () => {
  test('every syntax of sort is supported', () =>
    brings('readings', {
      'sort=n_asc': 'r1 r2 r3 r4 r5',
      'sort=n_desc': 'r4 r3 r2 r1 r5',
      'sort=-n': 'r4 r3 r2 r1 r5',
      'sort=n': 'r1 r2 r3 r4 r5',
      'sort=+t': 'r3 r2 r1 r4 r5',
      'sort=%2Bt': 'r3 r2 r1 r4 r5',
      'sort=%20t': 'r3 r2 r1 r4 r5',
      'sort=': 'r1 r2 r3 r4 r5',
    }))

  test('sort is stable and takes several fields, and missing values are last in both directions', () =>
    brings('readings', {
      'sort=on': 'r1 r3 r2 r4 r5',
      'sort=-on': 'r2 r4 r1 r3 r5',
      'sort=on_desc,n_desc': 'r4 r2 r3 r1 r5',
      'sort=on&sort=-n': 'r3 r1 r4 r2 r5',
      'sort=at': 'r1 r2 r3 r4 r5',
      'sort=-at': 'r4 r3 r1 r2 r5',
      'sort=x': 'r1 r2 r4 r3 r5',
      'sort=-x': 'r4 r2 r1 r3 r5',
      'sort=nope,-id': 'r5 r4 r3 r2 r1',
    }))

  test('values of different types have one total order', () =>
    brings('mixed', {
      'sort=v': 'null true seven day zeros text none list object missing',
      'sort=-v': 'object list none text zeros day seven true null missing',
    }))

  test('sort takes a dotted path, also through arrays', () =>
    brings('sensors', { 'sort=data.acceleration_x': 'c b a', 'sort=-data.axes.n': 'b a c' }))

  test('text is sorted by code point, also beyond U+FFFF', async () => {
    for (const v of ['\u{1f600}', '\uff5e', 'z', 'Z', 'é']) {
      const body = JSON.stringify({ v })
      const sent = { headers: { 'Content-Type': 'application/json' }, body }
      assert.equal((await send(server.url, 'POST', '/api/planes', sent)).status, 201)
    }
    const sorted = (await items('planes?sort=v')).map(({ v }) => v)
    assert.deepEqual(sorted, ['Z', 'z', 'é', '\uff5e', '\u{1f600}'])
  })

  test('more than eight sort fields are rejected', () => isRefused(`many?sort=${'a,'.repeat(9)}`))

  test('more than 32 filters are rejected', () =>
    isRefused(`many?${Array.from({ length: 33 }, (_, index) => `f${index}=1`).join('&')}`))

  test('texts to search for are rejected beyond four, or 200 characters', async () => {
    await isRefused('many?q=1&q=2&name_like=3&name_contains=4&name_contains=5')
    await isRefused(`many?q=${'a'.repeat(201)}`)
  })
})

describe('paging', () => {
  test('the four families of paging parameters select the same page', async () => {
    for (const query of ['page=3&pageSize=4', 'page=3&per_page=4', 'skip=8&take=4', 'offset=8&limit=4']) {
      assert.deepEqual(await ids(`many?${query}`), [8, 9, 10, 11], query)
    }
  })

  test('a page has 512 items by default, and at most 10,000', async () => {
    assert.equal((await ids('many')).length, 512)
    assert.deepEqual((await ids('many?page=2')).slice(0, 1), [512])
    assert.deepEqual((await ids('many?skip=2')).slice(0, 1), [2])
    assert.equal((await ids('many?pageSize=10000')).length, 1200)
    for (const size of ['pageSize', 'per_page', 'take', 'limit']) {
      await isRefused(`many?${size}=10001`)
      await isRefused(`many?${size}=${'9'.repeat(400)}`)
    }
  })

  test('mixed families of paging parameters are rejected', async () => {
    const names = ['page', 'pageSize', 'per_page', 'skip', 'take', 'offset', 'limit']
    const pairs = names.flatMap((a) => names.map((b) => [a, b] as const)).filter(([a, b]) => a !== b)
    const families = ['page pageSize', 'page per_page', 'skip take', 'offset limit'].map((family) => family.split(' '))
    for (const [a, b] of pairs) {
      if (families.some((family) => family.includes(a) && family.includes(b))) await ids(`many?${a}=1&${b}=1`)
      else await isRefused(`many?${a}=1&${b}=1`)
    }
    await isRefused('many?page=1&pageSize=1&per_page=1')
  })

  test('paging parameters must be positive integers and given once', async () => {
    for (const name of ['page', 'pageSize', 'per_page', 'take', 'limit']) await isRefused(`many?${name}=0`)
    for (const name of ['page', 'pageSize', 'per_page', 'skip', 'take', 'offset', 'limit']) {
      for (const bad of ['', '-1', '1.5', '1e2', '%2B1', 'x', '%201', '0x1', 'NaN', 'Infinity', '1%00']) {
        await isRefused(`many?${name}=${bad}`)
      }
      await isRefused(`many?${name}=1&${name}=2`)
    }
    assert.equal((await ids('many?skip=0&take=1')).length, 1)
    assert.equal((await ids('many?offset=0&limit=1')).length, 1)
  })

  test('a page beyond the end is empty and gets 200', async () => {
    for (const query of [
      'page=99',
      'skip=1200',
      'offset=1201&limit=5',
      'page=99999999999999999999999',
      `page=${'9'.repeat(400)}`,
      `skip=${'9'.repeat(400)}`,
    ]) {
      const reply = await ask(`many?${query}`)
      assert.deepEqual([reply.status, reply.text, reply.headers['x-total-count']], [200, '[]', '1200'], query)
      assert.ok(linksOf(reply).prev, 'it says where the pages are')
      assert.equal(linksOf(reply).next, undefined)
    }
    const empty = await ask('empty?page=1')
    assert.deepEqual([empty.status, empty.text, empty.headers['x-total-count']], [200, '[]', '0'])
    assert.deepEqual(linksOf(empty), { first: '/api/empty?page=1', last: '/api/empty?page=1' })
  })

  test('the total count follows the filters and ignores paging, for HEAD, too', async () => {
    const reply = await ask('many?third=1&pageSize=7')
    assert.equal(reply.headers['x-total-count'], '400')
    assert.equal(reply.json<JsonObject[]>().length, 7)
    const head = await send(server.url, 'HEAD', '/api/many?third=1&pageSize=7')
    assert.deepEqual([head.status, head.text, head.headers['x-total-count']], [200, '', '400'])
    assert.equal(head.headers.link, reply.headers.link)
  })

  test('links keep all other parameters as they were sent', async () => {
    const reply = await ask('many?name_contains=item+&third=1&page=2&third=%32&pageSize=100&sort=-id&fields=id')
    const at = (page: number) =>
      `/api/many?name_contains=item+&third=1&third=%32&pageSize=100&sort=-id&fields=id&page=${page}`
    assert.deepEqual(linksOf(reply), { first: at(1), prev: at(1), next: at(3), last: at(8) })
  })

  test('special characters in links are escaped', async () => {
    const reply = await ask('many?q=a>b"')
    assert.deepEqual(linksOf(reply).first, '/api/many?q=a%3Eb%22&page=1')
    const weird = encodeURIComponent('a/b> "c"')
    const created = await send(server.url, 'POST', `/api/${weird}`, {
      headers: { 'Content-Type': 'application/json' },
      body: '{}',
    })
    assert.equal(created.status, 201)
    const { first } = linksOf(await ask(weird))
    assert.equal((await send(server.url, 'GET', String(first))).text, '[{"id":0}]')
  })

  for (const start of ['', 'pageSize=500&', 'per_page=100&', 'take=400&', 'offset=0&limit=601&']) {
    test(`following next from ?${start} visits the whole collection once, in order`, async () => {
      const walked: JsonValue[] = []
      let next: string | undefined = `/api/many?${start}sort=-id&third_ne=0`
      const last = linksOf(await send(server.url, 'GET', next)).last
      let visited: string | undefined
      while (next) {
        const reply: Reply = await send(server.url, 'GET', next)
        walked.push(...reply.json<JsonObject[]>().map(({ id }) => id as JsonValue))
        visited = next
        next = linksOf(reply).next
        if (next === undefined) assert.equal(visited, last)
      }
      const expected = many.filter(({ third }) => third !== 0).map(({ id }) => id)
      assert.deepEqual(walked, expected.reverse())
    })
  }

  for (const [start, size] of [
    ['skip', 'take'],
    ['offset', 'limit'],
  ]) {
    test(`following prev from an unaligned ${start} visits each earlier item once`, async () => {
      const walked: JsonValue[] = []
      let prev: string | undefined = `/api/many?sort=id&${start}=11&${size}=4`
      while (prev) {
        const reply: Reply = await send(server.url, 'GET', prev)
        walked.unshift(...reply.json<JsonObject[]>().map(({ id }) => id as JsonValue))
        prev = linksOf(reply).prev
      }
      assert.deepEqual(
        walked,
        Array.from({ length: 15 }, (_, id) => id),
      )
    })
  }
})

describe('selected fields', () => {
  test('are in the order of the item, and dotted paths keep their nesting', async () => {
    assert.equal(
      (await ask('sensors?id=a&fields=data.identifier,id,data.axes.n')).text,
      '[{"id":"a","data":{"identifier":null,"axes":[{"n":1},{"n":2}]}}]',
    )
    assert.deepEqual(await items('sensors?id=b&fields=data.axes.m'), [{ data: { axes: [{}, [{ m: 1 }]] } }])
    assert.deepEqual(await items('sensors?id=c&fields=tags&fields=nope,data.nope'), [{ tags: ['Indoor', 'old'] }])
  })

  test('do not affect filter and sort', async () => {
    assert.deepEqual(await items('readings?n_gt=7&sort=-n&fields=id'), [{ id: 'r4' }, { id: 'r3' }])
  })

  test('an empty list selects all fields', async () => {
    assert.deepEqual(await items('sensors?fields='), sensors)
  })
})

describe('an invalid query', () => {
  test('with malformed percent-encoding is rejected, in names and in values', async () => {
    for (const query of ['a=%', 'a=%zz', 'a=%C3', '%E0%A4%A=1', 'a=%ED%A0%80', 'q=%ff', 'sort=%', 'fields=%']) {
      await isRefused(`many?${query}`)
    }
  })

  test('that is very long gets links that fit into the headers and work', async () => {
    const long = `many?pageSize=1&id_in=${Array.from({ length: 1500 }, (_, id) => id).join(',')}`
    const { headers } = await ask(long)
    assert.ok(headers.link && headers.link.length < 8 * 1024)
    assert.match(String(headers.link), /^<[^>]+>; rel="next"$/)
  })

  test('with more than a thousand parameters is rejected', async () => {
    assert.deepEqual(await ids(`many?${'id=5&'.repeat(1000)}`), [5])
    await isRefused(`many?${'id=5&'.repeat(1001)}`)
    await isRefused(`many?${'a=&'.repeat(1001)}`)
  })

  test('is rejected before conditions are evaluated', async () => {
    const { headers } = await ask('many')
    const reply = await send(server.url, 'GET', '/api/many?page=0', { headers: { 'If-None-Match': headers.etag } })
    assert.equal(reply.status, 400)
  })

  test('for an unknown collection gets 404', async () => {
    assert.equal((await ask('nowhere?v=1')).status, 404)
  })
})

test('that tries to be slow is answered like any other', async () => {
  const a = 'a'.repeat(6000)
  const longest = 'a'.repeat(199)
  for (const [query, found] of [
    [`text_contains=${longest}b`, 0],
    ['text_contains=aaab&text_contains=aaac&text_contains=aaad&text_contains=aaae', 0],
    [`text_endswith=b${a}`, 0],
    [`q=${longest}b`, 0],
    [`q=${longest}`, 1],
    [`text=${'%20'.repeat(2000)}`, 0],
    [`at_gt=2026-01-01T00:00:00.${'1'.repeat(6000)}`, 0],
    [`at=2026-01-01T00:00:00.${'0'.repeat(6000)}`, 1],
    [`at=2026-01-01${'%20'.repeat(2000)}00`, 0],
    [`text=${'['.repeat(6000)}`, 0],
    [`text=${'['.repeat(3000)}${']'.repeat(3000)}`, 0],
    [`text=${'{"a":'.repeat(400)}1${'}'.repeat(400)}`, 0],
    [`text=1${'0'.repeat(6000)}`, 0],
    [`sort=${'_asc'.repeat(1500)}`, 1],
    [`sort=${'a.'.repeat(3000)}`, 1],
    [`${'a.'.repeat(3000)}=1`, 0],
    [`${'_'.repeat(6000)}gt=1`, 0],
    [`fields=${'a.'.repeat(3000)}`, 1],
    [`fields=${'a,'.repeat(3000)}`, 1],
    [`text_in=${'a,'.repeat(3000)}`, 0],
  ] as const) {
    assert.equal((await items(`long?${query}`)).length, found, query.slice(0, 60))
  }
})
