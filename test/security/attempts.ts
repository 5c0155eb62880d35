import { deflateSync, gzipSync } from 'node:zlib'
import { swaggerAsset } from '../support/pages.ts'
import { Random } from '../support/random.ts'
import type { OpenApiDocument, Operation, Parameter } from './document.ts'

export type Role = 'reader' | 'writer' | 'admin'

/** One request, right or wrong. The same seed and index make the same one. */
export interface Attempt {
  readonly index: number
  readonly method: string
  /** The request's target, as it stands in the request line. */
  readonly target: string
  readonly headers: readonly Field[]
  readonly body: Buffer | undefined
  /** The bytes to send when no client would send the rest. */
  readonly bytes: Buffer | undefined
  /** It is not clear any more which request the server reads, if it reads one. */
  readonly isGarbled: boolean
  /** It says something of how messages are framed, so that it may be no HTTP, or the answer may not end. */
  readonly isFramed: boolean
  /** Who it is from, as far as its credentials are what they were made to be. */
  readonly who: Role | 'stranger' | 'unclear'
}

export type Field = readonly [name: string, value: string]

/** The credentials of each role, and invalid ones. */
export interface Keys {
  readonly right: Readonly<Record<Role, readonly Field[]>>
  readonly wrong: readonly Field[]
  /** Slow to be found wrong. */
  readonly slow: Field
  /** A token that may be revoked. */
  readonly doomed: Field
}

