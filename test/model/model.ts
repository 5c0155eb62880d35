/**
 * The promises of the interface, said a second time and as plainly as possible: lists that are searched from the
 * front, one request after the other, no disk. It shares no line with the server, so that a mistake has to be
 * made twice to stay unseen. Where the two differ, docs/api.md says which one is wrong.
 */

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json }
export type JsonRecord = { [name: string]: Json }
export type Id = string | number

export interface Request {
  readonly method: string
  /** As it is sent, with the query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Buffer
  /** Sent without a Content-Length. */
  readonly chunked?: boolean
  /** Sent compressed. */
  readonly coding?: 'gzip' | 'deflate'
}

/** The expected members of a response. A member that is not named must be missing. */
export interface Expected {
  readonly status: number
  /** The journal's position that the answer must name. */
  readonly position: number
  /** The exact text; undefined for none. */
  readonly text?: string
  /** The code of the problem document that is the body. */
  readonly problem?: string
  readonly tag?: TagOf
  readonly location?: readonly [collection: string, key?: string]
  readonly total?: number
  readonly links?: Links
  readonly allow?: readonly string[]
  readonly preferenceApplied?: boolean
  /** It shows what was. */
  readonly isPast?: boolean
}

/** Where the other pages are: what the parameter that counts must say, beside all other parameters as they were. */
export interface Links {
  readonly collection: string
  readonly parameter: string
  readonly others: readonly (readonly [name: string, value: string])[]
  /** The size of the previous page when it differs: it ends where this page begins. */
  readonly shorter?: readonly [name: string, value: string]
  readonly at: Readonly<Partial<Record<'first' | 'prev' | 'next' | 'last', number>>>
}

/** The value behind an entity tag: two responses have the same tag exactly when their values are equal. */
export interface TagOf {
  readonly kind: 'item' | 'collection' | 'value' | 'names'
  readonly content: string
}

export interface Event {
  readonly position: number
  readonly type: string
  readonly collection: string
  readonly id?: Id
  readonly revision?: number
  readonly prior?: number
  readonly actor: string
  readonly requestId?: string
  readonly item?: JsonRecord
  readonly ids?: readonly Id[]
}

export interface Rules {
  readonly upsertOnPut: boolean
  readonly clientIdsOnPost: boolean
  readonly bodyBytes: number
  readonly pageSize: number
}

export interface Item {
  readonly id: Id
  readonly value: JsonRecord
}

/** The state of a collection as a read sees it. */
interface Seen {
  exists: boolean
  items: Item[]
  /** The position of its last event. */
  position: number
}

interface Collection extends Seen {
  /** The last event of every item that there ever was, by key. */
  readonly history: Map<string, { readonly revision: number; readonly position: number }>
  next: number
}

type Kind = 'names' | 'collection' | 'item' | 'inside'

const ALLOWED: Readonly<Record<Kind, readonly string[]>> = {
  // POST of a whole data file and writes inside items have tests of their own.
  names: ['GET', 'HEAD', 'OPTIONS', 'POST'],
  collection: ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'POST', 'PUT'],
  item: ['DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'PUT'],
  inside: ['GET', 'HEAD', 'OPTIONS', 'PATCH', 'PUT'],
}

const JSON_PATCH = 'application/json-patch+json'
const NESTING = 100
const MERGES = ['application/merge-patch+json', 'application/json+merge-patch', 'application/json']
const HIGHEST_ID = 2 ** 52

/** An instant before every event. */
export const LONG_AGO = '1999-12-31T23:59:59Z'

class Refused extends Error {
  readonly status: number
  readonly code: string

  constructor(status: number, code: string) {
    super(code)
    this.status = status
    this.code = code
  }
}

const invalid = () => new Refused(400, 'Invalid')
const unknownParent = () => new Refused(400, 'UnknownParent')
const notFound = () => new Refused(404, 'NotFound')
const conflict = () => new Refused(409, 'Conflict')
const failed = () => new Refused(412, 'PreconditionFailed')
const unsupported = () => new Refused(415, 'UnsupportedMediaType')
const unprocessable = () => new Refused(422, 'Unprocessable')

export class Model {
  rules: Rules
  readonly events: Event[] = []
  /** The tags seen so far, by what they stand for. */
  readonly tags = new Map<string, string>()
  readonly #collections = new Map<string, Collection>()
  readonly #remembered = new Map<string, { readonly request: string; readonly answer: Expected }>()

  constructor(rules: Rules) {
    this.rules = rules
  }

  get head(): number {
    return this.events.length
  }

  names(collections: ReadonlyMap<string, Seen> = this.#collections): string[] {
    const ever = this.events.filter(({ type }) => type === 'CollectionCreated').map(({ collection }) => collection)
    return [...new Set(ever)].filter((name) => collections.get(name)?.exists)
  }

  items(name: string, collections: ReadonlyMap<string, Seen> = this.#collections): readonly Item[] {
    return this.#find(name, collections)?.items ?? []
  }

  tagFor({ kind, content }: TagOf): string | undefined {
    return this.tags.get(`${kind} ${content}`)
  }

  tagOfItem({ value }: Item): TagOf {
    return { kind: 'item', content: JSON.stringify(value) }
  }

