import { createHmac, randomUUID } from 'node:crypto'
import { gzipSync } from 'node:zlib'

/** A request of about so many bytes, of which a part grows until it meets a limit. */
export interface CostlyRequest {
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string | string[]>>
  readonly body?: string | Uint8Array
  /** The whole request, in place of all that. */
  readonly bytes?: string
}

interface Family {
  /** Bytes that the limits admit. */
  readonly most: number
  readonly request: (bytes: number) => CostlyRequest
}

/** The API key of an admin, where authentication is on. */
export const KEY = 'admin-key-123456'

/** The secret of tokens, where authentication is on. */
export const TOKEN_SECRET = 'a secret of more than 32 bytes for tokens'

const HEADERS = 31_000

/** As many pieces as there is room for. */
export function fill(bytes: number, piece: (index: number) => string, between = ''): string {
  const pieces: string[] = []
  for (let left = bytes; left > 0; ) {
    const text = piece(pieces.length)
    left -= text.length + between.length
    if (left >= 0) pieces.push(text)
  }
  return pieces.join(between)
}

export const POST: CostlyRequest = {
  method: 'POST',
  path: '/api/things',
  headers: { 'Content-Type': 'application/json' },
  body: '{}',
}

const EVENTS: CostlyRequest = { method: 'GET', path: '/events' }
const PUT: CostlyRequest = { ...POST, method: 'PUT', path: '/api/things/0' }
const PREFLIGHT: CostlyRequest = {
  method: 'OPTIONS',
  path: '/api/things',
  headers: { Origin: 'https://page.example', 'Access-Control-Request-Method': 'PUT' },
}