const COLLECTIONS = ['sensors', 'checked', 'mixed', 'empty', 'new', '%E2%82%AC', 'a%2Fb', '__proto__', 'a%20b']
const IDS = ['0', '1', '2', '3', '7', '007', 'F4:A5', 'F4%3AA5', 'a%2Fb', '%E2%82%AC', '%2E%2E', 'new']
const RESTS = ['data', 'data/temperature', 'tags/0', 'tags/x/y', 'name', 'nothing/at/all']
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND', 'M-SEARCH', 'PURGE']
const NUMBERS = ['-1', '0', '1e400', '9007199254740993', '0x10', 'NaN', '1.5', '', ' 1', '99999999999999999999', '٣']
/** Segments and values that have been somebody's undoing; all of them may stand in a request line. */
const TEXTS = [
  ...NUMBERS.filter((text) => /^[\x21-\x7e]*$/.test(text)),
  ...['', '.', '..', '%', '%zz', '%2', '%00', '%0D%0A', '%2F', '%5C', '%252F', '%2e%2e', '%C3%28', '%ED%A0%80', '%FF'],
  ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'prototype', 'length', 'null', 'undefined', 'true'],
  ...['*', '{id}', ':id', '(.*)', 'a;b=c', '+', "'", '"', '<script>', '\\', '~', '~1', '|', '`', '^', '[a]', '$where'],
  ...['swagger', 'index.html', '.git', 'events', 'admin', 'x'.repeat(3000), '%41'.repeat(900), 'a/'.repeat(200)],
]
const TARGETS = [
  ...['/', '//', '/api/', '/api//', '//api/sensors', '/API/sensors', '/%61pi/sensors', '/api/./sensors', '/api/../api'],
  ...['/api/sensors/..', '/..%2f..%2fetc/passwd', '/%2e%2e/%2e%2e/package.json', '/index.html', '/index.html%00'],
  ...[swaggerAsset('..%2fswagger-ui.css'), '/swagger//', '/events/1/2', '/metrics', '/admin', '/admin/', '/logout'],
  ...['/token', '/ws', '/socket.io/', '/socket.io/?EIO=4&transport=polling', '/socket.io/socket.io.min.js', '*'],
  ...['http://other.example/api/sensors', 'http://[/api', 'ftp://x/api', 'x', '?', '/?x=%', '/api?%', '/#/api'],
]
const HEADERS: readonly Field[] = [
  ['Accept', 'image/png'],
  ['Accept', 'application/x-ndjson'],
  ['Accept', ',;q=,*/*;q=x'],
  ['Cookie', 'a=b; __proto__=c'],
  ['Cache-Control', 'no-cache'],
  ['If-Match', '*'],
  ['If-Match', 'W/"x", "y'],
  ['If-Match', '"'.repeat(2001)],
  ['If-None-Match', '*'],
  ['If-None-Match', ''],
  ['If-Modified-Since', 'yesterday'],
  ['Range', 'bytes=5-2'],
  ['Idempotency-Key', ''],
  ['Idempotency-Key', 'ü'.repeat(200)],
  ['Idempotency-Key', 'the same'],
  ['Prefer', 'return=representation'],
  ['Prefer', 'return="; ,,='],
  ['Last-Event-ID', '-1'],
  ['Forwarded', 'for="_x'],
  ['X-Forwarded-Host', '"'],
  ['X-HTTP-Method-Override', 'DELETE'],
  ['Origin', 'null'],
  ['Origin', 'https://evil.example'],
  ['Origin', 'http://localhost:1'],
  ['Origin', 'http://['],
  ['Access-Control-Request-Method', 'PUT'],
  ['Access-Control-Request-Headers', 'x, y'],
  ['Content-Type', 'application/json; charset=utf-16'],
  ['Content-Type', 'application/json;;;=;charset'],
  ['Content-Type', 'multipart/form-data'],
  ['Content-Type', 'multipart/form-data; boundary=x'],
  ['Content-Type', 'application/x-www-form-urlencoded'],
  ['Content-Type', 'text/plain'],
  ['Content-Type', '\u00ff'],
  ['Content-Encoding', 'gzip'],
  ['Content-Encoding', 'br'],
  ['Content-Encoding', 'gzip, gzip'],
  ['Content-Encoding', 'none of them'],
  ['X-Long', 'x'.repeat(20_000)],
]
/** The headers that influence the route or the response. */
const FRAMING: readonly Field[] = [
  ['Content-Length', '-1'],
  ['Content-Length', '99999999999999999999'],
  ['Content-Length', '5, 5'],
  ['Transfer-Encoding', 'gzip, chunked'],
  ['Transfer-Encoding', 'identity'],
  ['Expect', '100-continue'],
  ['Expect', 'a miracle'],
  ['Upgrade', 'h2c'],
  ['Upgrade', 'websocket'],
  ['Host', 'a/b?c'],
  ['Host', ''],
  ['TE', 'trailers'],
  ['Accept', 'text/event-stream'],
]
const FORWARDED = ['', ',', 'unknown', '10.1.1.1:80', '::1%eth0', '999.1.1.1', '127.0.0.1, 127.0.0.1', '\u00e9']
const BODIES = [
  ...['', ' ', 'null', '[]', '{}', '""', '0', 'true', '{', '{"a":}', '{"a":1,}', "{'a':1}", '\ufeff{}', '{}{}'],
  ...['{"__proto__":{"x":1}}', '{"constructor":{"prototype":{"x":1}}}', '{"a":1e999}', '{"a":9007199254740993}'],
  ...['{"id":{}}', '{"id":null}', '{"id":""}', '{"id":"\\ud800"}', '{"a":"\\ud800"}', '{"id":-0}', '{"id":1e300}'],
  ...['[{"op":"test","path":"/__proto__","value":1}]', '[{"op":"add","path":"/a/constructor/x","value":1}]'],
  ...['[{"op":"add","path":"/hasOwnProperty/call","value":1}]', '[{"op":"copy","from":"","path":"/a"}]'],
  ...['[{"op":"move","from":"/data","path":"/data/x"}]', '[{"op":"remove","path":""}]', '[{"op":"x"}]', '[null]'],
  ...['username=admin&password=wrong', '--x\r\nContent-Disposition: form-data; name="username"\r\n\r\na\r\n--x--\r\n'],
  ...['--x\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\na\r\n--x--\r\n', '--x\r\nnonsense'],
  '--x\r\nContent-Disposition: form-data; name="a"\r\nContent-Transfer-Encoding: y\r\n\r\na\r\n--x--\r\n',
  `${'['.repeat(101)}${']'.repeat(101)}`,
  `${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}`,
  `{"a":"${'x'.repeat(70_000)}"}`,
  `[${Array.from({ length: 1001 }, () => '{"op":"test","path":"/a","value":1}').join()}]`,
].map((text) => Buffer.from(text))
const BROKEN_BODIES = [Buffer.from([0xff, 0xfe, 0x7b]), Buffer.from('{"a":"\xc3\x28"}', 'latin1'), Buffer.alloc(3)]

/** A request that the document describes, more often than not with something wrong in it. */
export function attemptOf(seed: number, index: number, document: OpenApiDocument, keys: Keys | undefined): Attempt {
  const random = new Random(seed + Math.imul(index, 0x9e3779b1))
  const writes = document.operations.filter(({ method }) => !['GET', 'HEAD', 'OPTIONS'].includes(method))
  const made = new Making(random, document, random.pick(random.chance(0.4) ? writes : document.operations))
  const mutations = random.pick([0, 1, 1, 2, 3])
  for (let done = 0; done < mutations; done++) made.mutate()
  return made.finish(index, keys)
}

