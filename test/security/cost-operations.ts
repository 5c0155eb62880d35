import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { io } from 'socket.io-client'
import { PATCH_TYPES } from '../../src/http/media-types.ts'
import { DEFAULT_ITEM_VALUES, sizeOf } from '../../src/json/parse.ts'
import { eventOf } from '../support/deadline.ts'
import type { Random } from '../support/random.ts'
import { type Reply, type Sent, send } from '../support/requests.ts'
import type { CostServer } from './cost-coverage.ts'

/** An item whose field `a` has a costly value: the first one of a collection of its own. */
interface Subject {
  readonly server: CostServer
  readonly collection: string
  /** JSON of the field. */
  readonly value: string
  readonly random: Random
}

/** Asks something of the server that has to do with the item. */
type Operation = (subject: Subject) => Promise<unknown>

const PATCH = 'application/merge-patch+json'
const JSON_PATCH = 'application/json-patch+json'
const OPERATIONS_OF_A_PATCH = 1000

export const OPERATIONS: Readonly<Record<string, Operation>> = {
  POST: (subject) => write(subject, 'POST', '', item(subject)),
  PUT: (subject) => write(subject, 'PUT', '/0', item(subject)),
  'PUT of another value': (subject) => write(subject, 'PUT', '/0', `{"a":[${subject.random.next()}],"b":0}`),
  'POST, answered with the item': (subject) =>
    write(subject, 'POST', '', item(subject), { Prefer: 'return=representation' }),
  'POST, malformed at the end': (subject) => write(subject, 'POST', '', `{"a":${subject.value},}`),
  'merge patch of another field': (subject) =>
    write(subject, 'PATCH', '/0', `{"b":${subject.random.next()}}`, {}, PATCH),
  'merge patch of the field': (subject) => write(subject, 'PATCH', '/0', `{"a":${subject.value}}`, {}, PATCH),
  'deep merge patch': (subject) =>
    write(subject, 'PATCH', '/0', `${'{"d":'.repeat(97)}{"b":0}${'}'.repeat(97)}`, {}, PATCH),
  'additions at the front': patches((index) => ({ op: 'add', path: '/l/0', value: index }), '{"l":[]}'),
  'additions within the field': patches(() => ({ op: 'add', path: '/a/0', value: 1 })),
  'moves of the field': patches((index) => ({
    op: 'move',
    from: index % 2 ? '/z' : '/a',
    path: index % 2 ? '/a' : '/z',
  })),
  'copies of an element': patches((index) => ({ op: 'copy', from: '/a/0', path: `/c${index}` })),
  'replacements beside the field': patches((index) => ({ op: 'replace', path: '/b', value: index })),
  'tests beside the field': patches(() => ({ op: 'test', path: '/id', value: 0 })),
  'a test of the field': (subject) =>
    write(subject, 'PATCH', '/0', `[{"op":"test","path":"/a","value":${subject.value}}]`, {}, JSON_PATCH),
  'a copy of the field': (subject) =>
    write(subject, 'PATCH', '/0', '[{"op":"copy","from":"/a","path":"/z"}]', {}, JSON_PATCH),

  ...ofEachPatchType((type) => (subject) => write(subject, 'PATCH', '/0', patchOf(type, subject), {}, type)),
  'conditions of a PUT': async (subject) =>
    write(subject, 'PUT', '/0', item(subject), {
      'If-Unchanged-Since': String(await headOf(subject)),
      ...{ 'If-Match': '*', Prefer: 'return=representation', 'X-Request-Id': 'a'.repeat(128) },
      ...{ 'Idempotency-Key': String(subject.random.next()), 'Wait-For-Position': '0' },
    }),

  'PUT of the field inside': (subject) => write(subject, 'PUT', '/0/a', subject.value),
  'PUT of an element inside': (subject) => write(subject, 'PUT', '/0/a/777777', '0'),
  ...ofEachPatchType(
    (type) => (subject) => write(subject, 'PATCH', '/0/a', patchOf(type, subject), {}, type),
    ' inside',
  ),
  'PUT of an object': (subject) => onObject(subject, 'PUT', item(subject)),
  ...ofEachPatchType((type) => (subject) => onObject(subject, 'PATCH', patchOf(type, subject), type), ' of an object'),
  'GET of an object': (subject) => asked(subject, 'GET', OBJECT),
  'DELETE of an object': async (subject) => {
    await onObject(subject, 'PUT', item(subject))
    await asked(subject, 'DELETE', OBJECT)
  },

  'GET of the item': read('/0'),
  'GET of the item, asOf': asOf('', '/0'),
  'GET of the field, asOf': asOf('', '/0/a'),
  'GET of an object, asOf': async (subject) => {
    await onObject(subject, 'PUT', item(subject))
    await asked(subject, 'GET', `${OBJECT}?asOf=${await headOf(subject)}`)
  },
  'GET of the field': read('/0/a'),
  'GET of an element': read('/0/a/777777'),
  'GET of the page': read(''),
  ...Object.fromEntries(
    Object.entries(queries()).flatMap(([name, search]) => [
      [name, read(`?${search}`)],
      [`${name}, asOf`, asOf(search)],
    ]),
  ),

  events: events('application/json', ''),
  'events, newest first': events('application/json', '&order=desc'),
  'events with changes': events('application/json', '&changes=true'),
  'events of nobody': events('application/json', '&actor=nobody'),
  'events of no request': events('application/json', '&requestId=none'),
  'events, line by line': events('application/x-ndjson', ''),
  'events, streamed': events('text/event-stream', '&follow=false'),
  'restore, tried': (subject) => restore(subject, { dryRun: true }),
  restore: (subject) => restore(subject, {}),
  'restore of the item': (subject) => restore(subject, { id: '0' }),
  'openapi.json': (subject) => asked(subject, 'GET', '/openapi.json'),
  'reload of an edited file': reload((text, random) => text.replace(/"b": ?[\d.]+/, `"b": ${random.next()}`)),
  'reload of a file malformed at the end': reload((text) => `${text.trimEnd().slice(0, -1)},}`, true),
  subscription: (subject) => subscribed(subject, {}, async () => {}),
  'subscription with filters': (subject) => subscribed(subject, { query: FILTERS }, async () => {}),
  'PUT to subscribers': (subject) => subscribed(subject, {}, () => write(subject, 'PUT', '/0', item(subject))),
  'PUT to subscribers with filters': (subject) =>
    subscribed(subject, { query: FILTERS, times: 5 }, () => write(subject, 'PUT', '/0', item(subject))),
  DELETE: (subject) => write(subject, 'DELETE', '/0'),
}

