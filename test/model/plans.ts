/** Plans of a random client, which become requests when the model says what exists. */
import fc from 'fast-check'
import { type Json, type JsonRecord, LONG_AGO } from './model.ts'

export interface Plan {
  readonly verb: string
  readonly collection: string
  /** Which item: of those that there are, one of the difficult names, or where the last Location pointed. */
  readonly item: { readonly from: 'existing' | 'names' | 'location'; readonly pick: number }
  /** The path inside the item; 'there': one that exists. */
  readonly rest: readonly string[] | 'there'
  /** How the path is spelled. */
  readonly spelling: 'usual' | 'escaped' | 'bare' | 'malformed'
  readonly slash: boolean
  readonly ifMatch: Tagged
  readonly ifNoneMatch: Tagged
  readonly prefer: string | undefined
  readonly key: string | undefined
  /** Sends an earlier request with an Idempotency-Key again, this many back. */
  readonly again: number | undefined
  /** The body of a POST or PUT. */
  readonly whole: BodyPlan
  /** The body of a PATCH. */
  readonly patch: BodyPlan
  readonly type: string | undefined
  readonly chunked: boolean
  readonly coding: 'gzip' | 'deflate' | undefined
  /** The part of the journal that is looked at, or what is no such thing. */
  readonly asOf: number | string | undefined
  readonly query: readonly (readonly [name: string, value: string])[] | 'many' | 'malformed'
}

/** The entity tags in a conditional header. */
export type Tagged = 'nothing' | 'current' | 'stale' | 'star' | 'weak' | 'junk' | 'several'

export type BodyPlan =
  | { readonly type: 'item'; readonly item: JsonRecord; readonly id: IdPlan }
  | { readonly type: 'merge'; readonly patch: JsonRecord; readonly id: IdPlan }
  | { readonly type: 'operations'; readonly operations: readonly OperationPlan[] }
  | { readonly type: 'bytes'; readonly bytes: Buffer }

/** The body's id: none, the path's, that as the other type, or another. */
export type IdPlan =
  | { readonly type: 'none' | 'same' | 'retyped' }
  | { readonly type: 'other'; readonly id: Json; readonly first: boolean }

export interface OperationPlan {
  readonly operation: JsonRecord
  /** A test gets the value that is there as its own. */
  readonly true: boolean
}

export const NAMES = [
  ...['7', '007', '0', '1', '-1', '1.5', '-0', '1e3', 'a/b', 'a%2Fb', '%', '€', '..', '.', 'swagger', 'ünïcödé 😀'],
  ...['a b', 'a+b', 'a,b', 'a;b=c', 'Abc', 'abc', 'constructor', '__proto__', 'toString', 'CR\r\nLF', 'null', 'true'],
  ...[' ', '"q"', "it's", 'asOf', 'F4:A5:74:89:16:57', '#x?y', '\u0000', 'e\u0301', 'é', '~', '*', 'x'.repeat(300)],
  ...['4503599627370496', '4503599627370497', '9007199254740993', '99999999999999999999'],
]

export const COLLECTIONS = [
  ...['sensors', 'numbers', 'mixed', 'things', 'empty', 'ünï €', 'a b/c', 'swagger', '7', '__proto__', 'Things'],
]

/** Never written to when that would create it. */
export const NOWHERE = 'nowhere'

/** Here ids may be as high as they can be, after which a POST counts on from there. */
export const EDGE = 'edge'

const TIMES = [
  ...['2026-11-20T12:00:00', '2026-11-20T12:00:00Z', '2026-11-20T13:00:00+01:00', '2026-11-20T12:00:00.000001'],
  ...[
    '2026-11-20',
    '2026-11-20T12:00',
    '2024-02-29',
    '2023-02-29',
    '2026-11-20T12:00:00,5-0130',
    '2026-13-01',
    '20261120',
  ],
]
const WORDS = ['bob', 'Bob', 'alice', 'ALICE', '', 'ß', '～', '😀', 'a,b', '7', 'null', 'true', 'bo', 'İ', '\ud83d']