/** Requests with a header that is long in one way. */
export const HEADER_REQUESTS: Readonly<Record<string, Family>> = {
  'If-None-Match of many tags': header('If-None-Match', (bytes) => fill(bytes, (index) => `"${index}"`, ',')),
  'If-None-Match of weak tags': header('If-None-Match', (bytes) => fill(bytes, () => 'W/"a"', ',')),
  'If-None-Match of quotes': header('If-None-Match', (bytes) => '"'.repeat(bytes)),
  'If-None-Match of openings': header('If-None-Match', (bytes) => 'W/'.repeat(bytes / 2)),
  'If-Match of many tags': header('If-Match', (bytes) => fill(bytes, (index) => `"${index}"`, ','), PUT),
  'If-Match of openings': header('If-Match', (bytes) => `${'W/'.repeat(bytes / 2)}"`, PUT),
  'a long If-Unchanged-Since': header('If-Unchanged-Since', (bytes) => `${'1'.repeat(bytes)}x`, PUT),
  'Accept of many types': header(
    'Accept',
    (bytes) => fill(bytes, (index) => `a/b${index};q=0.${index % 10}`, ','),
    EVENTS,
  ),
  'Accept of commas': header('Accept', (bytes) => ','.repeat(bytes), EVENTS),
  'Accept of semicolons': header('Accept', (bytes) => `a/b${';'.repeat(bytes)}`, EVENTS),
  'Accept of parameters': header('Accept', (bytes) => `a/b${';a=b'.repeat(bytes / 4)}`, EVENTS),
  'Accept of quotes': header('Accept', (bytes) => `a/b;c="${'\\"'.repeat(bytes / 2)}`, EVENTS),
  'Accept of spaces': header('Accept', (bytes) => `a/b${' '.repeat(bytes)}x`, EVENTS),
  'Accept-Encoding of many': header('Accept-Encoding', (bytes) => fill(bytes, () => 'gzip;q=0.5', ','), {
    method: 'GET',
    path: '/',
  }),
  'Prefer of many': header('Prefer', (bytes) => fill(bytes, (index) => `p${index}`, ','), POST),
  'Prefer of spaces': header('Prefer', (bytes) => `x,${' '.repeat(bytes)}x`, POST),
  'Prefer of a spaced return': header('Prefer', (bytes) => `return${' '.repeat(bytes)}x`, POST),
  'Prefer of a spaced end': header('Prefer', (bytes) => `return=representation${' '.repeat(bytes)}x`, POST),
  'Content-Type of parameters': header('Content-Type', (bytes) => `application/json${';a=b'.repeat(bytes / 4)}`, POST),
  'Content-Type of semicolons': header('Content-Type', (bytes) => `application/json${';'.repeat(bytes)}`, POST),
  'Content-Type of spaces': header('Content-Type', (bytes) => `application/json${' '.repeat(bytes)}x`, POST),
  'Content-Type of quotes': header(
    'Content-Type',
    (bytes) => `application/json;charset="${'\\"'.repeat(bytes / 2)}`,
    POST,
  ),
  'Content-Type of a long type': header('Content-Type', (bytes) => `application/${'a'.repeat(bytes)}`, POST),
  'Content-Type of a form of spaces': header(
    'Content-Type',
    (bytes) => `multipart/form-data; boundary=${' '.repeat(bytes)}x`,
    { ...POST, path: '/token' },
  ),
  'Content-Encoding of many': header('Content-Encoding', (bytes) => fill(bytes, () => 'gzip', ','), POST),
  'X-Forwarded-For of many': header('X-Forwarded-For', (bytes) => fill(bytes, () => '127.0.0.1', ',')),
  'X-Forwarded-For of commas': header('X-Forwarded-For', (bytes) => ','.repeat(bytes)),
  'X-Forwarded-For of spaces': header('X-Forwarded-For', (bytes) => `a${' '.repeat(bytes)}b`),
  'X-Forwarded-For of colons': header('X-Forwarded-For', (bytes) => `::${'1:'.repeat(bytes / 2)}`),
  'X-Forwarded-For of wrapped addresses': header('X-Forwarded-For', (bytes) =>
    fill(bytes, () => '::ffff:127.0.0.1', ', '),
  ),
  'a long Origin': header('Origin', (bytes) => `https://${'a'.repeat(bytes)}`),
  'an Origin of dots': header('Origin', (bytes) => `https://${'a.'.repeat(bytes / 2)}`),
  'an Origin of escapes': header('Origin', (bytes) => `https://${'%61'.repeat(bytes / 3)}`),
  'an Origin of other letters': header('Origin', (bytes) => `https://${'\u00fc'.repeat(bytes)}`),
  'an Origin of a long path': header('Origin', (bytes) => `https://a${'/..'.repeat(bytes / 3)}`),
  'Access-Control-Request-Headers of many': header(
    'Access-Control-Request-Headers',
    (bytes) => fill(bytes, (index) => `h${index}`, ','),
    PREFLIGHT,
  ),
  'Access-Control-Request-Headers of spaces': header(
    'Access-Control-Request-Headers',
    (bytes) => ` ${' '.repeat(bytes)}x`,
    PREFLIGHT,
  ),
  'Authorization of a long password': header(
    'Authorization',
    (bytes) => `Basic ${Buffer.from(`admin:${'a'.repeat(bytes * 0.7)}`).toString('base64')}`,
  ),
  'Authorization of spaces': header('Authorization', (bytes) => `Basic ${' '.repeat(bytes)}x`),
  'Authorization of equals signs': header('Authorization', (bytes) => `Basic A${'='.repeat(bytes)}A`),
  'Authorization of a long scheme': header('Authorization', (bytes) => 'A'.repeat(bytes)),
  'a long token': header('Authorization', (bytes) => `Bearer ${'a.'.repeat(bytes / 2)}`),
  'a token of much': header(
    'Authorization',
    (bytes) => `Bearer ${'a'.repeat(bytes / 3)}.${'a'.repeat(bytes / 3)}.${'a'.repeat(bytes / 4)}`,
  ),
  'a long API key': header('X-API-KEY', (bytes) => 'a'.repeat(bytes)),
  'a long Idempotency-Key': header('Idempotency-Key', (bytes) => 'a'.repeat(bytes), POST),
  'a long X-Request-Id': header('X-Request-Id', (bytes) => `${'a'.repeat(bytes)} `),
  'a long Wait-For-Position': header('Wait-For-Position', (bytes) => `${'1'.repeat(bytes)}x`),
  'a Wait-For-Position of spaces': header('Wait-For-Position', (bytes) => `1${' '.repeat(bytes)}x`),
  'a long Last-Event-ID': header('Last-Event-ID', (bytes) => `${'1'.repeat(bytes)}x`, {
    ...EVENTS,
    headers: { Accept: 'text/event-stream' },
  }),
  'a long Cookie': header('Cookie', (bytes) => fill(bytes, (index) => `a${index}=b`, ';')),
  'a long Host': header('Host', (bytes) => 'a.'.repeat(bytes / 2)),
  'a Host of spaces': header('Host', (bytes) => `a${' '.repeat(bytes)}b`),
  'a Range of many': header('Range', (bytes) => `bytes=${fill(bytes, (index) => `${index}-${index}`, ',')}`, {
    method: 'GET',
    path: '/',
  }),
  'a long Upgrade': header('Upgrade', (bytes) => fill(bytes, () => 'h2c', ','), {
    method: 'GET',
    path: '/api/things',
    headers: { Connection: 'Upgrade' },
  }),
  'a long Connection': header('Connection', (bytes) => `Upgrade${fill(bytes, () => 'a', ',')}`, {
    method: 'GET',
    path: '/api/things',
    headers: { Upgrade: 'h2c' },
  }),
  'a Connection of spaces': header('Connection', (bytes) => `Upgrade,${' '.repeat(bytes)}x`, {
    method: 'GET',
    path: '/api/things',
    headers: { Upgrade: 'h2c' },
  }),
  'many headers': {
    most: HEADERS,
    request: (bytes) => ({
      method: 'GET',
      path: '/api/things/0',
      headers: Object.fromEntries(Array.from({ length: bytes / 10 }, (_, index) => [`h${index}`, 'x'])),
    }),
  },
  'many headers of one name': {
    most: HEADERS,
    request: (bytes) => ({
      method: 'GET',
      path: '/api/things/0',
      headers: { 'X-Forwarded-For': Array.from({ length: bytes / 20 }, () => 'x') },
    }),
  },
}