/** The values of fields with a meaning that the schemas do not express. */
const FIELDS: Readonly<Record<string, (random: Random) => string>> = {
  'If-Match': (random) => random.pick(['*', '*', '"x"', 'W/"x"']),
  'If-None-Match': (random) => random.pick(['*', '"x"', '"x", "y"']),
  'Idempotency-Key': (random) => `key ${random.integer(300)}`,
  Prefer: (random) => random.pick(['return=representation', 'return=minimal', 'wait=1']),
}

class Making {
  readonly #random: Random
  method: string
  target: string
  headers: Field[] = []
  body: Buffer | undefined
  isFramed = false

  constructor(random: Random, document: OpenApiDocument, operation: Operation) {
    this.#random = random
    this.method = operation.method
    this.target = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => this.#segment(name))
    const query: string[] = []
    for (const parameter of operation.parameters) {
      if (parameter.in === 'path' || random.chance(parameter.in === 'query' ? 0.85 : 0.7)) continue
      const value = document.instance(parameter.schema, random)
      const known = FIELDS[parameter.name]
      if (parameter.in === 'query') query.push(...questions(parameter, value))
      else if (known && random.chance(0.8)) this.headers.push([parameter.name, known(random)])
      else if (parameter.name !== 'X-Request-Id') this.headers.push([parameter.name, headerText(value)])
    }
    if (query.length > 0) this.target += `?${query.join('&')}`
    const [type, schema] = operation.bodies.size > 0 ? random.pick([...operation.bodies]) : []
    if (type !== undefined && schema) {
      const value = document.instance(schema, random)
      if (isItem(value) && random.chance(0.6)) delete value.id
      this.body = Buffer.from(encode(type, value))
      this.headers.push(['Content-Type', type.startsWith('multipart') ? `${type}; boundary=x` : type])
    }
  }

  mutate(): void {
    const random = this.#random
    switch (random.integer(12)) {
      case 0:
        this.method = random.pick(METHODS)
        return
      case 1:
        this.target = random.pick(TARGETS)
        return
      case 2: {
        const [path = '', ...rest] = this.target.split('?')
        const segments = path.split('/')
        segments.splice(1 + random.integer(segments.length), random.integer(2), random.pick(TEXTS))
        this.target = [segments.join('/'), ...rest].join('?')
        return
      }
      case 3:
      case 4: {
        const name = random.pick(['page', 'pageSize', 'skip', 'limit', 'sort', 'fields', 'q', 'from', 'since', 'asOf'])
        const field = random.chance(0.5)
          ? name
          : `${random.pick(TEXTS)}${random.pick(['_gt', '_in', '_exists', '', '_'])}`
        const question = `${field}=${random.pick(TEXTS)}`
        this.target +=
          (this.target.includes('?') ? '&' : '?') +
          Array(random.pick([1, 1, 2, 1100]))
            .fill(question)
            .join('&')
        return
      }
      case 5:
      case 6:
        this.headers.push(random.pick(HEADERS))
        return
      case 7:
        this.headers.push(random.pick(FRAMING))
        this.body ??= Buffer.from('x')
        this.isFramed = true
        return
      case 8:
        this.body = random.pick([...BODIES, ...BROKEN_BODIES])
        if (random.chance(0.7))
          this.headers.push(['Content-Type', random.pick(['application/json', 'application/json-patch+json'])])
        return
      case 9:
        this.headers = this.headers.filter(([name]) => name !== 'Content-Type')
        return
      case 10: {
        const plain = this.body ?? random.pick(BODIES)
        const [coding, bytes] = random.pick([
          ['gzip', gzipSync(plain)],
          ['deflate', deflateSync(plain)],
          ['gzip', gzipSync(plain).subarray(0, 12)],
          ['deflate', plain],
          ['gzip', gzipSync(Buffer.alloc(2_000_000))],
        ] as const)
        this.body = bytes
        this.headers.push(['Content-Encoding', coding])
        return
      }
      default: {
        const { body } = this
        if (!body || body.length === 0) this.body = Buffer.from('x')
        else if (random.chance(0.5)) this.body = body.subarray(0, random.integer(body.length))
        else {
          this.body = Buffer.from(body)
          this.body[random.integer(body.length)] = random.integer(256)
        }
      }
    }
  }