const word = fc.constantFrom(...WORDS)
const number = fc.oneof(
  { weight: 5, arbitrary: fc.integer({ min: -3, max: 9 }) },
  fc.constantFrom(0.5, -0, 1e15, 1e-300, 5e-324, 9007199254740992, 78, 1.0),
)
const scalar = fc.oneof(
  { weight: 4, arbitrary: number },
  { weight: 4, arbitrary: word },
  fc.constantFrom(...TIMES),
  fc.boolean(),
  fc.constant(null),
)
const jsonValue = fc.jsonValue({ maxDepth: 2 }).filter((value) => !JSON.stringify(value).includes('__proto__'))

const item: fc.Arbitrary<JsonRecord> = fc
  .record(
    {
      name: fc.oneof({ weight: 5, arbitrary: word }, scalar),
      n: fc.oneof({ weight: 5, arbitrary: number }, scalar),
      on: fc.boolean(),
      at: fc.constantFrom(...TIMES),
      tags: fc.array(scalar, { maxLength: 4 }),
      data: fc.record(
        { x: scalar, acceleration_x: number, deep: fc.record({ v: scalar, w: word }, { requiredKeys: [] }) },
        { requiredKeys: [] },
      ),
      list: fc.array(fc.record({ id: fc.constantFrom('a', 'b', 7, '7', 0), v: scalar }, { requiredKeys: [] }), {
        maxLength: 3,
      }),
      gt: scalar,
      page: scalar,
      q_in: scalar,
      'a/b': scalar,
      'm~n': scalar,
      constructor: scalar,
      '7': scalar,
      any: jsonValue,
    },
    { requiredKeys: [] },
  )
  .map((value) => ({ ...value }) as JsonRecord)

const id: fc.Arbitrary<IdPlan> = fc.oneof(
  { weight: 5, arbitrary: fc.constant({ type: 'none' } as const) },
  { weight: 3, arbitrary: fc.constant({ type: 'same' } as const) },
  { weight: 2, arbitrary: fc.constant({ type: 'retyped' } as const) },
  {
    weight: 2,
    arbitrary: fc.record({
      type: fc.constant('other' as const),
      id: fc.oneof(
        { weight: 4, arbitrary: fc.constantFrom<Json[]>(...NAMES.slice(0, -4)) },
        { weight: 4, arbitrary: fc.constantFrom<Json[]>(0, 1, 7, -1, 1.5, 30, -0) },
        fc.constantFrom<Json[]>(null, '', true, {}, [1], '\ud800', 2 ** 52, 2 ** 52 + 1, 1e300, -(2 ** 52) - 1),
      ),
      first: fc.boolean(),
    }),
  },
)

const POINTERS = [
  ...[
    '/name',
    '/n',
    '/tags',
    '/tags/0',
    '/tags/1',
    '/tags/-',
    '/tags/01',
    '/tags/9',
    '/data',
    '/data/x',
    '/data/deep/v',
  ],
  ...['/list/0', '/list/0/v', '/new', '/new/deeper', '/a~1b', '/m~0n', 'name', 'data/x', '', '/', '/id', '/7', '/any'],
  ...[
    '/constructor',
    '/constructor/x',
    '/__proto__/y',
    '/name/length',
    '/hasOwnProperty/call',
    '/nope/deep',
    '/~2',
    '/~',
  ],
]
const pointer = fc.constantFrom(...POINTERS)
const good = fc.constantFrom(...POINTERS.slice(0, 20))

const operation: fc.Arbitrary<OperationPlan> = fc.oneof(
  {
    weight: 30,
    arbitrary: fc.record({
      operation: fc.record({
        op: fc.constantFrom('add', 'add', 'replace', 'test', 'remove'),
        path: fc.oneof({ weight: 3, arbitrary: good }, pointer),
        value: fc.oneof({ weight: 3, arbitrary: scalar }, jsonValue) as fc.Arbitrary<Json>,
      }),
      true: fc.boolean(),
    }),
  },
  {
    weight: 10,
    arbitrary: fc.record({
      operation: fc.record({ op: fc.constantFrom('move', 'copy'), path: good, from: good }),
      true: fc.constant(true),
    }),
  },
  fc
    .constantFrom<Json[]>(
      { op: 'add', path: '/a' },
      { op: 'spam', path: '/a' },
      { path: '/a' },
      { op: 'remove' },
      { op: 'move', path: '/a' },
      { op: 'add', path: 7, value: 1 },
      { op: 'replace', path: '', value: 7 },
    )
    .map((one) => ({ operation: one as JsonRecord, true: false })),
)