/** The filters of a subscription; hardly any item matches. */
const FILTERS = 'a_gt=5&a.a_exists=true&q=zz'

function queries(): Readonly<Record<string, string>> {
  const long = (piece: (index: number) => string, between = ','): string => {
    let text = piece(0)
    for (let index = 1; text.length < 7500; index++) text += between + piece(index)
    return text
  }
  return {
    filter: 'a=5',
    'filter _ne': 'a_ne=5',
    'filter _gt': 'a_gt=5',
    'filter _lte': 'a_lte=x',
    'filter _in': `a_in=${long((index) => `x${index}`)}`,
    'filter _contains': 'a_contains=aab',
    'filter _contains, slow': ['aaab', 'aaac', 'aaad', 'aaae'].map((text) => `a_contains=${text}`).join('&'),
    'filter _startswith': 'a_startswith=zz',
    'filter _endswith': 'a_endswith=zz',
    'filter _exists': 'a_exists=false',
    'filter of a path': `${'a.'.repeat(97)}a=1`,
    'filter of a member': 'a.a_gt=1',
    'filter of an absent field': 'z_ne=1',
    'filters of many fields': Array.from({ length: 32 }, (_, index) => `a.m${index}_exists=false`).join('&'),
    'filters, many of one field': long((index) => `a_ne=${index}`, '&'),
    sort: 'sort=a',
    'sort downwards': 'sort=-a,b',
    'sort by many fields': `sort=${Array.from({ length: 8 }, (_, index) => `a.m${index}`).join(',')}`,
    q: 'q=zz',
    'q, many': 'q=z0&q=z1&q=z2&q=z3',
    'q, slow': ['aaab', 'aaac', 'aaad', 'aaae'].map((text) => `q=${text}`).join('&'),
    fields: 'fields=a',
    'fields, many': `fields=${long((index) => `a.m${index}`)}`,
    'fields of a path': `fields=${'a.'.repeat(97)}a`,
  }
}

function item({ value, random }: Subject): string {
  return `{"a":${value},"b":${random.next()}}`
}

/** Creates the item in a collection of its own. */
export async function subjectOf(
  server: CostServer,
  collection: string,
  value: string,
  random: Random,
): Promise<Subject | undefined> {
  const subject = { server, collection, value, random }
  const { status } = await write(subject, 'POST', '', item(subject))
  return status === 201 ? subject : undefined
}

type OfServer = Pick<Subject, 'server'>

/** Sends a request. Fails when the response is that of a mistake of the server. */
export async function asked({ server }: OfServer, method: string, path: string, sent: Sent = {}): Promise<Reply> {
  const reply = await send(server.url, method, path, sent)
  server.coverage.noteRequest(method, path, sent.headers ?? {}, reply.status)
  if (reply.status >= 500 && reply.status !== 503)
    throw new Error(`${method} ${path.slice(0, 200)}: ${reply.status} ${reply.text.slice(0, 500)}`)
  return reply
}

