import assert from 'node:assert/strict'
import { test } from 'node:test'
import { foldCase } from '../../src/query/filter.ts'
import { DEFAULT_PAGE_SIZE, pageLinks } from '../../src/query/paging.ts'
import { parseParameters, parseQuery } from '../../src/query/query.ts'
import { Refusal } from '../../src/runtime/errors.ts'

const LIMITS = { parameters: 1000, pageSize: 10_000 }

function query(search: string) {
  return parseQuery(parseParameters(search, LIMITS.parameters), LIMITS)
}

function links(search: string, total: number): Record<string, string> {
  const parameters = parseParameters(search, LIMITS.parameters)
  const found = pageLinks(parameters, parseQuery(parameters, LIMITS).page, total)
  return Object.fromEntries(found.map((link) => [link.relation, link.search]))
}

function isRefused(search: string): void {
  assert.throws(
    () => query(search),
    (error) => error instanceof Refusal && error.code === 'Invalid',
    search,
  )
}

test('only operator names are suffixes', () => {
  const read = (search: string) => query(search).filters.map(({ path, operator }) => [path.join('.'), operator])
  assert.deepEqual(read('data.acceleration_x=78'), [['data.acceleration_x', 'eq']])
  assert.deepEqual(read('data.acceleration_x_gt=70'), [['data.acceleration_x', 'gt']])
  assert.deepEqual(read('a_GT=1&b_Like=1&c_=1&_gt=1&gt=1'), [
    ['a_GT', 'eq'],
    ['b_Like', 'eq'],
    ['c_', 'eq'],
    ['_gt', 'eq'],
    ['gt', 'eq'],
  ])
  assert.deepEqual(read('page_eq=1&gt_eq=1&a_gt_eq=1&_eq_eq=1'), [
    ['page', 'eq'],
    ['gt', 'eq'],
    ['a_gt', 'eq'],
    ['_eq', 'eq'],
  ])
})

test('a repeated parameter is one filter, with any escaping; two spellings of an operator are two', () => {
  assert.deepEqual(
    query('a=1&%61=2&a_eq=3').filters.map(({ operands }) => operands.map(({ text }) => text)),
    [['1', '2'], ['3']],
  )
})

test('in matches any of the listed values', () => {
  const [filter] = query('a_in=1,2,,x&a_in=3').filters
  assert.equal(filter?.operator, 'eq')
  assert.deepEqual(
    filter?.operands.map(({ text }) => text),
    ['1', '2', '', 'x', '3'],
  )
})

test('every syntax of sort is parsed', () => {
  const read = (sort: string) =>
    query(`sort=${sort}`).sort.map(({ path, descending }) => `${descending ? '-' : '+'}${path.join('.')}`)
  assert.deepEqual(read('a_asc,b.c_desc,-d,%2Be,+f,%20g,h'), ['+a', '-b.c', '-d', '+e', '+f', '+g', '+h'])
  assert.deepEqual(read('a_b,x_desc_asc,_asc,-y_asc'), ['+a_b', '+x_desc', '+_asc', '-y_asc'])
  assert.deepEqual(read(',,'), [])
  assert.deepEqual(
    query('sort=a&sort=-b').sort.map(({ path }) => path),
    [['a'], ['b']],
  )
})

test('a sort by too many fields is rejected', () => {
  assert.equal(query('sort=a,b,c,d,e,f,g,h').sort.length, 8)
  isRefused('sort=a,b,c,d,e,f,g,h,i')
  isRefused(`sort=${'a,'.repeat(9)}`)
})

test('a field that is named again sorts once, as it was named first', () => {
  const { sort } = query('sort=-a,b,a&sort=b,c.d')
  assert.deepEqual(
    sort.map(({ path, descending }) => (descending ? '-' : '+') + path.join('.')),
    ['-a', '+b', '+c.d'],
  )
})

test('filters are limited in number, in all and of one field', () => {
  const filters = (count: number) => Array.from({ length: count }, (_, index) => `a${index}=1`).join('&')
  assert.equal(query(filters(32)).filters.length, 32)
  assert.throws(() => query(filters(33)), { code: 'Invalid', message: /33 filters; at most 32/ })
  assert.equal(query('a.b=1&a.b_ne=2&a.b_gt=0&a.b:lt=9&a=1').filters.length, 5)
  assert.throws(() => query('a.b=1&a.b_ne=2&a.b_gt=0&a.b:lt=9&a.b_eq=1'), {
    message: /5 filters of the field a\.b; at most 4/,
  })
  assert.equal(query(`id_in=${'a,'.repeat(500)}`).filters.length, 1)
})

