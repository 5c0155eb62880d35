import assert from 'node:assert/strict'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { Agent, request as httpRequest, type IncomingHttpHeaders } from 'node:http'
import { type TestContext, test } from 'node:test'
import { deflateSync, gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { within } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { SEED } from '../support/random.ts'
import { type RunningProgram, startProgram } from '../support/server.ts'
import {
  type Event,
  type Expected,
  type Item,
  type Json,
  type JsonRecord,
  type Links,
  Model,
  type Request,
} from './model.ts'
import { type BodyPlan, EDGE, NAMES, NOWHERE, type Pause, type Plan, pause, plan, type Tagged } from './plans.ts'

const REQUESTS = Number(process.env.MODEL_REQUESTS ?? 300)
const REQUESTS_BETWEEN_PAUSES = 250
const BODY_BYTES = 65_536

const FIRST: Readonly<Record<string, readonly JsonRecord[]>> = {
  sensors: [
    {
      id: 'F4:A5:74:89:16:57',
      mac: 'F4:A5:74:89:16:57',
      data: { x: 1, acceleration_x: 78 },
      at: '2026-11-20T12:00:00',
    },
    { id: '007', name: 'bob', data: { x: null } },
    { name: 'no id yet', n: 3 },
  ],
  numbers: [{ id: 3, n: 1 }, { n: 2 }, { id: 1, n: 3 }, { n: 4, tags: ['a', 'b'] }],
  mixed: [{ id: 7, name: 'seven' }, { id: 'seven', name: 7 }, { id: '12' }, { n: 5, id: '€' }],
  empty: [],
  'ünï €': [{ id: 0, name: 'ß' }],
  // As high as ids count, and text beyond that: what comes next must be neither.
  edge: [{ id: '4503599627370497' }, { id: 2 ** 52 }, { name: 'no id yet' }],
}

test('the server answers like the model, for every request and after every restart', async (t) => {
  t.diagnostic(`SEED=${SEED} MODEL_REQUESTS=${REQUESTS}`)
  await new Run(t).all()
})

interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

interface Sent {
  readonly index: number
  readonly request: Request
  readonly status: number
}

class Run {
  readonly #t: TestContext
  readonly #model = new Model({ upsertOnPut: false, clientIdsOnPost: false, bodyBytes: BODY_BYTES, pageSize: 10_000 })
  readonly #past: Sent[] = []
  readonly #keyed: Request[] = []
  /** The values behind the entity tags seen so far. */
  readonly #meanings = new Map<string, string>()
  #agent = new Agent({ keepAlive: true, maxSockets: 1 })
  #server: RunningProgram | undefined
  #directory = ''
  #segmentBytes = 65_536
  #compress: Pause['flags']['compress'] = 0
  #location: string | undefined

  constructor(t: TestContext) {
    this.#t = t
  }

  async all(): Promise<void> {
    const plans = fc.sample(plan, { seed: SEED, numRuns: REQUESTS })
    const pauses = fc.sample(pause, { seed: SEED, numRuns: Math.ceil(REQUESTS / REQUESTS_BETWEEN_PAUSES) })
    this.#directory = await temporaryDirectory(this.#t)
    this.#t.after(() => this.#agent.destroy())
    await writeFile(`${this.#directory}/db.json`, JSON.stringify(FIRST))
    this.#model.begin(FIRST)
    await this.#start()
    for (const [index, one] of plans.entries()) {
      await this.#request(index, one)
      const next = pauses[index / REQUESTS_BETWEEN_PAUSES - 1]
      if (next) await this.#pause(index, next)
    }
    await this.#checkEvents(plans.length)
    await this.#stop('SIGTERM')
    await this.#checkFile(plans.length)
  }

  get #running(): RunningProgram {
    assert.ok(this.#server)
    return this.#server
  }

  async #start(): Promise<void> {
    const { upsertOnPut, clientIdsOnPost, pageSize } = this.#model.rules
    const settings = {
      'Api.UpsertOnPut': upsertOnPut,
      'Api.ClientIdsOnPost': clientIdsOnPost,
      'Limits.PageSize': pageSize,
      'Limits.BodyBytes': BODY_BYTES,
      'Journal.SegmentBytes': this.#segmentBytes,
      'Journal.Compress': this.#compress,
    }
    const flags = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)])
    this.#server = await startProgram(this.#t, { directory: this.#directory, flags })
  }

  async #stop(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    this.#agent.destroy()
    this.#agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const code = await this.#running.stop(signal)
    if (signal === 'SIGTERM') assert.equal(code, 0, this.#running.stderr())
  }

  async #pause(index: number, { signal, fileIsDeleted, edit, pick, flags }: Pause): Promise<void> {
    await this.#stop(signal)
    const { file } = this.#running
    if (signal === 'SIGTERM') await this.#checkFile(index)
    if (fileIsDeleted) await rm(file)
    else if (signal === 'SIGTERM') await this.#edit(file, edit, pick)
    else await this.#editOld(file, edit, pick)
    const { segmentBytes, compress, ...rules } = flags
    this.#model.rules = { ...rules, bodyBytes: BODY_BYTES }
    this.#segmentBytes = segmentBytes
    this.#compress = compress
    await this.#start()
  }

  /** Somebody changes one thing in the data file while nothing runs. */
  async #edit(file: string, edit: Pause['edit'], pick: number): Promise<void> {
    const names = this.#model.names()
    const name = names[pick % names.length] ?? ''
    const items = this.#model.items(name)
    const item = items[pick % Math.max(1, items.length)]
    const state = this.#model.state()
    if (edit === 'nothing') return
    if (edit === 'remove') {
      state.delete(name)
      this.#model.handRemoved(name)
    } else if (edit === 'create') {
      const made = { made: 'by hand', n: this.#model.head }
      state.set(name, [...items.map(({ value }) => value), made])
      this.#model.handCreated(name, made)
    } else if (!item) return
    else if (edit === 'order') {
      const turned = items.toReversed()
      if (items.length < 2) return
      state.set(
        name,
        turned.map(({ value }) => value),
      )
      this.#model.handOrdered(name, turned)
    } else if (edit === 'replace') {
      const value = { ...item.value, edited: this.#model.head }
      state.set(
        name,
        items.map((one) => (one === item ? value : one.value)),
      )
      this.#model.handReplaced(name, item, value)
    } else {
      state.set(
        name,
        items.filter((one) => one !== item).map(({ value }) => value),
      )
      this.#model.handDeleted(name, item)
    }
    await writeFile(file, textOf(state))
  }

  /** The same, but in a file that may lack the last writes: they stay, and where both changed an item the edit wins. */
  async #editOld(file: string, edit: Pause['edit'], pick: number): Promise<void> {
    const state = new Map(Object.entries(JSON.parse(await readFile(file, 'utf8')) as Record<string, JsonRecord[]>))
    const name = [...state.keys()][pick % state.size] ?? ''
    const items = state.get(name) ?? []
    const at = pick % Math.max(1, items.length)
    const item = items[at]
    if (edit === 'create') {
      const made = { made: 'by hand', n: this.#model.head }
      items.push(made)
      this.#model.handCreated(name, made)
    } else if (edit === 'replace' && item) {
      const value = { ...item, edited: this.#model.head }
      items[at] = value
      const current = this.#model.items(name).find(({ id }) => String(id) === String(item.id))
      if (current) this.#model.handReplaced(name, current, value)
      else this.#model.handCreated(name, value)
    } else return
    await writeFile(file, textOf(state))
  }

  async #checkFile(index: number): Promise<void> {
    const file = JSON.parse(await readFile(this.#running.file, 'utf8')) as Record<string, JsonRecord[]>
    const state = this.#model.state()
    const context = this.#context(index)
    assert.deepEqual(Object.keys(file).sort(), [...state.keys()].sort(), `the data file's collections; ${context}`)
    for (const [name, items] of state) {
      const wanted = items.map((item) => JSON.stringify(item))
      const found = (Object.entries(file).find(([one]) => one === name)?.[1] ?? []).map((item) => JSON.stringify(item))
      assert.deepEqual(found, wanted, `the data file's collection ${JSON.stringify(name)}; ${context}`)
    }
  }

  /** Every event since the first one, page after page. */
  async #checkEvents(index: number): Promise<void> {
    const found: JsonRecord[] = []
    const limit = Math.min(1000, this.#model.rules.pageSize)
    for (let path: string | undefined = `/events?limit=${limit}`; path; ) {
      const { status, text, headers } = await this.#send({ method: 'GET', path, headers: {} })
      assert.equal(status, 200)
      assert.equal(headers['journal-position'], String(this.#model.head))
      found.push(...(JSON.parse(text) as JsonRecord[]))
      path = /<([^>]*)>; rel="next"/.exec(String(headers.link ?? ''))?.[1]
    }
    assert.equal(found.length, this.#model.head, `how many events there are; ${this.#context(index)}`)
    let before = ''
    for (const [at, event] of found.entries()) {
      checkEvent(event, this.#model.events[at], this.#context(index))
      assert.ok(String(event.time) >= before, `the time of event ${at + 1} lies before that of the last one`)
      before = String(event.time)
    }
  }

  async #request(index: number, plan: Plan): Promise<void> {
    if (plan.verb === 'GET event') return this.#checkOneEvent(index, plan.item.pick)
    const again = plan.again === undefined ? undefined : this.#keyed.at(-1 - plan.again)
    const request: Request = again
      ? { ...again, headers: { ...again.headers, 'X-Request-Id': `request-${index}` } }
      : this.#requestOf(plan, index)
    if (request.headers['Idempotency-Key'] !== undefined && !again) this.#keyed.push(request)
    const expected = this.#model.answer(request)
    let answer: Answer | undefined
    try {
      answer = await this.#send(request)
      this.#compare(request, expected, answer)
    } catch (error) {
      assert.fail(
        [
          (error as Error).message,
          `request: ${shown(request)}`,
          `expected: ${JSON.stringify(expected, undefined, 2).slice(0, 3000)}`,
          `answer: ${JSON.stringify(answer, undefined, 2)?.slice(0, 3000)}`,
          this.#context(index, request),
        ].join('\n\n'),
      )
    }
    if (answer.headers.location) this.#location = answer.headers.location
    this.#past.push({ index, request, status: answer.status })
  }

  async #checkOneEvent(index: number, pick: number): Promise<void> {
    const position = 1 + (pick % (this.#model.head + 1))
    const { status, text } = await this.#send({ method: 'GET', path: `/events/${position}`, headers: {} })
    const event = this.#model.events[position - 1]
    assert.equal(status, event ? 200 : 404, `the status of event ${position}; ${this.#context(index)}`)
    if (event) checkEvent(JSON.parse(text) as JsonRecord, event, this.#context(index))
  }

  /** The details that are needed to repeat a failure. */
  #context(index: number, request?: Request): string {
    const collection = request && collectionOf(request)
    const related = this.#past.filter((sent) => collection !== undefined && collectionOf(sent.request) === collection)
    const state = collection === undefined ? [] : this.#model.items(collection).map(({ value }) => value)
    return [
      `SEED=${SEED} MODEL_REQUESTS=${index + 1} shows it again; request ${index}, rules ${JSON.stringify(this.#model.rules)}.`,
      ...(request ? [`The collection as the model has it: ${JSON.stringify(state).slice(0, 5000)}`] : []),
      ...(related.length > 0 ? ['The last requests to it:'] : []),
      ...related.slice(-12).map((sent) => `  ${sent.index}: ${shown(sent.request)} → ${sent.status}`),
    ].join('\n')
  }

  #requestOf(plan: Plan, index: number): Request {
    const [method = '', kind = ''] = plan.verb.split(' ')
    const { upsertOnPut } = this.#model.rules
    const creates = method === 'POST' || (method === 'PUT' && upsertOnPut)
    const collection = plan.collection === NOWHERE && creates ? 'things' : plan.collection
    const items = this.#model.items(collection)
    const key = this.#keyOf(plan, items)
    const item = items.find(({ id }) => String(id) === key)
    const segments = kind === 'names' ? [] : kind === 'collection' ? [collection] : [collection, key]
    if (kind === 'inside') segments.push(...(plan.rest === 'there' ? placeIn(item?.value, plan.item.pick) : plan.rest))
    const isLocation = kind === 'item' && plan.item.from === 'location' && this.#location !== undefined
    let path = isLocation ? String(this.#location) : ['/api', ...segments.map((one) => spelled(one, plan))].join('/')
    const hasBody = ['POST', 'PUT', 'PATCH'].includes(method)
    if (plan.slash && !isLocation) path += '/'
    if (plan.spelling === 'malformed' && !isLocation && segments.length > 0 && !hasBody && method !== 'OPTIONS') {
      path = `${path.replace(/\/$/, '')}%E0%A4`
    }
    if (method === 'GET' || method === 'HEAD') {
      const { asOf } = plan
      const moment = typeof asOf === 'number' ? Math.floor(asOf * (this.#model.head + 1)) : asOf
      path += searchOf(kind === 'collection' ? plan.query : [], moment === undefined ? [] : [['asOf', String(moment)]])
    }
    if (method === 'DELETE' && kind === 'collection' && plan.item.pick % 4 > 0) path += '?all=true'
    const headers: Record<string, string> = { 'X-Request-Id': `request-${index}` }
    // Requests with an Origin go through Koa; plain ones without go through the fast front.
    if (index % 2 === 0) headers.Origin = 'http://localhost'
    const tagOf = kind === 'collection' ? this.#model.tagOfCollection(collection) : item && this.#model.tagOfItem(item)
    const current = tagOf && this.#model.tagFor(tagOf)
    const ifMatch = this.#tags(plan.ifMatch, current, plan.item.pick)
    if (ifMatch !== undefined && method !== 'GET' && method !== 'HEAD') headers['If-Match'] = ifMatch
    const ifNoneMatch = this.#tags(plan.ifNoneMatch, current, plan.item.pick)
    // On a write it mostly means refusal; a fourth of them is enough.
    if (ifNoneMatch !== undefined && (!hasBody || plan.item.pick % 4 === 0)) headers['If-None-Match'] = ifNoneMatch
    if (plan.prefer !== undefined) headers.Prefer = plan.prefer
    if (plan.key !== undefined && (hasBody || method === 'DELETE')) headers['Idempotency-Key'] = plan.key
    if (!hasBody) return { method, path, headers }
    const bodyPlan = method === 'PATCH' ? plan.patch : plan.whole
    const isPatch = method === 'PATCH' && bodyPlan.type === 'operations'
    const type = plan.type ?? (isPatch ? 'application/json-patch+json' : 'application/json')
    const body = bytesOf(bodyPlan, key, item, collection === EDGE)
    if (type !== '') headers['Content-Type'] = type
    const { chunked, coding } = plan
    return { method, path, headers, body, ...(chunked && { chunked }), ...(coding && { coding }) }
  }

  #keyOf({ item: { from, pick } }: Plan, items: readonly Item[]): string {
    const existing = items[pick % Math.max(1, items.length)]
    if (from === 'existing' && existing) return String(existing.id)
    return NAMES[pick % NAMES.length] ?? ''
  }

  #tags(which: Tagged, current: string | undefined, pick: number): string | undefined {
    const seen = [...this.#model.tags.values()]
    const stale = seen[pick % Math.max(1, seen.length)] ?? '"none"'
    switch (which) {
      case 'nothing':
        return undefined
      case 'star':
        return '*'
      case 'current':
        return current ?? stale
      case 'weak':
        return `W/${current ?? stale}`
      case 'stale':
        return stale
      case 'junk':
        return pick % 2 === 0 ? '"junk"' : 'junk'
      default:
        return `"junk", ${stale}, ${current ?? '"none"'}`
    }
  }

  #send({ method, path, headers, body: plain, chunked, coding }: Request): Promise<Answer> {
    return within(
      `the response to ${method} ${path}`,
      new Promise((resolve, reject) => {
        const body = plain && coding ? { gzip: gzipSync, deflate: deflateSync }[coding](plain) : plain
        const encoding = coding ? { 'Content-Encoding': coding } : {}
        const length = body && !chunked ? { 'Content-Length': String(body.length) } : {}
        const transfer = body && chunked ? { 'Transfer-Encoding': 'chunked' } : {}
        const { hostname, port } = new URL(this.#running.url)
        const options = {
          hostname,
          port,
          path,
          method,
          agent: this.#agent,
          headers: { ...headers, ...length, ...transfer, ...encoding },
        }
        const outgoing = httpRequest(options, (incoming) => {
          const pieces: Buffer[] = []
          incoming.on('data', (piece: Buffer) => pieces.push(piece))
          incoming.on('error', reject)
          incoming.on('end', () => {
            const { statusCode = 0, headers } = incoming
            resolve({ status: statusCode, headers, text: Buffer.concat(pieces).toString('utf8') })
          })
        })
        outgoing.on('error', reject)
        outgoing.end(body)
      }),
    )
  }

  #compare(request: Request, expected: Expected, { status, headers, text }: Answer): void {
    assert.equal(status, expected.status, 'status')
    assert.equal(headers['journal-position'], String(expected.position), 'Journal-Position')
    const isHead = request.method === 'HEAD'
    if (expected.problem !== undefined) {
      assert.equal(headers['content-type'], 'application/problem+json', 'Content-Type')
      if (isHead) assert.equal(text, '', 'body')
      else checkProblem(JSON.parse(text) as JsonRecord, expected, request)
    } else if (expected.text === undefined || expected.allow) {
      assert.equal(text, '', 'body')
    } else {
      assert.equal(headers['content-type'], 'application/json', 'Content-Type')
      assert.equal(text, isHead ? '' : expected.text, 'body')
      assert.equal(headers['content-length'], String(Buffer.byteLength(expected.text)), 'Content-Length')
    }
    this.#checkTag(expected, headers.etag)
    checkLocation(expected, headers.location)
    if (status !== 304) {
      assert.equal(headers['x-total-count'], expected.total?.toString(), 'X-Total-Count')
      checkLinks(expected, headers.link?.toString())
    }
    assert.deepEqual(headers.allow?.split(', ').sort(), expected.allow, 'Allow')
    const patches = status === 415 ? request.method === 'PATCH' : status === 200 && expected.allow?.includes('PATCH')
    assert.deepEqual(headers['accept-patch'] !== undefined, patches ?? false, 'Accept-Patch')
    if (expected.isPast && status < 400) assert.equal(headers['cache-control'], 'private, no-cache', 'Cache-Control')
    const applied = expected.preferenceApplied ? 'return=representation' : undefined
    assert.equal(headers['preference-applied'], applied, 'Preference-Applied')
  }

  /** The same data has the same tag, other data another one. */
  #checkTag({ tag }: Expected, found: string | undefined): void {
    if (!tag) {
      assert.equal(found, undefined, 'ETag')
      return
    }
    assert.match(found ?? '', /^"[!-~]+"$/, 'ETag')
    const name = `${tag.kind} ${tag.content}`
    const meaning = `${tag.kind} ${found}`
    assert.equal(this.#model.tags.get(name) ?? found, found, 'the same data has another ETag than before')
    assert.equal(this.#meanings.get(meaning) ?? name, name, 'other data has the same ETag')
    this.#model.tags.set(name, found ?? '')
    this.#meanings.set(meaning, name)
  }
}

function checkProblem(problem: JsonRecord, { problem: code, status }: Expected, { path }: Request): void {
  assert.equal(problem.type, `urn:recollect:problem:${code}`, 'type')
  assert.equal(problem.status, status, 'status of the problem')
  assert.ok(typeof problem.title === 'string' && problem.title !== '', 'title')
  assert.ok(typeof problem.detail === 'string' && problem.detail !== '', 'detail')
  assert.equal(problem.instance, path.split('?')[0], 'instance')
  if (status === 422) assert.ok(Array.isArray(problem.errors), 'errors')
  for (const fault of (problem.errors ?? []) as JsonRecord[]) {
    assert.deepEqual([typeof fault.pointer, typeof fault.message], ['string', 'string'], 'errors')
  }
}

function checkLocation({ location }: Expected, found: string | undefined): void {
  if (!location) {
    assert.equal(found, undefined, 'Location')
    return
  }
  assert.match(found ?? '', /^\/api\/[!-~]+\/[!-~]+$/, 'Location')
  assert.deepEqual(found?.split('/').slice(2).map(decodeURIComponent), location, 'Location')
}

function checkLinks({ links }: Expected, found: string | undefined): void {
  if (!links) {
    assert.equal(found, undefined, 'Link')
    return
  }
  const at: Record<string, number> = {}
  for (const [, target = '', relation = ''] of (found ?? '').matchAll(/<([^>]*)>; rel="(\w+)"(?:, |$)/g)) {
    const [path = '', search = ''] = target.split('?')
    assert.equal(decodeURIComponent(path), `/api/${links.collection}`, 'Link')
    const parameters: [string, string][] = [...new URLSearchParams(search)]
    const { others, shorter }: Links = links
    assert.deepEqual(
      parameters.filter(([name]) => name !== links.parameter),
      relation === 'prev' && shorter ? [...others.filter(([name]) => name !== shorter[0]), shorter] : others,
      `the other parameters in Link ${relation}`,
    )
    const starts: [string, string][] = parameters.filter(([name]) => name === links.parameter)
    assert.equal(starts.length, 1, `${links.parameter} in Link ${relation}`)
    at[relation] = Number(starts[0]?.[1])
  }
  assert.deepEqual(at, links.at, 'Link')
}

function checkEvent(found: JsonRecord, expected: Event | undefined, context: string): void {
  assert.ok(expected)
  const { time, requestId, journal: _, ...rest } = found
  assert.equal(new Date(String(time)).toISOString(), time, `the time of event ${expected.position}; ${context}`)
  const { requestId: wanted, ...others } = expected
  if (wanted !== undefined) assert.equal(requestId, wanted, `the request of event ${expected.position}; ${context}`)
  assert.equal(sorted(rest), sorted(others), `event ${expected.position}; ${context}`)
}

/** Members of the event in any order; those of the item as they are. */
function sorted(event: object): string {
  return JSON.stringify(Object.entries(event).sort(([a], [b]) => (a < b ? -1 : 1)))
}

function collectionOf({ path }: Request): string | undefined {
  try {
    return decodeURIComponent(path.split(/[?/]/)[2] ?? '')
  } catch {
    return undefined
  }
}

function shown({ method, path, headers, body, chunked, coding }: Request): string {
  const text = body && JSON.stringify(body.toString('latin1').slice(0, 600))
  return [
    method,
    path.slice(0, 600),
    JSON.stringify(headers),
    ...(chunked ? ['chunked'] : []),
    coding ?? '',
    text ?? '',
  ].join(' ')
}

/** Built by hand, as an object would take `__proto__` for something else. */
function textOf(state: ReadonlyMap<string, readonly JsonRecord[]>): string {
  const members = [...state].map(([name, items]) => `  ${JSON.stringify(name)}: ${JSON.stringify(items)}`)
  return `{\n${members.join(',\n')}\n}\n`
}

function spelled(segment: string, { spelling }: Plan): string {
  if (spelling === 'escaped') {
    return [...Buffer.from(segment)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')
  }
  const usual = encodeURIComponent(segment)
  return spelling === 'bare' ? usual.replace(/%(3A|40|24|26|2B|2C|3B|3D)/g, decodeURIComponent) : usual
}

type Parameters = readonly (readonly [name: string, value: string])[]

function searchOf(query: Plan['query'], more: Parameters): string {
  if (query === 'many') return `?${'a=1&'.repeat(1001)}`
  if (query === 'malformed') return '?name=%E0%A4'
  const pieces = [...query, ...more].map(([name, value], index) => {
    const text = encodeURIComponent(value)
    return `${encodeURIComponent(name)}=${index % 2 === 0 ? text : text.replaceAll('%20', '+').replaceAll('%2C', ',')}`
  })
  return pieces.length === 0 ? '' : `?${pieces.join('&')}`
}

function bytesOf(plan: BodyPlan, key: string, item: Item | undefined, isEdge: boolean): Buffer {
  switch (plan.type) {
    case 'bytes':
      return plan.bytes
    case 'item':
      return Buffer.from(JSON.stringify(withId(plan.item, plan.id, key, isEdge)))
    case 'merge':
      return Buffer.from(JSON.stringify(withId(plan.patch, plan.id, key, isEdge)))
    default: {
      const operations = plan.operations.map(({ operation, true: isTrue }) =>
        isTrue && operation.op === 'test' ? { ...operation, value: valueAt(item, String(operation.path)) } : operation,
      )
      return Buffer.from(JSON.stringify(operations))
    }
  }
}

/** A walk to something inside the value. */
function placeIn(value: Json | undefined, pick: number): string[] {
  if (typeof value !== 'object' || value === null) return []
  // No URL can hold the others.
  const places = Object.entries(value).filter(([name]) => name !== '' && !/\p{Surrogate}/u.test(name))
  const [name, inner] = places[pick % Math.max(1, places.length)] ?? ['nothing']
  const id = Array.isArray(value) && typeof inner === 'object' && !Array.isArray(inner) && inner?.id
  const segment = id && pick % 2 === 0 ? String(id) : name
  return pick % 5 === 0 ? [segment] : [segment, ...placeIn(inner, Math.floor(pick / 3))]
}

function valueAt(item: Item | undefined, path: string): Json {
  const tokens = path.split('/').filter((token) => token !== '')
  let value: Json = item?.value ?? null
  for (const token of tokens) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, token)) return null
    value = (value as JsonRecord)[token] ?? null
  }
  return value
}

function withId(
  body: JsonRecord,
  plan: Extract<BodyPlan, { type: 'item' }>['id'],
  key: string,
  isEdge: boolean,
): JsonRecord {
  switch (plan.type) {
    case 'none':
      return body
    case 'same':
      return { id: key, ...body }
    case 'retyped':
      return { ...body, id: String(Number(key)) === key ? Number(key) : key }
    default: {
      const id = plan.id === 2 ** 52 && !isEdge ? 30 : plan.id
      return plan.first ? { id, ...body } : { ...body, id }
    }
  }
}