const nested = (depth: number) => `{"a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`

const bytes = fc
  .constantFrom(
    ...[
      '',
      ' ',
      'null',
      '[]',
      '{}',
      '5',
      '"x"',
      'true',
      '{',
      '{"a":1,}',
      '{"a":1}{"b":2}',
      '{"a":NaN}',
      '{"a":01}',
      "{'a':1}",
    ],
    ...[
      '{"a":1e999}',
      '{"a":-1e999}',
      '{"a":9007199254740993}',
      '{"a":-9007199254740993}',
      '{"a":9007199254740993.0}',
      '{"a":9007199254740992}',
    ],
    ...[
      '{"a":1e16}',
      '{"a":1e300}',
      '{"a":1e-400}',
      '{"a":100000000000000000000000}',
      '{"a":1e23}',
      '{"a":[{"b":12345678901234567890}]}',
    ],
    ...['{"a":"9007199254740993"}', '{"__proto__":{}}', '{"a":{"__proto__":1}}', '{"\\u005f_proto__":1}'],
    ...[
      nested(100),
      nested(101),
      nested(5000),
      '{"a":"\\ud800"}',
      '{"\\ud800":1}',
      '{"a":1,"a":2}',
      '\t{ "a" : [ ] }\r\n',
    ],
    ...['[{"op":"add","path":"/a","value":1e999}]', '[5]', '[null]', `{"big":"${'x'.repeat(40_000)}"}`],
    ...[`{"big":"${'x'.repeat(65_600)}"}`, '{"a":0.1,"b":1.50,"c":-0,"d":1E2}'],
  )
  .map((text) => Buffer.from(text))
const notUtf8 = fc.constantFrom(
  Buffer.from([0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0xff, 0x22, 0x7d]),
  Buffer.from([0x7b, 0x22, 0x61, 0x22, 0x3a, 0x22, 0xed, 0xa0, 0x80, 0x22, 0x7d]),
)

const wholeItem: fc.Arbitrary<BodyPlan> = fc.record({ type: fc.constant('item' as const), item, id })
const merge: fc.Arbitrary<BodyPlan> = fc.record({
  type: fc.constant('merge' as const),
  patch: fc.oneof(
    item,
    fc.dictionary(fc.constantFrom('name', 'n', 'data', 'tags', 'new'), jsonValue as fc.Arbitrary<Json>),
  ),
  id: fc.oneof({ weight: 6, arbitrary: fc.constant({ type: 'none' } as const) }, id),
})
const operations: fc.Arbitrary<BodyPlan> = fc.record({
  type: fc.constant('operations' as const),
  operations: fc.array(operation, { minLength: 0, maxLength: 4 }),
})
const odd: fc.Arbitrary<BodyPlan> = fc
  .oneof({ weight: 20, arbitrary: bytes }, notUtf8)
  .map((one) => ({ type: 'bytes' as const, bytes: one }))

const ofItem = fc.oneof({ weight: 14, arbitrary: wholeItem }, { weight: 2, arbitrary: odd }, operations)
const ofPatch = fc.oneof(
  { weight: 6, arbitrary: merge },
  { weight: 7, arbitrary: operations },
  { weight: 2, arbitrary: odd },
)

/** Undefined: the one that fits the body. */
const type = fc.oneof(
  { weight: 20, arbitrary: fc.constant(undefined) },
  fc.constantFrom(
    ...[
      'application/json',
      'application/json; charset=utf-8',
      'application/json;charset="UTF-8"',
      'Application/JSON',
      '',
    ],
    ...[
      'text/plain',
      'application/json; charset=iso-8859-1',
      'application/xml',
      'application/jsonp',
      'application/vnd.api+json',
    ],
    ...['application/merge-patch+json', 'application/json+merge-patch', 'application/json-patch+json'],
  ),
)

const tagged = fc.oneof(
  { weight: 12, arbitrary: fc.constant<Tagged>('nothing') },
  { weight: 4, arbitrary: fc.constantFrom<Tagged[]>('current', 'several') },
  { weight: 2, arbitrary: fc.constantFrom<Tagged[]>('stale', 'star', 'weak', 'junk') },
)

