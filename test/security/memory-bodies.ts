import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib'
import { Random, SEED } from '../support/random.ts'
import { OF_ANY_VALUES } from './cost-operations.ts'
import { type CostlyRequest, fill } from './costly-requests.ts'
import type { Attack } from './memory-server.ts'

export const CLIENTS = 64
/** More clients, for requests of a few bytes that cost much. */
export const MORE_CLIENTS = 200

/** Within `Limits.BatchBytes` and `Limits.BodyBytes`. */
const BATCH_BYTES = 10 * 2 ** 20 - 64
const BODY_BYTES = 2 ** 20 - 64

/** Fast rather than small: an attacker compresses once. */
const CODINGS = {
  gzip: (text: string) => gzipSync(text, { level: 1 }),
  deflate: (text: string) => deflateSync(text, { level: 1 }),
  br: (text: string) => brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
  identity: (text: string) => Buffer.from(text),
}

interface Sent {
  readonly method?: string
  readonly path?: string
  readonly type?: string
  readonly coding?: keyof typeof CODINGS
  readonly prefer?: string
  readonly clients?: number
  readonly sendsSlowly?: boolean
}

/** All clients send one body, which is made when the first one does. */
function body(make: () => string, sent: Sent = {}): Attack {
  const { method = 'POST', path = '/api/posted', type = 'application/json', coding = 'gzip', prefer } = sent
  const { clients = CLIENTS, sendsSlowly = false } = sent
  const headers = {
    'Content-Type': type,
    ...(coding !== 'identity' && { 'Content-Encoding': coding }),
    ...(prefer !== undefined && { Prefer: prefer }),
  }
  let bytes: Buffer | undefined
  return {
    clients,
    act(attackers) {
      bytes ??= CODINGS[coding](make())
      const request: CostlyRequest = { method, path, headers, body: bytes }
      return attackers.ask(request, { sendsSlowly })
    },
  }
}

function shaped(shape: keyof typeof OF_ANY_VALUES, sent: Sent = {}, bytes = BATCH_BYTES): Attack {
  return body(() => (OF_ANY_VALUES[shape] as (typeof OF_ANY_VALUES)[string])(bytes, new Random(SEED)), sent)
}

function list(element: (index: number) => string, bytes = BATCH_BYTES): string {
  return `[${fill(bytes - 2, element, ',')}]`
}

/** An object with members of about so many bytes. */
const members = (bytes: number, value = '0'): string => `{${fill(bytes, (index) => `"m${index}":${value}`, ',')}}`
const item = (index: number): string => `{"n":${index},"text":"${'x'.repeat(1000)}"}`

const NDJSON = { type: 'application/x-ndjson' }
const CSV = { type: 'text/csv' }
const JSON_PATCH = { type: 'application/json-patch+json', method: 'PATCH' }
const MERGE_PATCH = { type: 'application/merge-patch+json', method: 'PATCH' }