  tagOfCollection(name: string): TagOf {
    return { kind: 'collection', content: String(this.#find(name)?.position) }
  }

  /** The expected response of the server. A write changes the model. */
  answer(request: Request): Expected {
    const [path = ''] = request.path.split('?')
    const search = request.path.slice(path.length + 1)
    const raw = path.split('/').slice(2)
    if (raw.at(-1) === '') raw.pop()
    const kind = (['names', 'collection', 'item'] as const)[raw.length] ?? 'inside'
    const allow = ALLOWED[kind]
    if (request.method === 'OPTIONS') return { status: 200, position: this.head, text: '', allow }
    if (!allow.includes(request.method)) {
      return { status: 405, position: this.head, problem: 'MethodNotAllowed', allow }
    }
    try {
      const segments = raw.map(decodePath)
      if (request.method === 'GET' || request.method === 'HEAD') return this.#read(request, kind, segments, search)
      return this.#write(request, segments, path, search)
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      return { status: error.status, position: this.head, problem: error.code }
    }
  }

  #write(request: Request, segments: string[], path: string, search: string): Expected {
    const [name = '', key = ''] = segments
    if (segments.length === 1 && request.method !== 'POST') return this.#writeCollection(request, name, path, search)
    switch (request.method) {
      case 'POST': {
        const { json } = readBody(request, ['application/json'], this.rules)
        if (Array.isArray(json)) {
          const items = json.map(itemOf)
          return this.#once(request, path, () => this.#postAll(request, name, items))
        }
        const item = itemOf(json)
        return this.#once(request, path, () => this.#post(request, name, item))
      }
      case 'PUT': {
        const { json } = readBody(request, ['application/json'], this.rules)
        const item = itemOf(json)
        return this.#once(request, path, () => this.#put(request, name, key, item))
      }
      case 'PATCH': {
        const { type, json } = readBody(request, [...MERGES, JSON_PATCH], this.rules)
        const change = type === JSON_PATCH ? operationsOf(json) : mergeOf(json)
        return this.#once(request, path, () => this.#patch(request, name, key, change))
      }
      default:
        return this.#once(request, path, () => this.#delete(request, name, key))
    }
  }

  /** PUT creates it, DELETE with `all=true` removes it. */
  #writeCollection(request: Request, name: string, path: string, search: string): Expected {
    const { headers, method, body, chunked } = request
    if (method === 'PUT' && ((body?.length ?? 0) > 0 || chunked)) throw invalid()
    if (headers['If-Match'] !== undefined || headers['If-None-Match'] !== undefined) throw invalid()
    if (method === 'DELETE' && (search !== 'all=true' || path.endsWith('/'))) throw invalid()
    return this.#once(request, path, () => {
      const collection = this.#collection(name)
      if (method === 'PUT') {
        if (collection.exists) return { status: 204, position: this.head }
        this.#happened(name, { type: 'CollectionCreated', ...by(request) })
        collection.exists = true
        return { status: 201, position: this.head, location: [name], text: '[]' }
      }
      if (!collection.exists) throw notFound()
      const ids = this.items(name).map(({ id }) => id)
      this.#removed(name, by(request))
      const text = JSON.stringify({ deleted: ids.length, dryRun: false, writes: 1, removed: true, ids })
      return { status: 200, position: this.head, text }
    })
  }

  /** All items of a batch, or none. */
  #postAll(request: Request, name: string, all: readonly JsonRecord[]): Expected {
    const { head } = this
    const collection = this.#collection(name)
    const before = { ...collection, items: [...collection.items], history: new Map(collection.history) }
    try {
      const ids = all.map((item) => JSON.parse(this.#post(request, name, item).text ?? '').id)
      return { status: 201, position: this.head, text: JSON.stringify({ ids }) }
    } catch (error) {
      this.#collections.set(name, before)
      this.events.length = head
      throw error
    }
  }

  #read(request: Request, kind: Kind, [name = '', key = '', ...rest]: string[], search: string): Expected {
    const parameters = parametersOf(search)
    const at = this.#momentOf(parameters)
    const collections = at === undefined ? this.#collections : this.#collectionsAt(at)
    const past = at === undefined ? {} : { position: at, isPast: true }
    try {
      if (kind === 'item' || kind === 'inside') return { ...this.#get(request, collections, name, key, rest), ...past }
      if (kind === 'collection') return { ...this.#list(request, collections, name, parameters), ...past }
      const text = JSON.stringify(this.names(collections))
      return { ...this.#conditional(request, { kind: 'names', content: text }, () => ({ text })), ...past }
    } catch (error) {
      if (!(error instanceof Refused)) throw error
      return { status: error.status, position: this.head, problem: error.code, ...past }
    }
  }

  #momentOf(parameters: readonly Parameter[]): number | undefined {
    const [value, ...more] = parameters.filter(([name]) => name === 'asOf').map(([, value]) => value)
    if (value === undefined) return undefined
    // Only one of the instants is known to be before all events.
    if (more.length === 0 && value === LONG_AGO) return 0
    if (more.length > 0 || !/^[0-9]+$/.test(value) || Number(value) > this.head) throw invalid()
    return Number(value)
  }

  /** Everything that has happened up to a position happens again. */
  #collectionsAt(position: number): ReadonlyMap<string, Seen> {
    const collections = new Map<string, Seen>()
    for (const event of this.events.slice(0, position)) {
      const seen = collections.get(event.collection) ?? { exists: false, items: [], position: 0 }
      collections.set(event.collection, seen)
      seen.position = event.position
      const at = seen.items.findIndex(({ id }) => String(id) === String(event.id))
      if (event.type === 'CollectionCreated') seen.exists = true
      else if (event.type === 'CollectionRemoved') seen.exists = false
      else if (event.type === 'ItemDeleted') seen.items.splice(at, 1)
      else if (event.item && event.id !== undefined) {
        seen.items.splice(at < 0 ? seen.items.length : at, at < 0 ? 0 : 1, { id: event.id, value: event.item })
      } else {
        const places = (event.ids ?? []).map(String)
        seen.items.sort((a, b) => places.indexOf(String(a.id)) - places.indexOf(String(b.id)))
      }
    }
    return collections
  }

  #get(request: Request, collections: ReadonlyMap<string, Seen>, name: string, key: string, rest: string[]): Expected {
    if (!this.#find(name, collections)) throw unknownParent()
    const item = this.#item(name, key, collections)
    if (!item) throw rest.length > 0 ? unknownParent() : notFound()
    if (rest.length === 0) {
      const text = JSON.stringify(item.value)
      return this.#conditional(request, { kind: 'item', content: text }, () => ({ text }))
    }
    const found = rest.reduce<Json | undefined>(inside, item.value)
    if (found === undefined) throw notFound()
    const text = JSON.stringify(found)
    return this.#conditional(request, { kind: 'value', content: text }, () => ({ text }))
  }

  #list(
    request: Request,
    collections: ReadonlyMap<string, Seen>,
    name: string,
    parameters: readonly Parameter[],
  ): Expected {
    const collection = this.#find(name, collections)
    if (!collection) throw notFound()
    const { rows, total, links } = query(collection.items, parameters, this.rules.pageSize)
    const tag = { kind: 'collection', content: String(collection.position) } as const
    return this.#conditional(request, tag, () => ({
      text: JSON.stringify(rows),
      total,
      links: { collection: name, ...links },
    }))
  }

  #conditional(request: Request, tag: TagOf, full: () => Partial<Expected>): Expected {
    const tags = request.headers['If-None-Match']
    if (tags !== undefined && this.#matches(tags, tag)) return { status: 304, position: this.head, tag }
    return { status: 200, position: this.head, tag, ...full() }
  }

  /** A `W/` makes no difference. */
  #matches(header: string, tag: TagOf): boolean {
    if (header === '*') return true
    const known = this.tagFor(tag)
    return header
      .split(',')
      .map((one) => one.trim())
      .some((one) => known !== undefined && (one === known || one === `W/${known}`))
  }

  #checkConditions({ headers }: Request, item: Item | undefined): void {
    const tag = item && this.tagOfItem(item)
    const wanted = headers['If-Match']
    if (wanted !== undefined && !(tag && this.#matches(wanted, tag))) throw failed()
    const unwanted = headers['If-None-Match']
    if (unwanted !== undefined && tag && this.#matches(unwanted, tag)) throw failed()
  }

  /** A write with an Idempotency-Key happens once; only what was stored is remembered. */
  #once(request: Request, path: string, write: () => Expected): Expected {
    const key = request.headers['Idempotency-Key']
    if (key === undefined) return write()
    if (key === '' || Buffer.byteLength(key, 'latin1') > 255) throw invalid()
    const { headers, method, body } = request
    const same = ['Content-Type', 'If-Match', 'If-None-Match', 'Prefer'].map((name) => headers[name] ?? '')
    const print = JSON.stringify([method, path, ...same, method === 'DELETE' ? '' : (body?.toString('latin1') ?? '')])
    const first = this.#remembered.get(key)
    if (first) {
      if (first.request !== print) throw unprocessable()
      return first.answer
    }
    const before = this.head
    const answer = write()
    if (this.head > before) this.#remembered.set(key, { request: print, answer })
    return answer
  }

  #post(request: Request, name: string, body: JsonRecord): Expected {
    const collection = this.#collection(name)
    let id: Id = nextId(collection)
    if (this.rules.clientIdsOnPost && Object.hasOwn(body, 'id')) {
      id = acceptable(body.id ?? null)
      if (this.#item(name, String(id))) throw conflict()
    }
    return this.#create(request, name, id, body)
  }

  #put(request: Request, name: string, key: string, body: JsonRecord): Expected {
    const item = this.#item(name, key)
    this.#checkConditions(request, item)
    const named = body.id
    if (item) {
      if (named !== undefined && !isKey(named, key)) throw conflict()
      return this.#store(request, 'ItemReplaced', name, item, identified(body, item.id))
    }
    if (!this.rules.upsertOnPut) throw notFound()
    if (named !== undefined) {
      if (!isKey(named, key)) throw conflict()
      return this.#create(request, name, acceptable(named), body)
    }
    const isInteger = /^(0|[1-9][0-9]*)$/.test(key) && !this.items(name).some(({ id }) => typeof id === 'string')
    return this.#create(request, name, acceptable(isInteger ? Number(key) : key), body)
  }

  #patch(request: Request, name: string, key: string, change: (value: JsonRecord) => Json): Expected {
    const item = this.#item(name, key)
    this.#checkConditions(request, item)
    if (!item) throw notFound()
    const value = change(structuredClone(item.value))
    if (!isRecord(value)) throw unprocessable()
    if (!Object.hasOwn(value, 'id') || !isKey(value.id ?? null, key)) throw conflict()
    return this.#store(request, 'ItemPatched', name, item, identified(value, item.id))
  }

  #delete(request: Request, name: string, key: string): Expected {
    const item = this.#item(name, key)
    this.#checkConditions(request, item)
    if (!item) throw notFound()
    this.#deleted(name, item, by(request))
    return { status: 204, position: this.head }
  }

  #create(request: Request, name: string, id: Id, body: JsonRecord): Expected {
    const value = identified(body, id)
    this.#checkSize(value)
    const collection = this.#collection(name)
    if (!collection.exists) this.#happened(name, { type: 'CollectionCreated', ...by(request) })
    collection.exists = true
    collection.items.push({ id, value })
    if (isCounted(id)) collection.next = Math.max(collection.next, Number(id) + 1)
    this.#happenedTo(name, id, 'ItemCreated', by(request), value)
    const text = JSON.stringify(value)
    const isWanted = request.headers.Prefer === 'return=representation'
    return {
      status: 201,
      position: this.head,
      tag: { kind: 'item', content: text },
      location: [name, String(id)],
      text: isWanted ? text : JSON.stringify({ id }),
      ...(isWanted && { preferenceApplied: true }),
    }
  }

  #store(request: Request, type: string, name: string, item: Item, value: JsonRecord): Expected {
    this.#checkSize(value)
    const { items } = this.#collection(name)
    items[items.indexOf(item)] = { id: item.id, value }
    this.#happenedTo(name, item.id, type, by(request), value)
    const text = JSON.stringify(value)
    const tag = { kind: 'item', content: text } as const
    if (request.headers.Prefer !== 'return=representation') return { status: 204, position: this.head, tag }
    return { status: 200, position: this.head, tag, text, preferenceApplied: true }
  }

  #checkSize(value: JsonRecord): void {
    const { id: _, ...others } = value
    if (Buffer.byteLength(JSON.stringify(others)) > this.rules.bodyBytes) throw unprocessable()
  }

  #deleted(name: string, item: Item, who: Who): void {
    const collection = this.#collection(name)
    collection.items = collection.items.filter((one) => one !== item)
    this.#happenedTo(name, item.id, 'ItemDeleted', who)
  }

  #happenedTo(name: string, id: Id, type: string, who: Who, item?: JsonRecord): void {
    const { history } = this.#collection(name)
    const last = history.get(String(id))
    const revision = (last?.revision ?? 0) + 1
    this.#happened(name, { type, id, revision, prior: last?.position ?? 0, ...who, ...(item && { item }) })
    history.set(String(id), { revision, position: this.head })
  }

  #happened(collection: string, event: Omit<Event, 'position' | 'collection'>): void {
    this.events.push({ position: this.head + 1, collection, ...event })
    this.#collection(collection).position = this.head
  }

  #find(name: string, collections: ReadonlyMap<string, Seen> = this.#collections): Seen | undefined {
    const collection = collections.get(name)
    return collection?.exists ? collection : undefined
  }

  #item(name: string, key: string, collections: ReadonlyMap<string, Seen> = this.#collections): Item | undefined {
    return this.items(name, collections).find(({ id }) => String(id) === key)
  }

  #collection(name: string): Collection {
    let collection = this.#collections.get(name)
    if (!collection) {
      collection = { exists: false, items: [], history: new Map(), next: 0, position: 0 }
      this.#collections.set(name, collection)
    }
    return collection
  }

  /** The expected content of the data file. */
  state(): Map<string, readonly JsonRecord[]> {
    return new Map(this.names().map((name) => [name, this.items(name).map(({ value }) => value)]))
  }

  /** The first start: everything in the data file is new. */
  begin(file: Readonly<Record<string, readonly JsonRecord[]>>): void {
    for (const [name, items] of Object.entries(file)) {
      const collection = this.#collection(name)
      collection.exists = true
      this.#happened(name, { type: 'CollectionCreated', ...BY_HAND })
      for (const { id } of items) if (isCounted(id)) collection.next = Math.max(collection.next, Number(id) + 1)
      for (const item of items) this.handCreated(name, item)
    }
  }

  handCreated(name: string, item: JsonRecord): void {
    const collection = this.#collection(name)
    const id = Object.hasOwn(item, 'id') ? (item.id as Id) : nextId(collection)
    const value = identified(item, id)
    if (isCounted(id)) collection.next = Math.max(collection.next, Number(id) + 1)
    collection.items.push({ id, value })
    this.#happenedTo(name, id, 'ItemCreated', BY_HAND, value)
  }

  handReplaced(name: string, item: Item, value: JsonRecord): void {
    const { items } = this.#collection(name)
    const id = value.id as Id
    items[items.indexOf(item)] = { id, value }
    this.#happenedTo(name, id, 'ItemReplaced', BY_HAND, value)
  }

  handDeleted(name: string, item: Item): void {
    this.#deleted(name, item, BY_HAND)
  }

  handOrdered(name: string, items: readonly Item[]): void {
    this.#collection(name).items = [...items]
    this.#happened(name, { type: 'CollectionOrdered', ids: items.map(({ id }) => id), ...BY_HAND })
  }

  handRemoved(name: string): void {
    this.#removed(name, BY_HAND)
  }

  #removed(name: string, who: Who): void {
    for (const item of this.items(name)) this.#deleted(name, item, who)
    this.#happened(name, { type: 'CollectionRemoved', ...who })
    this.#collection(name).exists = false
  }
}

