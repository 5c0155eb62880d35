import { BODY_REQUESTS } from './cost-bodies.ts'
import { type Family, fill, HEADERS } from './cost-family.ts'
import { HEADER_REQUESTS } from './cost-headers.ts'

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