const field = fc.constantFrom(
  ...[
    'name',
    'n',
    'on',
    'at',
    'tags',
    'data',
    'data.x',
    'data.acceleration_x',
    'data.deep.v',
    'list.v',
    'list.id',
    'id',
  ],
  ...['gt', 'nothing', 'any', 'constructor', 'toString', 'length', '7', 'page', 'list', 'data.deep'],
)
const wanted = fc
  .oneof(
    { weight: 4, arbitrary: scalar.map((value) => (typeof value === 'string' ? value : String(value))) },
    fc.constantFrom(...['[]', '{}', '[1]', '{"v":1}', '01', ' 1', '1.0', '1e0', 'a', 'B', '0,1,2', 'bob,alice,null']),
    fc.constantFrom(...TIMES),
  )
  .map((text) => text.replace(/\p{Surrogate}/gu, ''))
const OPERATORS = ['eq', 'ne', 'gt', 'gte', 'lt', 'lte', 'in', 'contains', 'startswith', 'endswith']
const count = fc.oneof(
  { weight: 10, arbitrary: fc.integer({ min: 1, max: 12 }).map(String) },
  fc.constantFrom('0', '-1', '1.5', '', 'x', '41', '007', '+1', '99999999999999999999'),
)
const order = fc
  .tuple(field, fc.constantFrom('_asc', '_desc', '', '-', '+'))
  .map(([name, how]) => (how.startsWith('_') ? name + how : how + name))

type Parameter = readonly [name: string, value: string]
const parameter: fc.Arbitrary<readonly Parameter[]> = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(field, wanted).map((one) => [one]) },
  {
    weight: 8,
    arbitrary: fc
      .tuple(field, fc.constantFrom(...OPERATORS), wanted)
      .map(([name, operator, value]) => [[`${name}_${operator}`, value] as const]),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(field, fc.constantFrom(...OPERATORS), wanted, wanted)
      .map(([name, operator, a, b]) => [[`${name}_${operator}`, a] as const, [`${name}_${operator}`, b] as const]),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(field, fc.constantFrom('true', 'false', 'true', 'false', 'maybe'))
      .map(([name, value]) => [[`${name}_exists`, value] as const]),
  },
  { weight: 2, arbitrary: fc.constantFrom('bo', 'AL', '7', 'null', 'ß', '').map((text) => [['q', text] as const]) },
  {
    weight: 5,
    arbitrary: fc.array(order, { minLength: 1, maxLength: 3 }).map((list) => [['sort', list.join(',')] as const]),
  },
  {
    weight: 3,
    arbitrary: fc.array(field, { minLength: 1, maxLength: 4 }).map((list) => [['fields', list.join(',')] as const]),
  },
  {
    weight: 6,
    arbitrary: fc
      .tuple(fc.constantFrom('page pageSize', 'page per_page', 'skip take', 'offset limit'), count, count)
      .map(([names, a, b]) => [[names.split(' ')[0] ?? '', a] as const, [names.split(' ')[1] ?? '', b] as const]),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(fc.constantFrom('page', 'pageSize', 'per_page', 'skip', 'take', 'offset', 'limit'), count)
      .map((one) => [one]),
  },
  fc
    .constantFrom<Parameter[]>(
      ['asOf', 'yesterday'],
      ['_gt', '1'],
      ['n_gt_eq', '1'],
      ['name_unknown', 'bob'],
      ['gt_eq', '1'],
      ['page_gte', '0'],
      ['q_in', '7'],
      ['q_in_eq', '7'],
    )
    .map((one) => [one]),
)
const query = fc.oneof(
  { weight: 40, arbitrary: fc.array(parameter, { maxLength: 3 }).map((list) => list.flat()) },
  fc.constantFrom('many' as const, 'malformed' as const),
)

const verb = fc.oneof(
  { weight: 12, arbitrary: fc.constantFrom('GET item', 'PUT item', 'PATCH item', 'PATCH item') },
  { weight: 8, arbitrary: fc.constant('GET collection') },
  { weight: 7, arbitrary: fc.constant('POST collection') },
  { weight: 3, arbitrary: fc.constant('DELETE item') },
  { weight: 5, arbitrary: fc.constantFrom('GET inside', 'GET inside', 'HEAD item', 'HEAD collection') },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      ...[
        'GET names',
        'HEAD names',
        'HEAD inside',
        'OPTIONS names',
        'OPTIONS collection',
        'OPTIONS item',
        'OPTIONS inside',
      ],
      ...['PUT collection', 'DELETE collection', 'PATCH collection', 'POST item', 'DELETE inside'],
      ...['TRACE item', 'PROPFIND collection', 'DELETE names', 'GET event'],
    ),
  },
)

