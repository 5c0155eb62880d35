import { gzipSync } from 'node:zlib'
import { type Family, fill, KEY, POST } from './cost-family.ts'

/** The sizes that `Limits.BodyBytes` allows, and that of a form. */
const BODY = 2 ** 20 - 64
const FORM = 16 * 1024 - 64

/** Requests with a body that is long in one way. */
export const BODY_REQUESTS: Readonly<Record<string, Family>> = {
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
    (bytes) => `{"to":"2026-11-21T09:30:00.${'1'.repeat(bytes)}"}`,
    '/admin/restore',
  ),
  'a restore to a time of spaces': body(
    'application/json',
    (bytes) => `{"to":"2026-11-21T09:30:00${' '.repeat(bytes)}01"}`,
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