function write(
  subject: Subject,
  method: string,
  path: string,
  body?: string,
  headers: Readonly<Record<string, string>> = {},
  type = 'application/json',
): Promise<Reply> {
  const sent = body === undefined ? {} : { body, headers: { 'Content-Type': type, ...headers } }
  return asked(subject, method, `/api/${subject.collection}${path}`, sent)
}

function patches(operation: (index: number) => object, before?: string): Operation {
  return async (subject) => {
    if (before !== undefined) await write(subject, 'PATCH', '/0', before, {}, PATCH)
    const all = Array.from({ length: OPERATIONS_OF_A_PATCH }, (_, index) => operation(index))
    await write(subject, 'PATCH', '/0', JSON.stringify(all), {}, JSON_PATCH)
  }
}

function read(path: string): Operation {
  return (subject) => asked(subject, 'GET', `/api/${subject.collection}${path}`)
}

/** As it was before a change. */
function asOf(search: string, path = ''): Operation {
  return async (subject) => {
    const position = await headOf(subject)
    await write(subject, 'PATCH', '/0', `{"b":${subject.random.next()}}`, {}, PATCH)
    await asked(subject, 'GET', `/api/${subject.collection}${path}?${search}&asOf=${position}`)
  }
}

function ofEachPatchType(make: (type: string) => Operation, of = ''): Readonly<Record<string, Operation>> {
  return Object.fromEntries(PATCH_TYPES.map((type) => [`PATCH${of} as ${type}`, make(type)]))
}

/** The value in place of the field, or in place of what the address names. */
function patchOf(type: string, { value }: Subject): string {
  return type === JSON_PATCH ? `[{"op":"replace","path":"","value":{"a":${value}}}]` : `{"a":${value}}`
}

/** A single object, which all operations share. */
const OBJECT = '/api/profile'

function onObject(subject: Subject, method: string, body: string, type = 'application/json'): Promise<Reply> {
  return asked(subject, method, OBJECT, { headers: { 'Content-Type': type }, body })
}

/** The position of the last event. */
export async function headOf(subject: OfServer): Promise<number> {
  return (await asked(subject, 'GET', '/health')).json<{ position: number }>().position
}

function events(accept: string, search: string): Operation {
  return (subject) =>
    asked(subject, 'GET', `/events?collection=${subject.collection}${search}`, { headers: { Accept: accept } })
}

async function restore(subject: Subject, more: object): Promise<void> {
  const to = await headOf(subject)
  await write(subject, 'PATCH', '/0', `{"b":${subject.random.next()}}`, {}, PATCH)
  const body = JSON.stringify({ to, collection: subject.collection, ...more })
  await asked(subject, 'POST', '/admin/restore', { body, headers: { 'Content-Type': 'application/json' } })
}

function reload(change: (text: string, random: Random) => string, isMalformed = false): Operation {
  return async (subject) => {
    const { file, text } = await edited(subject, (before) => change(before, subject.random))
    if (!isMalformed) return
    await writeFile(file, text)
    await asked(subject, 'POST', '/admin/reload')
  }
}

/** Edits the data file, which is written before, and has it imported. Returns the text before. */
export async function edited(
  subject: OfServer,
  change: (text: string) => string,
): Promise<{ readonly file: string; readonly text: string }> {
  const file = join(subject.server.directory, 'db.json')
  await asked(subject, 'POST', '/admin/snapshot')
  const text = await readFile(file, 'utf8')
  await writeFile(file, change(text))
  await asked(subject, 'POST', '/admin/reload')
  return { file, text }
}

async function subscribed(
  { server, collection }: Subject,
  { query, times = 1 }: { readonly query?: string; readonly times?: number },
  work: () => Promise<unknown>,
): Promise<void> {
  const socket = io(server.url, { transports: ['websocket'], reconnection: false, forceNew: true })
  const asked = async (): Promise<void> => {
    for (let time = 0; time < times; time++) {
      const wanted = { collection, ...(query !== undefined && { query: `${query}&q=zz${time}` }) }
      await socket.timeout(60_000).emitWithAck('subscribe', wanted)
    }
    await work()
    // The notifications have been sent by then.
    await socket.timeout(60_000).emitWithAck('unsubscribe', { subscription: 'none' })
  }
  try {
    await Promise.race([asked(), eventOf(socket, 'disconnect')])
  } finally {
    socket.close()
  }
}

/** Makes the JSON text of a value of about so many bytes. */
type Shape = (bytes: number, random: Random) => string

/** Within `Limits.BodyBytes`, with what stands around the field. */
export const ITEM_BYTES = 2 ** 20 - 64
/** Within `Limits.ItemValues`, with the other fields. */
const ITEM_VALUES = DEFAULT_ITEM_VALUES - 100