type Who = Pick<Event, 'actor' | 'requestId'>
const BY_HAND: Who = { actor: 'data-file' }

function by({ headers }: Request): Who {
  const requestId = headers['X-Request-Id']
  return { actor: 'anonymous', ...(requestId !== undefined && { requestId }) }
}

function isRecord(value: Json | undefined): value is JsonRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isKey(id: Json, key: string): boolean {
  return (typeof id === 'string' || typeof id === 'number') && String(id) === key
}

/** POST counts on from it: a canonical integer, as a number or as text. Text beyond 2^52 is but text. */
function isCounted(id: Json | undefined): boolean {
  if (typeof id === 'number') return Number.isInteger(id) && id >= 0
  return typeof id === 'string' && /^(0|[1-9][0-9]*)$/.test(id) && BigInt(id) <= BigInt(HIGHEST_ID)
}

/** Text beyond 2^52 is not counted, but what it names is not to be named twice. */
function nextId({ next, history }: Pick<Collection, 'next' | 'history'>): number {
  return history.has(String(next)) ? nextId({ next: next + 1, history }) : next
}

function acceptable(id: Json): Id {
  if (typeof id === 'number' && Math.abs(id) <= HIGHEST_ID) return id
  if (typeof id === 'string' && id !== '' && !/\p{Surrogate}/u.test(id)) return id
  throw unprocessable()
}