test('texts to search for, begin or end with are limited in number and length, over all filters and q', () => {
  assert.deepEqual(query('q=a&q=b&t_contains=c&u:contains=d').others, [{ mentions: ['A', 'B'] }])
  assert.throws(() => query('q=a&q=b&t_contains=c&u:contains=d&u:contains=e'), {
    code: 'Invalid',
    message: /5 texts to search for .*at most 4/,
  })
  for (const name of ['q', 't_contains', 't_like']) {
    query(`${name}=${'x'.repeat(200)}`)
    assert.throws(() => query(`${name}=${'x'.repeat(201)}`), { message: /201 characters .*at most 200/ })
  }
  const ends = (count: number) =>
    Array.from({ length: count }, (_, index) => `t_${index % 2 ? 'startswith' : 'iendswith'}=${index}`).join('&')
  query(ends(10))
  query(`t_startswith=${'x'.repeat(1000)}`)
  assert.throws(() => query(ends(11)), { message: /11 texts to begin or end with; at most 10/ })
})

test('each family of paging parameters gives the same page', () => {
  for (const search of ['page=3&pageSize=20', 'page=3&per_page=20', 'skip=40&take=20', 'offset=40&limit=20']) {
    const { offset, size } = query(search).page
    assert.deepEqual({ offset, size }, { offset: 40, size: 20 }, search)
  }
})

test('missing paging parameters default to the first page and the default size', () => {
  for (const [search, offset, size] of [
    ['', 0, DEFAULT_PAGE_SIZE],
    ['page=2', DEFAULT_PAGE_SIZE, DEFAULT_PAGE_SIZE],
    ['pageSize=5', 0, 5],
    ['per_page=5', 0, 5],
    ['take=5', 0, 5],
    ['limit=5', 0, 5],
    ['skip=7', 7, DEFAULT_PAGE_SIZE],
    ['offset=0', 0, DEFAULT_PAGE_SIZE],
  ] as const) {
    const { page } = query(search)
    assert.deepEqual([page.offset, page.size], [offset, size], search)
  }
})

test('the default size never exceeds the maximum', () => {
  assert.equal(parseQuery([], { parameters: 1, pageSize: 100 }).page.size, 100)
})

test('links use the family of the request and keep all other parameters as they were sent', () => {
  assert.deepEqual(links('b=%C3%A9+x&page=2&pageSize=10&a=1', 35), {
    first: 'b=%C3%A9+x&pageSize=10&a=1&page=1',
    prev: 'b=%C3%A9+x&pageSize=10&a=1&page=1',
    next: 'b=%C3%A9+x&pageSize=10&a=1&page=3',
    last: 'b=%C3%A9+x&pageSize=10&a=1&page=4',
  })
  assert.deepEqual(links('skip=10&take=10&a=1&a=2', 35), {
    first: 'take=10&a=1&a=2&skip=0',
    prev: 'take=10&a=1&a=2&skip=0',
    next: 'take=10&a=1&a=2&skip=20',
    last: 'take=10&a=1&a=2&skip=30',
  })
})

test('links stay within the collection', () => {
  assert.deepEqual(links('', 0), { first: 'page=1', last: 'page=1' })
  assert.deepEqual(links('pageSize=10', 10), { first: 'pageSize=10&page=1', last: 'pageSize=10&page=1' })
  assert.deepEqual(links('pageSize=10&page=9', 15), {
    first: 'pageSize=10&page=1',
    prev: 'pageSize=10&page=2',
    last: 'pageSize=10&page=2',
  })
  assert.deepEqual(links(`limit=10&offset=${'9'.repeat(400)}`, 15), {
    first: 'limit=10&offset=0',
    prev: 'limit=10&offset=10',
    last: 'limit=10&offset=10',
  })
  assert.deepEqual(links('take=10&skip=3', 15), {
    first: 'take=10&skip=0',
    prev: 'take=3&skip=0',
    next: 'take=10&skip=13',
    last: 'take=10&skip=10',
  })
  assert.equal(links('skip=7&a=1', 15).prev, 'a=1&take=7&skip=0', 'the page before a first one of the usual size')
  assert.equal(links('skip=7&take=4', 15).prev, 'take=4&skip=3')
})