/** An item nests a value once more, and no body may nest deeper than 100. */
const DEPTH = 97

/** The values that clients may put into a field, and that are expensive to search. */
export const OF_ANY_VALUES: Readonly<Record<string, Shape>> = {
  text: (bytes) => JSON.stringify('a'.repeat(bytes - 2)),
  zeros: (bytes) => list(bytes, () => '0'),
  'empty texts': (bytes) => list(bytes, () => '""'),
  'empty lists': (bytes) => list(bytes, () => '[]'),
  'empty objects': (bytes) => list(bytes, () => '{}'),
  numbers: (bytes, random) => list(bytes, () => String(random.next())),
  integers: (bytes, random) => list(bytes, () => String(random.integer(2 ** 31))),
  texts: (bytes, random) => list(bytes, () => JSON.stringify(random.integer(2 ** 31).toString(36))),
  instants: (bytes, random) =>
    list(bytes, () => JSON.stringify(new Date(random.integer(2 ** 31) * 1000).toISOString())),
  'nested then wide': (bytes) => `${'['.repeat(DEPTH)}${list(bytes - 2 * DEPTH, () => '0')}${']'.repeat(DEPTH)}`,
  'nested objects then wide': (bytes) => {
    const each = '{"a":'
    const inner = list(bytes - DEPTH * (each.length + 1), () => '0')
    return each.repeat(DEPTH) + inner + '}'.repeat(DEPTH)
  },
  'many nested lists': (bytes) => list(bytes, () => `${'['.repeat(90)}${']'.repeat(90)}`),
  comb: (bytes) => {
    // Each level holds a number of elements beside the next level.
    const each = list(Math.floor(bytes / DEPTH) - 2, () => '0').slice(0, -1)
    return `${`${each},`.repeat(DEPTH - 1)}[]${']'.repeat(DEPTH - 1)}`
  },
  'wide object': (bytes) => object(bytes, (index) => `"m${index}":0`),
  'wide object of integer names': (bytes, random) => object(bytes, (index) => `"${index * 4 + random.integer(4)}":0`),
  'wide object of objects': (bytes) => object(bytes, (index) => `"m${index}":{"a":0}`),
  'small objects of distinct names': (bytes) => list(bytes, (index) => `{"m${index}":0}`),
  'small objects of one name': (bytes) => list(bytes, (index) => `{"a":${index}}`),
  'objects with ids': (bytes) => list(bytes, (index) => `{"id":${index}}`),
  escapes: (bytes) => `"${'\\u0000'.repeat(Math.floor(bytes / 6))}"`,
  quotes: (bytes) => `"${'\\"'.repeat(Math.floor(bytes / 2))}"`,
  'lone surrogates': (bytes) => `"${'\\ud800'.repeat(Math.floor(bytes / 6))}"`,
  'astral text': (bytes) => `"${'\u{1f600}'.repeat(Math.floor(bytes / 4))}"`,
  'folded text': (bytes) => `"${'\u0130ß'.repeat(Math.floor(bytes / 4))}"`,
  digits: (bytes) => JSON.stringify('9'.repeat(bytes - 2)),
  'spaces in text': (bytes) => JSON.stringify(' '.repeat(bytes - 2)),
  'long name': (bytes) => `{${JSON.stringify('k'.repeat(bytes - 8))}:0}`,
  'long names': (bytes) => object(bytes, (index) => `"${'k'.repeat(2000)}${index}":0`),
  'one name again and again': (bytes) => object(bytes, () => '"a":0'),
  'rounded exponents': (bytes) => list(bytes, () => '1e300'),
  'long fractions': (bytes) => list(bytes, () => `0.${'1'.repeat(500)}`),
  'one long number': (bytes) => `0.${'1'.repeat(bytes - 2)}`,
}

/** The same, with as large a part of the values that an item may have as of the bytes. */
export const SHAPES: Readonly<Record<string, Shape>> = Object.fromEntries(
  Object.entries(OF_ANY_VALUES).map(([name, make]): [string, Shape] => [
    name,
    (bytes, random) => {
      const text = make(bytes, random)
      const part = (ITEM_VALUES * bytes) / ITEM_BYTES / sizeOf(text).values
      return part >= 1 ? text : make(Math.floor(bytes * part), random)
    },
  ]),
)

function list(bytes: number, element: (index: number) => string): string {
  return `[${pieces(bytes, element).join(',')}]`
}

function object(bytes: number, member: (index: number) => string): string {
  return `{${pieces(bytes, member).join(',')}}`
}

function pieces(bytes: number, piece: (index: number) => string): string[] {
  const made: string[] = []
  for (let left = bytes - 2; ; ) {
    const text = piece(made.length)
    left -= text.length + 1
    if (left < 0) return made
    made.push(text)
  }
}