/** The id stands where the body had it, else first. */
function identified(body: JsonRecord, id: Id): JsonRecord {
  return Object.hasOwn(body, 'id') ? { ...body, id } : { id, ...body }
}

function decodePath(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    throw invalid()
  }
}

function inside(value: Json | undefined, segment: string): Json | undefined {
  if (Array.isArray(value)) {
    const named = value.filter((element) => isRecord(element) && ['string', 'number'].includes(typeof element.id))
    if (named.length > 0) return named.find((element) => isKey((element as JsonRecord).id ?? null, segment))
    return /^(0|[1-9][0-9]*)$/.test(segment) ? value[Number(segment)] : undefined
  }
  return isRecord(value) && Object.hasOwn(value, segment) ? value[segment] : undefined
}

// Bodies

function readBody(request: Request, types: readonly string[], rules: Rules): { type: string; json: Json } {
  const { body = Buffer.alloc(0), headers, chunked, coding } = request
  if (body.length === 0 && !chunked && !coding) throw invalid()
  const [type = '', ...parameters] = (headers['Content-Type'] ?? '').toLowerCase().split(/\s*;\s*/)
  if (!types.includes(type)) throw unsupported()
  for (const parameter of parameters) {
    const [name, value] = parameter.split('=')
    if (name === 'charset' && !['utf-8', '"utf-8"'].includes(value ?? '')) throw unsupported()
  }
  if (body.length > rules.bodyBytes) throw new Refused(413, 'TooLarge')
  const text = body.toString('utf8')
  if (!Buffer.from(text).equals(body)) throw invalid()
  return { type, json: readJson(text) }
}