function header(
  name: string,
  make: (bytes: number) => string,
  to: CostlyRequest = { method: 'GET', path: '/api/things/0' },
): Family {
  return {
    most: HEADERS,
    request: (bytes) => ({ ...to, headers: { ...to.headers, [name]: make(bytes) } }),
  }
}

/** The sizes that `Limits.BodyBytes` allows, and that of a form. */
const BODY = 2 ** 20 - 64
const FORM = 16 * 1024 - 64

/** Requests with a body that is long in one way. */
const BODY_REQUESTS: Readonly<Record<string, Family>> = {
  'a body of spaces': body('application/json', (bytes) => ' '.repeat(bytes)),
  'a body that begins with spaces': body('application/json', (bytes) => `${' '.repeat(bytes)}{`),
  'a body of lines': body('application/json', (bytes) => `${'\n'.repeat(bytes)}{`),
  'a body of openings': body('application/json', (bytes) => '['.repeat(bytes)),
  'a body of openings of objects': body('application/json', (bytes) => '{"a":'.repeat(bytes / 5)),
  'a body of an open text': body('application/json', (bytes) => `{"a":"${'a'.repeat(bytes)}`),
  'a body of backslashes': body('application/json', (bytes) => `{"a":"${'\\\\'.repeat(bytes / 2)}`),
  'a body of a long number': body('application/json', (bytes) => `{"a":${'9'.repeat(bytes)}}`),
  'a body of a long integer and an exponent': body(
    'application/json',
    (bytes) => `{"a":1e300,"b":${'1'.repeat(bytes)}e-${bytes}}`,
  ),
  'a body of errors': body('application/json', (bytes) => '}'.repeat(bytes)),
  'a body of commas': body('application/json', (bytes) => `[${','.repeat(bytes)}]`),
  'a body of comments': body('application/json', (bytes) => '/**/'.repeat(bytes / 4)),
  'a body that is not UTF-8 at the end': {
    most: BODY,
    request: (bytes) => ({
      ...POST,
      body: Buffer.concat([Buffer.from(`{"a":"${'a'.repeat(bytes)}`), Buffer.from([0xff])]),
    }),
  },
  'a JSON Patch of nothing': body(
    'application/json-patch+json',
    (bytes) => `[${fill(bytes, () => '{}', ',')}]`,
    '/api/things',
  ),
  'a JSON Patch of many operations': {
    most: BODY,
    request: (bytes) => ({
      method: 'PATCH',
      path: '/api/things/0',
      headers: { 'Content-Type': 'application/json-patch+json' },
      body: `[${fill(bytes, () => '{"op":"remove","path":"/x"}', ',')}]`,
    }),
  },
  'a JSON Patch of a long path': patchPath((bytes) => '/a'.repeat(bytes / 2)),
  'a JSON Patch of a path of escapes': patchPath((bytes) => `/${'~1'.repeat(bytes / 2)}`),
  'a JSON Patch of a path of digits': patchPath((bytes) => `/list/${'1'.repeat(bytes)}x`),
  'a JSON Patch of a path of tildes': patchPath((bytes) => `/${'~'.repeat(bytes)}`),
  'gzip of zeros': {
    most: BODY,
    request: (bytes) => ({
      ...POST,
      headers: { ...POST.headers, 'Content-Encoding': 'gzip' },
      body: gzipSync(`{"a":"${'0'.repeat(bytes)}"}`),
    }),
  },
  'gzip of more than may be': {
    most: BODY,
    request: (bytes) => ({
      ...POST,
      headers: { ...POST.headers, 'Content-Encoding': 'gzip' },
      body: gzipSync(`{"a":"${'0'.repeat(bytes * 100)}"}`),
    }),
  },
  'chunks of one byte': {
    most: BODY / 4,
    request: (bytes) => ({
      ...POST,
      bytes: `POST /api/things HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX-API-KEY: ${KEY}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${`{"a":"${'0'.repeat(bytes)}"}`.replaceAll(/./g, '1\r\n$&\r\n')}0\r\n\r\n`,
    }),
  },
  'a restore of many members': body(
    'application/json',
    (bytes) => `{${fill(bytes, (index) => `"m${index}":0`, ',')}}`,
    '/admin/restore',
  ),
  'a restore to a long time': body(
    'application/json',
    (bytes) => `{"dryRun":true,"to":"2026-11-21T09:30:00.${'1'.repeat(bytes)}"}`,
    '/admin/restore',
  ),
  'a restore to a time of spaces': body(
    'application/json',
    (bytes) => `{"dryRun":true,"to":"2026-11-21T09:30:00${' '.repeat(bytes)}01"}`,
    '/admin/restore',
  ),
  'a restore to a long position': body(
    'application/json',
    (bytes) => `{"to":"${'1'.repeat(bytes)}x"}`,
    '/admin/restore',
  ),
  'a restore of a long name': body(
    'application/json',
    (bytes) => `{"to":0,"collection":"${'a'.repeat(bytes)}"}`,
    '/admin/restore',
  ),
  'a form of many fields': body(
    'application/x-www-form-urlencoded',
    (bytes) => fill(bytes, (index) => `a${index}=b`, '&'),
    '/token',
    FORM,
  ),
  'a form of fields of one name': body(
    'application/x-www-form-urlencoded',
    (bytes) => fill(bytes, () => 'username=b', '&'),
    '/token',
    FORM,
  ),
  'a form of brackets': body(
    'application/x-www-form-urlencoded',
    (bytes) => `a${'[a]'.repeat(bytes / 3)}=b`,
    '/token',
    FORM,
  ),
  'a form of ampersands': body('application/x-www-form-urlencoded', (bytes) => '&'.repeat(bytes), '/token', FORM),
  'a form of escapes': body(
    'application/x-www-form-urlencoded',
    (bytes) => `username=${'%61'.repeat(bytes / 3)}&password=x`,
    '/token',
    FORM,
  ),
  'a token for JSON': body(
    'application/json',
    (bytes) => `{"username":"admin","password":"right"${' '.repeat(bytes)}}`,
    '/token',
    FORM,
  ),
  'a token for a form': body(
    'application/x-www-form-urlencoded',
    (bytes) => `username=admin&password=right${'&'.repeat(bytes)}`,
    '/token',
    FORM,
  ),
  'a token for parts': body(
    'multipart/form-data; boundary=b',
    (bytes) =>
      `${' '.repeat(bytes)}\r\n--b\r\nContent-Disposition: form-data; name="username"\r\n\r\nadmin\r\n--b\r\nContent-Disposition: form-data; name="password"\r\n\r\nright\r\n--b--`,
    '/token',
    FORM,
  ),
  'the end of a long token': {
    most: HEADERS / 2,
    request: (bytes) => ({
      method: 'POST',
      path: '/logout',
      headers: { Authorization: `Bearer ${tokenOf('a'.repeat(bytes))}` },
    }),
  },
  'nested items': path((bytes) => `/api/things/0/notes?${fill(bytes, (index) => `a_ne=${index}`, '&')}`),
  'a nested item': body('application/json', (bytes) => `{"a":"${'a'.repeat(bytes)}"}`, '/api/things/0/notes'),
  'a long password': body(
    'application/json',
    (bytes) => `{"username":"admin","password":"${'a'.repeat(bytes)}"}`,
    '/token',
    FORM,
  ),
  'many parts': body(
    'multipart/form-data; boundary=b',
    (bytes) => `${fill(bytes, (index) => `--b\r\nContent-Disposition: form-data; name="a${index}"\r\n\r\nx\r\n`)}--b--`,
    '/token',
    FORM,
  ),
  'a part of many headers': body(
    'multipart/form-data; boundary=b',
    (bytes) => `--b\r\nContent-Disposition: form-data; name="a"${'; a="b"'.repeat(bytes / 7)}\r\n\r\nx\r\n--b--`,
    '/token',
    FORM,
  ),
  'a part of dashes': body(
    'multipart/form-data; boundary=b',
    (bytes) => `--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n${'\r\n--'.repeat(bytes / 4)}\r\n--b--`,
    '/token',
    FORM,
  ),
}