export const plan: fc.Arbitrary<Plan> = fc.record({
  verb,
  collection: fc.oneof({ weight: 30, arbitrary: fc.constantFrom(...COLLECTIONS) }, fc.constantFrom(NOWHERE, EDGE)),
  item: fc.record({
    from: fc.oneof(
      { weight: 8, arbitrary: fc.constant('existing' as const) },
      { weight: 4, arbitrary: fc.constant('names' as const) },
      fc.constant('location' as const),
    ),
    pick: fc.nat(10_000),
  }),
  rest: fc.oneof(
    { weight: 2, arbitrary: fc.constant('there' as const) },
    fc.constantFrom(
      ...[['data'], ['data', 'x'], ['tags', '0'], ['tags'], ['list', '0'], ['list', 'a'], ['list', '7', 'v'], ['name']],
      ...[
        ['nothing'],
        ['toString'],
        ['constructor'],
        ['__proto__'],
        ['tags', 'length'],
        ['tags', '01'],
        ['a/b'],
        ['data', 'deep', 'v'],
      ],
    ),
  ),
  spelling: fc.oneof(
    { weight: 40, arbitrary: fc.constant('usual' as const) },
    { weight: 10, arbitrary: fc.constantFrom('escaped' as const, 'bare' as const) },
    fc.constant('malformed' as const),
  ),
  slash: fc.oneof({ weight: 30, arbitrary: fc.constant(false) }, fc.constant(true)),
  ifMatch: tagged,
  ifNoneMatch: tagged,
  prefer: fc.oneof(
    { weight: 4, arbitrary: fc.constant(undefined) },
    fc.constantFrom('return=representation', 'return=minimal'),
  ),
  key: fc.oneof(
    { weight: 14, arbitrary: fc.constant(undefined) },
    { weight: 3, arbitrary: fc.nat(400).map((n) => `key ${n}`) },
    { weight: 1, arbitrary: fc.constantFrom('', 'ké', 'k'.repeat(255), 'k'.repeat(256)) },
  ),
  again: fc.oneof({ weight: 24, arbitrary: fc.constant(undefined) }, fc.nat(30)),
  whole: ofItem,
  patch: ofPatch,
  type,
  chunked: fc.oneof({ weight: 9, arbitrary: fc.constant(false) }, fc.constant(true)),
  coding: fc.oneof(
    { weight: 20, arbitrary: fc.constant(undefined) },
    fc.constantFrom('gzip' as const, 'deflate' as const),
  ),
  asOf: fc.oneof(
    { weight: 24, arbitrary: fc.constant(undefined) },
    { weight: 6, arbitrary: fc.double({ min: 0, max: 1, noNaN: true }) },
    fc.constantFrom(LONG_AGO, '2999-01-01', '-1', '1.5', '', '99999', '0', '1'),
  ),
  query,
})

/** Events between two runs of the server. */
export interface Pause {
  readonly signal: 'SIGTERM' | 'SIGKILL'
  readonly fileIsDeleted: boolean
  readonly edit: 'nothing' | 'order' | 'remove' | 'replace' | 'create' | 'delete'
  readonly pick: number
  readonly flags: {
    readonly upsertOnPut: boolean
    readonly clientIdsOnPost: boolean
    readonly pageSize: number
    readonly segmentBytes: number
    readonly compress: 0 | 'off'
  }
}

export const pause: fc.Arbitrary<Pause> = fc.record({
  signal: fc.constantFrom('SIGTERM' as const, 'SIGKILL' as const),
  fileIsDeleted: fc.oneof({ weight: 2, arbitrary: fc.constant(false) }, fc.constant(true)),
  edit: fc.constantFrom('nothing', 'nothing', 'order', 'remove', 'replace', 'create', 'delete'),
  pick: fc.nat(10_000),
  flags: fc.record({
    upsertOnPut: fc.boolean(),
    clientIdsOnPost: fc.boolean(),
    pageSize: fc.constantFrom(40, 10_000),
    segmentBytes: fc.constantFrom(65_536, 67_108_864),
    compress: fc.constantFrom(0 as const, 'off' as const),
  }),
})