function readJson(text: string): Json {
  let json: Json
  try {
    json = JSON.parse(text) as Json
  } catch {
    throw invalid()
  }
  if (isNested(json, 100) || names(json).includes('__proto__')) throw invalid()
  const numbers = (text.replace(/"(\\.|[^"\\])*"/g, '""').match(/-?[0-9][0-9.eE+-]*/g) ?? []) as string[]
  if (numbers.some((number) => !Number.isFinite(Number(number)))) throw invalid()
  if (numbers.some((number) => Number(number) === 0 && /^-?[0.]*[1-9]/.test(number))) throw invalid()
  if (numbers.some(isRounded)) throw unprocessable()
  return json
}

/** Beyond 2^53, also where the nearest double is 2^53. */
function isRounded(number: string): boolean {
  const integer = /^-?([0-9]+)(\.0+)?$/.exec(number)?.[1]
  return integer === undefined ? Math.abs(Number(number)) > 2 ** 53 : BigInt(integer) > 2n ** 53n
}

function isNested(value: Json, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((inner) => isNested(inner, levels - 1))
}

function names(value: Json): string[] {
  if (typeof value !== 'object' || value === null) return []
  return [...(Array.isArray(value) ? [] : Object.keys(value)), ...Object.values(value).flatMap(names)]
}

function itemOf(json: Json): JsonRecord {
  if (json === null) throw invalid()
  if (!isRecord(json)) throw unprocessable()
  return json
}

// Patches

function mergeOf(patch: Json): (value: JsonRecord) => Json {
  if (!isRecord(patch) || Object.keys(patch).length === 0) throw invalid()
  return (value) => merged(value, patch)
}

/** RFC 7396, section 2, as it stands there. */
function merged(target: Json | undefined, patch: Json): Json {
  if (!isRecord(patch)) return patch
  const result = isRecord(target) ? target : {}
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete result[name]
    else result[name] = merged(Object.hasOwn(result, name) ? result[name] : undefined, value)
  }
  return result
}

