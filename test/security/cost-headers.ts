import { type CostlyRequest, type Family, fill, HEADERS, POST } from './cost-family.ts'

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