test('special characters in a link are escaped', () => {
  assert.equal(links('q=a>b"<\\^`{|}', 0).first, 'q=a%3Eb%22%3C%5C%5E%60%7B%7C%7D&page=1')
})

test('malformed percent-encoding in a name or value is rejected', () => {
  for (const search of ['a=%', 'a=%zz', 'a=%C3', '%E0%A4%A=1', 'a=%ED%A0%80', 'q=%ff']) isRefused(search)
})

test('empty parameters are ignored, and a name without a value has the empty value', () => {
  assert.deepEqual(query('&&').filters, [])
  assert.deepEqual(
    query('a').filters.map(({ operands }) => operands.map(({ text }) => text)),
    [['']],
  )
  assert.equal(query('fields=').fields, undefined)
  assert.deepEqual(query('sort=').sort, [])
})

test("json-server's operators after a colon are supported, and any other colon is part of the field name", () => {
  const read = (search: string) => query(search).filters.map(({ path, operator }) => [path.join('.'), operator])
  assert.deepEqual(
    read('views:gt=1&author.name:eq=x&title:contains=A&title:startsWith=A&title:endsWith=A&title_like=a'),
    [
      ['views', 'gt'],
      ['author.name', 'eq'],
      ['title', 'like'],
      ['title', 'istartswith'],
      ['title', 'iendswith'],
      ['title', 'like'],
    ],
  )
  assert.deepEqual(read('views:GT=1&views:=1&:gt=1&a:b=1&views:gt_eq=1'), [
    ['views:GT', 'eq'],
    ['views:', 'eq'],
    [':gt', 'eq'],
    ['a:b', 'eq'],
    ['views:gt', 'eq'],
  ])
})

test("json-server's sort is supported, of versions 0.17 and 1.0", () => {
  const read = (search: string) => query(search).sort.map(({ path, descending }) => [path.join('.'), descending])
  assert.deepEqual(read('_sort=-views,author.name,a_desc'), [
    ['views', true],
    ['author.name', false],
    ['a_desc', false],
  ])
  assert.deepEqual(read('_sort=views,title,id&_order=desc,ASC'), [
    ['views', true],
    ['title', false],
    ['id', false],
  ])
  for (const search of ['_order=desc', '_sort=a&_order=asc,desc', '_sort=a&_order=up', '_sort=-a&_order=desc']) {
    isRefused(search)
  }
})

test("json-server's page counts are supported, and links use its parameters", () => {
  const page = (search: string) => [query(search).page.offset, query(search).page.size]
  assert.deepEqual(page('_page=3'), [20, 10])
  assert.deepEqual(page('_page=3&_per_page=4'), [8, 4])
  assert.deepEqual(page('_page=3&_limit=4'), [8, 4])
  assert.deepEqual(page('_limit=4'), [0, 4])
  assert.deepEqual(page('_start=5&_limit=4'), [5, 4])
  assert.deepEqual(page('_start=5&_end=7'), [5, 2])
  assert.deepEqual(page('_end=7'), [0, 7])
  assert.deepEqual(page('_start=5'), [5, DEFAULT_PAGE_SIZE])
  for (const search of ['_start=5&_end=5', '_page=0', '_page=1&_start=2', '_page=1&page=1', '_limit=0', '_end=20000']) {
    isRefused(search)
  }
  assert.deepEqual(links('_start=3&_end=5&a=1', 6), {
    first: 'a=1&_start=0&_end=2',
    prev: 'a=1&_start=1&_end=3',
    next: 'a=1&_start=5&_end=7',
    last: 'a=1&_start=4&_end=6',
  })
  assert.equal(links('_start=1&_end=5', 6).prev, '_end=1&_start=0')
  assert.equal(links('_page=1', 30).next, '_page=2')
  assert.equal(links('_page=1&_limit=5', 30).last, '_limit=5&_page=6')
})

test('case is folded alike in the middle of a text and at its end', () => {
  for (const [one, other] of [
    ['ΟΔΟΣ', 'οδος'],
    ['straße', 'STRASSE'],
    ['K', 'k'],
    ['\u{10400}', '\u{10428}'],
  ] as const) {
    assert.ok(foldCase(`x${one}`).includes(foldCase(other)), one)
    assert.ok(foldCase(`x${one}x`).includes(foldCase(other)), one)
  }
})