type Pointer = string[]
interface Operation {
  op: string
  path: Pointer
  from: Pointer
  value: Json
}

function operationsOf(json: Json): (value: JsonRecord) => Json {
  if (!Array.isArray(json) || json.length === 0) throw invalid()
  const operations = json.map((one): Operation => {
    if (!isRecord(one) || typeof one.op !== 'string') throw invalid()
    const { op } = one
    if (!['add', 'remove', 'replace', 'move', 'copy', 'test'].includes(op)) throw invalid()
    if (['add', 'replace', 'test'].includes(op) && !Object.hasOwn(one, 'value')) throw invalid()
    const from = op === 'move' || op === 'copy' ? pointerOf(one.from) : []
    return { op, path: pointerOf(one.path), from, value: one.value ?? null }
  })
  return (value) => {
    // The document is the one member of another object, so that its own place is a place like any other.
    const place: JsonRecord = { '': value }
    for (const operation of operations) operate(place, operation)
    return place[''] ?? null
  }
}

function pointerOf(text: Json | undefined): Pointer {
  if (typeof text !== 'string' || /~([^01]|$)/.test(text)) throw invalid()
  const full = text === '' || text.startsWith('/') ? text : `/${text}`
  return full.split('/').map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))
}

function operate(place: JsonRecord, { op, path, from, value }: Operation): void {
  switch (op) {
    case 'add':
      add(place, path, value)
      return
    case 'remove':
      remove(place, path)
      return
    case 'replace': {
      get(place, path)
      const parent = get(place, path.slice(0, -1))
      const last = path.at(-1) ?? ''
      refuseDeep(path, value)
      if (Array.isArray(parent)) parent[Number(last)] = structuredClone(value)
      else if (isRecord(parent)) parent[last] = structuredClone(value)
      return
    }
    case 'copy':
      add(place, path, get(place, from))
      return
    case 'move': {
      get(place, from)
      const isWithin = from.every((token, index) => token === path[index])
      if (isWithin && from.length < path.length) throw unprocessable()
      if (isWithin) return
      add(place, path, remove(place, from))
      return
    }
    default:
      if (!isSame(get(place, path), value)) throw conflict()
  }
}

function get(place: Json, path: Pointer): Json {
  let current = place
  for (const token of path) {
    const next = Array.isArray(current)
      ? isIndex(token, current.length - 1)
        ? current[Number(token)]
        : undefined
      : isRecord(current) && isSafe(token) && Object.hasOwn(current, token)
        ? current[token]
        : undefined
    if (next === undefined) throw unprocessable()
    current = next
  }
  return current
}

function add(place: Json, path: Pointer, value: Json): void {
  const parent = get(place, path.slice(0, -1))
  const last = path.at(-1) ?? ''
  refuseDeep(path, value)
  if (Array.isArray(parent)) {
    if (last !== '-' && !isIndex(last, parent.length)) throw unprocessable()
    parent.splice(last === '-' ? parent.length : Number(last), 0, structuredClone(value))
  } else if (isRecord(parent) && isSafe(last)) parent[last] = structuredClone(value)
  else throw unprocessable()
}

/** No operation may bring a value that is nested too deep, also when a later one would take it away. */
function refuseDeep(path: Pointer, value: Json): void {
  if (path.length - 1 + nestingOf(value) > NESTING) throw unprocessable()
}

function nestingOf(value: Json): number {
  if (value === null || typeof value !== 'object') return 0
  return 1 + Math.max(0, ...Object.values(value).map(nestingOf))
}

function remove(place: Json, path: Pointer): Json {
  const value = get(place, path)
  const parent = get(place, path.slice(0, -1))
  const last = path.at(-1) ?? ''
  if (path.length === 1) throw unprocessable()
  if (Array.isArray(parent)) parent.splice(Number(last), 1)
  else if (isRecord(parent)) delete parent[last]
  return value
}

function isIndex(token: string, highest: number): boolean {
  return /^(0|[1-9][0-9]*)$/.test(token) && Number(token) <= highest
}

function isSafe(token: string): boolean {
  return token !== '__proto__'
}

function isSame(a: Json, b: Json): boolean {
  return sortedText(a) === sortedText(b)
}