/** Bodies that take much more memory than the client sends, or than their text. */
export const BODIES: Readonly<Record<string, Attack>> = {
  'a list of empty objects': shaped('empty objects'),
  'a list of empty objects, br': shaped('empty objects', { coding: 'br' }),
  'a list of empty objects, deflate': shaped('empty objects', { coding: 'deflate' }),
  'a list of empty objects, not compressed': shaped('empty objects', { coding: 'identity' }),
  'a list of empty objects, sent slowly': shaped('empty objects', { coding: 'identity', sendsSlowly: true }),
  'a list of empty objects, many clients': shaped('empty objects', { clients: MORE_CLIENTS }),
  blanks: body(() => ' '.repeat(BATCH_BYTES)),
  'a list of blanks': body(() => `[${' '.repeat(BATCH_BYTES)}]`),
  'a list of blanks, many clients': body(() => `[${' '.repeat(BATCH_BYTES)}]`, { clients: MORE_CLIENTS }),
  'nested lists': shaped('many nested lists'),
  'nested objects': body(() => list(() => `${'{"a":'.repeat(90)}0${'}'.repeat(90)}`)),
  'objects of distinct names': shaped('small objects of distinct names'),
  'one object of distinct names': body(() => `[${members(BATCH_BYTES)}]`),
  zeros: shaped('zeros'),
  fractions: shaped('numbers'),
  texts: shaped('texts'),
  'empty texts': shaped('empty texts'),
  'a long text': body(() => `[{"a":"${'a'.repeat(BATCH_BYTES - 10)}"}]`),
  'a long text of escapes': body(() => `[{"a":"${'\\u0041'.repeat(BATCH_BYTES / 6 - 2)}"}]`),
  'a long text of other letters': body(() => `[{"a":"${'\u3042'.repeat(BATCH_BYTES / 3 - 4)}"}]`),
  'another letter at the end': body(() => `[{"a":"${'a'.repeat(BATCH_BYTES - 20)}\u3042"}]`),
  commas: body(() => `[${','.repeat(BATCH_BYTES - 2)}]`),
  openings: body(() => '['.repeat(BATCH_BYTES)),
  'items of many values': body(() => list((index) => `{"l":[${'0,'.repeat(9000)}${index}]}`)),
  'items of many members': body(() => list(() => members(40_000))),
  'items that are refused at the end': body(() => `${list(item, BATCH_BYTES - 600_000).slice(0, -1)},0]`),
  'items that are accepted': body(() => list(item, BATCH_BYTES - 600_000)),
  'items of which each is refused': body(() => list(() => '0', 18_000), { prefer: 'handling=lenient' }),
  'NDJSON of empty objects': body(() => '{}\n'.repeat(BATCH_BYTES / 3), NDJSON),
  'NDJSON of empty lines': body(() => '\n'.repeat(BATCH_BYTES), NDJSON),
  'NDJSON of a long line': body(() => `{"a":"${'a'.repeat(BATCH_BYTES - 8)}"}`, NDJSON),
  'CSV of empty cells': body(() => `a\n${','.repeat(BATCH_BYTES - 2)}`, CSV),
  'CSV of empty lines': body(() => `a\n${'\n'.repeat(BATCH_BYTES - 2)}`, CSV),
  'CSV of short lines': body(() => `a\n${'1\n'.repeat(BATCH_BYTES / 2 - 1)}`, CSV),
  'CSV of wide lines': body(() => {
    const names = Array.from({ length: 1000 }, (_, index) => `a${index}`).join(',')
    return `${names}\n${`${'1,'.repeat(999)}1\n`.repeat(BATCH_BYTES / 2000 - 3)}`
  }, CSV),
  'CSV of quotes': body(() => `a\n"${'""'.repeat(BATCH_BYTES / 2 - 2)}"`, CSV),
  'CSV of a wide header': body(() => fill(BATCH_BYTES, (index) => `a${index}`, ','), CSV),
  'empty collections in place of everything': body(() => members(BATCH_BYTES - 2, '[]'), { path: '/api' }),
  'empty objects in place of everything': body(() => `{"a":${list(() => '{}', BATCH_BYTES - 20)},"b":0}`, {
    path: '/api',
  }),
  'an item of empty objects': body(() => `{"a":${list(() => '{}', BODY_BYTES)}}`),
  'an item of empty objects, many clients': body(() => `{"a":${list(() => '{}', BODY_BYTES)}}`, {
    clients: MORE_CLIENTS,
  }),
  'an item of many values': body(() => `{"a":${list(() => '0', 38_000)}}`, { method: 'PUT', path: '/api/small/1' }),
  'a long item': body(() => `{"a":"${'a'.repeat(BODY_BYTES - 10)}"}`, { method: 'PUT', path: '/api/small/1' }),
  'a JSON Patch of many operations': body(() => list(() => '{"op":"test","path":"/id","value":1}', BODY_BYTES), {
    ...JSON_PATCH,
    path: '/api/small/1',
  }),
  'a JSON Patch that copies': body(() => list((index) => `{"op":"copy","from":"/list","path":"/c${index}"}`, 40_000), {
    ...JSON_PATCH,
    path: '/api/nested/1',
  }),
  'a merge patch of nested objects': body(() => `${'{"a":'.repeat(90)}0${'}'.repeat(90)}`, {
    ...MERGE_PATCH,
    path: '/api/large/1',
  }),
  'a merge patch of a large item': body(() => '{"b":1}', {
    ...MERGE_PATCH,
    path: '/api/large/1',
    coding: 'identity',
    clients: MORE_CLIENTS,
  }),
  'a long body of a restore': shaped('wide object', { path: '/admin/restore' }, BODY_BYTES),
}