  finish(index: number, keys: Keys | undefined): Attempt {
    const random = this.#random
    const { method, target, body } = this
    let who: Attempt['who'] = 'admin'
    const sent: Field[] = [['X-Request-Id', `fuzz-${index}`]]
    const from = random.chance(0.05) ? random.pick(FORWARDED) : undefined
    if (keys) {
      const brought = this.#credentials(keys)
      who = from === undefined ? brought.who : 'unclear'
      sent.push(...brought.fields)
      const address = `10.${random.integer(250)}.${random.integer(250)}.${random.integer(250)}`
      const isNotorious = brought.who === 'stranger' && random.chance(0.4)
      sent.push(['X-Forwarded-For', from ?? (isNotorious ? '192.0.2.1' : address)])
    } else if (from !== undefined) sent.push(['X-Forwarded-For', from])
    const headers = [...sent, ...this.headers]
    const attempt = { index, method, target, headers, body, isFramed: this.isFramed, who }
    const whole = serialise(attempt)
    if (random.chance(0.03)) return { ...attempt, bytes: this.#garble(whole), isGarbled: true }
    const isPlain = /^\/[\x21-\x7e]*$/.test(target) && !this.isFramed && noneTwice(headers) && !isLong(whole)
    return { ...attempt, bytes: isPlain ? undefined : whole, isGarbled: false }
  }

  #credentials(keys: Keys): { readonly who: Attempt['who']; readonly fields: readonly Field[] } {
    const random = this.#random
    if (/logout/i.test(this.target)) return { who: 'unclear', fields: [keys.doomed] }
    const dice = random.next()
    if (dice < 0.15) return { who: 'stranger', fields: [] }
    if (dice < 0.25) return { who: 'stranger', fields: [random.pick(keys.wrong)] }
    if (dice < 0.255) return { who: 'stranger', fields: [keys.slow] }
    const role = random.pick(['reader', 'writer', 'writer', 'admin', 'admin'] as const)
    return { who: role, fields: [random.pick(keys.right[role])] }
  }

  #garble(bytes: Buffer): Buffer {
    const random = this.#random
    const garbled = Buffer.from(bytes)
    const changes = 1 + random.integer(4)
    for (let done = 0; done < changes; done++) garbled[random.integer(garbled.length)] = random.integer(256)
    return random.chance(0.3) ? garbled.subarray(0, random.integer(garbled.length)) : garbled
  }

  #segment(name: string): string {
    switch (name) {
      case 'collection':
        return this.#random.pick(COLLECTIONS)
      case 'rest':
        return this.#random.pick(RESTS)
      case 'position':
        return String(this.#random.integer(400))
      case 'name':
        return this.#random.pick(['swagger-ui.min.css', 'favicon-32x32.png', 'nothing'])
      default:
        return this.#random.chance(0.6) ? String(this.#random.integer(12)) : this.#random.pick(IDS)
    }
  }
}

/** The request as bytes; the connection ends with it. */
function serialise({ method, target, headers, body }: Pick<Attempt, 'method' | 'target' | 'headers' | 'body'>): Buffer {
  const names = headers.map(([name]) => name.toLowerCase())
  const lines = [`${method} ${target} HTTP/1.1`, ...headers.map(([name, value]) => `${name}: ${value}`)]
  if (!names.includes('host')) lines.push('Host: localhost')
  lines.push(names.includes('upgrade') ? 'Connection: close, upgrade' : 'Connection: close')
  if (body && !names.includes('content-length') && !names.includes('transfer-encoding')) {
    lines.push(`Content-Length: ${body.length}`)
  }
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), body ?? Buffer.alloc(0)])
}

/** Refused before it is known to be a HEAD, which clients don't take well. */
function isLong(bytes: Buffer): boolean {
  return bytes.indexOf('\r\n\r\n') > 4000
}

function noneTwice(headers: readonly Field[]): boolean {
  return new Set(headers.map(([name]) => name.toLowerCase())).size === headers.length
}

function isItem(value: unknown): value is { id?: unknown } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function questions({ name, explode }: Parameter, value: unknown): readonly string[] {
  const text = (one: unknown): string => encodeURIComponent(typeof one === 'object' ? JSON.stringify(one) : String(one))
  if (Array.isArray(value)) return [`${name}=${value.map(text).join(',')}`]
  if (explode && typeof value === 'object' && value !== null) {
    return Object.entries(value).map(([field, one]) => `${text(field)}=${text(one)}`)
  }
  return [`${name}=${text(value)}`]
}

function headerText(value: unknown): string {
  return Buffer.from(String(value)).toString('latin1')
}

function encode(type: string, value: unknown): string {
  const fields = Object.entries((value ?? {}) as object)
  if (type.startsWith('multipart')) {
    const parts = fields.map(([name, one]) => `--x\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${one}\r\n`)
    return `${parts.join('')}--x--\r\n`
  }
  if (type.includes('form')) return fields.map(([name, one]) => `${name}=${encodeURIComponent(String(one))}`).join('&')
  return JSON.stringify(value)
}