function sortedText(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(sortedText)}]`
  if (!isRecord(value)) return JSON.stringify(value)
  const members = Object.entries(value).map(([name, member]) => `${JSON.stringify(name)}:${sortedText(member)}`)
  return `{${members.sort()}}`
}

// Queries

const OPERATORS = ['eq', 'ne', 'gt', 'gte', 'lt', 'lte', 'in', 'contains', 'startswith', 'endswith', 'exists']
const FAMILIES = [
  ['page', 'pageSize'],
  ['page', 'per_page'],
  ['skip', 'take'],
  ['offset', 'limit'],
] as const
const PAGING: readonly string[] = FAMILIES.flat()
const PARAMETERS = 1000

function query(items: readonly Item[], parameters: readonly Parameter[], largest: number) {
  const filters = new Map<string, string[]>()
  for (const [name, value] of parameters) {
    if (PAGING.includes(name) || ['q', 'sort', 'fields', 'asOf'].includes(name)) continue
    if (name.endsWith('_exists') && name !== '_exists' && !['true', 'false'].includes(value)) throw invalid()
    filters.set(name, [...(filters.get(name) ?? []), value])
  }
  const valuesOf = (wanted: string) => parameters.filter(([name]) => name === wanted).map(([, value]) => value)

  let rows = items.map(({ value }) => value)
  for (const [name, values] of filters) rows = rows.filter((row) => isMatch(row, name, values))
  const texts = valuesOf('q')
  if (texts.length > 0) rows = rows.filter((row) => texts.some((text) => isMentioned(row, text)))
  const total = rows.length

  const orders = valuesOf('sort').flatMap((list) =>
    list
      .split(',')
      .filter((one) => one !== '')
      .map(orderOf),
  )
  rows = rows.toSorted((a, b) => orders.map((order) => order(a, b)).find((result) => result !== 0) ?? 0)

  const { skip, size, links } = pageOf(parameters, total, largest)
  rows = rows.filter((_, index) => index >= skip && index < skip + size)

  const fields = valuesOf('fields').flatMap((list) => list.split(',').filter((one) => one !== ''))
  if (valuesOf('fields').length > 0) rows = rows.map((row) => only(row, fields) as JsonRecord)
  return { rows, total, links }
}

type Parameter = readonly [name: string, value: string]

function parametersOf(search: string): readonly Parameter[] {
  const pieces = search.split('&').filter((piece) => piece !== '')
  if (pieces.length > PARAMETERS) throw invalid()
  return pieces.map((piece) => {
    const [name = '', ...rest] = piece.split('=').map((part) => part.replaceAll('+', '%20'))
    return [decodePath(name), decodePath(rest.join('='))]
  })
}

/** All that the dotted path leads to; through an array it leads to each element. */
function reached(value: Json, path: readonly string[]): Json[] {
  const [first, ...rest] = path
  if (Array.isArray(value)) {
    return [...(first === undefined ? [value] : []), ...value.flatMap((element) => reached(element, path))]
  }
  if (first === undefined) return [value]
  return isRecord(value) && Object.hasOwn(value, first) ? reached(value[first] ?? null, rest) : []
}

function isMatch(row: JsonRecord, name: string, values: readonly string[]): boolean {
  const operator = OPERATORS.find((one) => name.endsWith(`_${one}`) && name !== `_${one}`)
  const field = operator ? name.slice(0, -operator.length - 1) : name
  const found = reached(row, field.split('.'))
  if (operator === 'exists') return values.includes(String(found.length > 0))
  if (operator === 'ne') {
    return found.some((value) => {
      const isAny = (how: string) => values.some((wanted) => isHeld(how, value, wanted))
      return isAny('ne') && !isAny('eq')
    })
  }
  return found.some((value) => values.some((wanted) => isHeld(operator ?? 'eq', value, wanted)))
}

function isHeld(operator: string, value: Json, wanted: string): boolean {
  if (operator === 'in') return wanted.split(',').some((one) => isHeld('eq', value, one))
  if (operator === 'contains') return typeof value === 'string' && value.includes(wanted)
  if (operator === 'startswith') return typeof value === 'string' && value.startsWith(wanted)
  if (operator === 'endswith') return typeof value === 'string' && value.endsWith(wanted)
  const other = readLike(value, wanted)
  if (other === undefined) return false
  // A date-time is compared as text with a value that is text.
  const order = classOf(value) === 'text' ? compareCodePoints(String(value), wanted) : compare(value, other)
  const holds = { eq: order === 0, ne: order !== 0, gt: order > 0, gte: order >= 0, lt: order < 0, lte: order <= 0 }
  return holds[operator as keyof typeof holds]
}

/** The filter's text, read as the class of thing that the value is. */
function readLike(value: Json, text: string): Json | undefined {
  if (classOf(value) === 'text') return text
  if (classOf(value) === 'time') {
    const zoned = text.replace(/ ([0-9:]+)$/, '+$1')
    return instant(zoned) === undefined ? undefined : zoned
  }
  try {
    const read = JSON.parse(text) as Json
    return text.trim() === text && classOf(read) === classOf(value) ? read : undefined
  } catch {
    return undefined
  }
}

const CLASSES = ['null', 'boolean', 'number', 'time', 'text', 'array', 'object'] as const

function classOf(value: Json): (typeof CLASSES)[number] {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  if (typeof value === 'string') return instant(value) === undefined ? 'text' : 'time'
  return typeof value as 'boolean' | 'number' | 'object'
}

function compare(a: Json, b: Json): number {
  const kind = classOf(a)
  if (kind !== classOf(b)) return CLASSES.indexOf(kind) - CLASSES.indexOf(classOf(b))
  if (kind === 'time') return Number((instant(String(a)) ?? 0n) - (instant(String(b)) ?? 0n))
  if (kind === 'boolean' || kind === 'number') return Number(a) - Number(b)
  if (kind === 'text') return compareCodePoints(String(a), String(b))
  const [left, right] = [sequence(a), sequence(b)]
  for (const [index, one] of left.entries()) {
    const other = right[index]
    const order = other === undefined ? 1 : compare(one, other)
    if (order !== 0) return order
  }
  return left.length - right.length
}

/** An object counts as its names, in order and as text that is no date, each before its value. */
function sequence(value: Json): Json[] {
  if (!isRecord(value)) return Array.isArray(value) ? value : []
  const names = Object.keys(value).sort(compareCodePoints)
  return names.flatMap((name) => [`text ${name}`, value[name] ?? null])
}

function compareCodePoints(a: string, b: string): number {
  const [left, right] = [a, b].map((text) => Array.from(text, (character) => character.codePointAt(0) ?? 0))
  for (const [index, point] of (left ?? []).entries()) {
    const other = right?.[index]
    if (other === undefined) return 1
    if (point !== other) return point - other
  }
  return (left?.length ?? 0) - (right?.length ?? 0)
}

/** Microseconds since 1970. */
function instant(text: string): bigint | undefined {
  const [, day, time = '00:00', seconds = ':00', fraction = '', zone = 'Z'] =
    /^(\d{4}-\d\d-\d\d)(?:[Tt](\d\d:\d\d)(:\d\d)?(?:(?<=:\d\d:\d\d)[.,](\d+))?([Zz]|[+-]\d\d(?::?\d\d)?)?)?$/.exec(
      text,
    ) ?? []
  if (day === undefined) return undefined
  const date = new Date(`${day}T${time}${seconds}Z`)
  if (Number.isNaN(date.getTime()) || date.toISOString().slice(0, 19) !== `${day}T${time}${seconds}`) return undefined
  const [hours = 0, minutes = 0] = /\d/.test(zone) ? (zone.match(/\d\d/g) ?? []).map(Number) : []
  if (hours > 23 || minutes > 59) return undefined
  const offset = BigInt(hours * 60 + minutes) * (zone.startsWith('-') ? -1n : 1n)
  return BigInt(date.getTime()) * 1000n + BigInt(fraction.padEnd(6, '0').slice(0, 6)) - offset * 60_000_000n
}

function isMentioned(value: Json, text: string): boolean {
  if (typeof value === 'object' && value !== null) return Object.values(value).some((one) => isMentioned(one, text))
  return folded(String(value)).includes(folded(text))
}

/** Some letters have two lower or two upper cases. */
function folded(text: string): string {
  return text.toLowerCase().toUpperCase()
}

function orderOf(piece: string): (a: JsonRecord, b: JsonRecord) => number {
  const isMinus = piece.startsWith('-')
  const isDescending = isMinus || piece.endsWith('_desc')
  const field = isMinus ? piece.slice(1) : piece.replace(/^[+ ]/, '').replace(/_(asc|desc)$/, '')
  return (a, b) => {
    const [left] = reached(a, field.split('.'))
    const [right] = reached(b, field.split('.'))
    if (left === undefined || right === undefined) return Number(left === undefined) - Number(right === undefined)
    return isDescending ? compare(right, left) : compare(left, right)
  }
}

function pageOf(parameters: readonly Parameter[], total: number, largest: number) {
  const paging = parameters.filter(([name]) => PAGING.includes(name))
  const given = new Map(paging)
  const family = FAMILIES.find((names) => paging.every(([name]) => (names as readonly string[]).includes(name)))
  if (!family || given.size < paging.length) throw invalid()
  const [start, sizeName] = family
  const numberOf = (name: string, least: number): number | undefined => {
    const text = given.get(name)
    if (text === undefined) return undefined
    if (!/^[0-9]+$/.test(text) || Number(text) < least) throw invalid()
    return Number(text)
  }
  const size = numberOf(sizeName, 1) ?? Math.min(512, largest)
  if (size > largest) throw invalid()
  const pages = Math.max(1, Math.ceil(total / size))
  const others = parameters.filter(([name]) => name !== start)
  if (start === 'page') {
    const page = numberOf(start, 1) ?? 1
    const at = {
      first: 1,
      ...(page > 1 && { prev: Math.min(page - 1, pages) }),
      ...(page < pages && { next: page + 1 }),
      last: pages,
    }
    return { skip: (page - 1) * size, size, links: { parameter: start, others, at } }
  }
  const skip = numberOf(start, 0) ?? 0
  const last = (pages - 1) * size
  const at = {
    first: 0,
    ...(skip > 0 && { prev: Math.min(Math.max(0, skip - size), last) }),
    ...(skip + size < total && { next: skip + size }),
    last,
  }
  const shorter = skip > 0 && skip < size ? { shorter: [sizeName, String(skip)] as const } : {}
  return { skip, size, links: { parameter: start, others, ...shorter, at } }
}

/** Only what the dotted paths name; an array keeps its objects, each with what is named below. */
function only(value: Json, paths: readonly string[]): Json | undefined {
  if (Array.isArray(value)) {
    return value
      .filter((element) => typeof element === 'object' && element !== null)
      .map((one) => only(one, paths) ?? {})
  }
  if (!isRecord(value)) return undefined
  const kept = Object.entries(value).flatMap(([name, member]): [string, Json][] => {
    if (name.includes('.')) return []
    if (paths.includes(name)) return [[name, member]]
    const below = paths.filter((path) => path.startsWith(`${name}.`)).map((path) => path.slice(name.length + 1))
    if (below.length === 0) return []
    const inner = only(member, below)
    return inner === undefined || (isRecord(inner) && Object.keys(inner).length === 0) ? [] : [[name, inner]]
  })
  return Object.fromEntries(kept)
}