function body(type: string, make: (bytes: number) => string, to = '/api/things', most = BODY): Family {
  return {
    most,
    request: (bytes) => ({ method: 'POST', path: to, headers: { 'Content-Type': type }, body: make(bytes) }),
  }
}

function patchPath(make: (bytes: number) => string): Family {
  return {
    most: BODY,
    request: (bytes) => ({
      method: 'PATCH',
      path: '/api/things/0',
      headers: { 'Content-Type': 'application/json-patch+json' },
      body: JSON.stringify([{ op: 'replace', path: make(bytes), value: 1 }]),
    }),
  }
}

/** A token of the server with a long claim; one can be ended once. */
function tokenOf(claim: string): string {
  const seconds = Math.floor(Date.now() / 1000)
  const claims = { iss: 'recollect', sub: 'admin', jti: randomUUID(), iat: seconds, exp: seconds + 3600, claim }
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const signed = `${part({ alg: 'HS256', typ: 'JWT' })}.${part(claims)}`
  return `${signed}.${createHmac('sha256', TOKEN_SECRET).update(signed).digest('base64url')}`
}

const QUERY = 16_000

/** Requests that are long in one way. */
export const REQUESTS: Readonly<Record<string, Family>> = {
  'a long id': path((bytes) => `/api/things/${'a'.repeat(bytes)}`),
  'a long id of digits': path((bytes) => `/api/things/${'9'.repeat(bytes)}`),
  'a long id, escaped': path((bytes) => `/api/things/${'%61'.repeat(bytes / 3)}`),
  'a long id, malformed at the end': path((bytes) => `/api/things/${'%61'.repeat(bytes / 3)}%`),
  'a long id, DELETE': path((bytes) => `/api/things/${'a'.repeat(bytes)}`, 'DELETE'),
  'a long name': path((bytes) => `/api/${'a'.repeat(bytes)}`),
  'many segments': path((bytes) => `/api/things/0${'/x'.repeat(bytes / 2)}`),
  'many segments, escaped': path((bytes) => `/api/things/0${'/%78'.repeat(bytes / 4)}`),
  'many segments of an array': path((bytes) => `/api/things/0/list${'/0'.repeat(bytes / 2)}`),
  'many slashes': path((bytes) => '/'.repeat(bytes)),
  'many slashes under /api': path((bytes) => `/api/${'/'.repeat(bytes)}x`),
  'many slashes under /swagger': path((bytes) => `/swagger${'/'.repeat(bytes)}x`),
  'many slashes, DELETE': path((bytes) => `/${'/'.repeat(bytes)}x`, 'DELETE'),
  'many segments of a file': path((bytes) => '/x'.repeat(bytes / 2)),
  'many dots': path((bytes) => '/..'.repeat(bytes / 3)),
  'many dots, escaped': path((bytes) => '/%2e%2e'.repeat(bytes / 7)),
  'a long file name': path((bytes) => `/${'a'.repeat(bytes)}`),
  'a long position': path((bytes) => `/events/${'1'.repeat(bytes)}`),
  'a long position, not a number at the end': path((bytes) => `/events/${'1'.repeat(bytes)}x`),
  'a long asset': path((bytes) => `/swagger/assets/${'a'.repeat(bytes)}`),
  'a long absolute target': path((bytes) => `http://${'a'.repeat(bytes)}/api/things`),
  'a long scheme': path((bytes) => `a${'a.'.repeat(bytes / 2)}:/`),
  questions: path((bytes) => `/api/things${'?'.repeat(bytes / 2)}`),
  'a long method target': path((bytes) => `/api${'/*'.repeat(bytes / 2)}`, 'PATCH'),

  'many ampersands': query((bytes) => '&'.repeat(bytes)),
  'many parameters': query((bytes) => fill(bytes, (index) => `f${index}=1`, '&')),
  'many parameters of one name': query((bytes) => fill(bytes, (index) => `f=${index}`, '&')),
  'many cache busters': query((bytes) => '&_=1'.repeat(bytes / 4)),
  'many elements of an array': query((bytes) => fill(bytes, (index) => `f[${index}]=1`, '&')),
  'a name of brackets': query((bytes) => `f${'[0'.repeat(bytes / 2 - 2)}]=1`),
  'a long index of an array': query((bytes) => `f[${'1'.repeat(bytes)}]=1`),
  'many parameters without a value': query((bytes) => fill(bytes, (index) => `f${index}`, '&')),
  'a long _in': query((bytes) => `f_in=${fill(bytes, (index) => String(index), ',')}`),
  'a long _in of nothing': query((bytes) => `f_in=${','.repeat(bytes)}`),
  'a long path of a filter': query((bytes) => `${'a.'.repeat(bytes / 2)}a=1`),
  'a path of dots': query((bytes) => `${'.'.repeat(bytes)}=1`),
  'a path of underscores': query((bytes) => `${'_'.repeat(bytes)}=1`),
  'a long sort': query((bytes) => `sort=${fill(bytes, (index) => `f${index}`, ',')}`),
  'a sort of long paths': query((bytes) => `sort=${'a.'.repeat(bytes / 2)}a`),
  'a sort of nothing': query((bytes) => `sort=${','.repeat(bytes)}`),
  'a long _where': query((bytes) => `_where={"or":[${fill(bytes, (index) => `{"f${index}":{"eq":1}}`, ',')}]}`),
  'a deep _where': query((bytes) => `_where=${'{"or":['.repeat(bytes / 8)}`),
  'long fields': query((bytes) => `fields=${fill(bytes, (index) => `f${index}`, ',')}`),
  'fields of long paths': query((bytes) => `fields=${fill(bytes, (index) => `${'a.'.repeat(100)}a${index}`, ',')}`),
  'a long q': query((bytes) => `q=${'a'.repeat(bytes)}`),
  'many q': query((bytes) => fill(bytes, (index) => `q=${index}`, '&')),
  'a long number': query((bytes) => `n_gt=${'9'.repeat(bytes)}`),
  'a long number, none at the end': query((bytes) => `n_gt=${'9'.repeat(bytes)}x`),
  'a long exponent': query((bytes) => `n_gt=1e${'9'.repeat(bytes)}`),
  'spaces around a number': query((bytes) => `n_gt=1${'+'.repeat(bytes)}1`),
  'a long instant': query((bytes) => `n_gt=2026-11-21T09:30:00.${'1'.repeat(bytes)}x`),
  'an instant of spaces': query((bytes) => `n_gt=2026-11-21T09:30:00${'+'.repeat(bytes)}01`),
  'a long instant, asOf': query((bytes) => `asOf=2026-11-21T09:30:00.${'1'.repeat(bytes)}`),
  'an instant of spaces, asOf': query((bytes) => `asOf=2026-11-21T09:30:00${'+'.repeat(bytes)}01`),
  'a long position, asOf': query((bytes) => `asOf=${'1'.repeat(bytes)}`),
  'a long page': query((bytes) => `page=${'1'.repeat(bytes)}`),
  'a long page, not a number at the end': query((bytes) => `page=${'1'.repeat(bytes)}x`),
  escapes: query((bytes) => `f=${'%61'.repeat(bytes / 3)}`),
  'escapes, malformed at the end': query((bytes) => `f=${'%61'.repeat(bytes / 3)}%`),
  'percent signs': query((bytes) => `f=${'%'.repeat(bytes)}`),
  'what a link must escape': query((bytes) => `f=${'<>'.repeat(bytes / 2)}&take=1`),
  'a link of many parameters': query((bytes) => `take=1&${fill(bytes - 7, (index) => `name_ne=${index}`, '&')}`),
  'events of a long name': query((bytes) => `collection=${'a'.repeat(bytes)}`, '/events'),
  'events of a long id': query((bytes) => `id=${'a'.repeat(bytes)}`, '/events'),
  'events since a long instant': query((bytes) => `since=2026-11-21T09:30:00.${'1'.repeat(bytes)}`, '/events'),
  'events from a long position': query((bytes) => `from=${'1'.repeat(bytes)}x`, '/events'),
  'events of a long journal': query((bytes) => `journal=${'a'.repeat(bytes)}`, '/events'),
  'many parameters of events': query((bytes) => fill(bytes, (index) => `f${index}=1`, '&'), '/events'),
  'many parameters of an upgrade': query((bytes) => fill(bytes, (index) => `f${index}=1`, '&'), '/socket.io/'),

  ...HEADER_REQUESTS,
  ...BODY_REQUESTS,
}

/** A path, of which a part grows. */
function path(make: (bytes: number) => string, method = 'GET'): Family {
  return { most: HEADERS, request: (bytes) => ({ method, path: make(bytes) }) }
}

function query(make: (bytes: number) => string, at = '/api/things'): Family {
  return { most: QUERY, request: (bytes) => ({ method: 'GET', path: `${at}?${make(bytes)}` }) }
}
