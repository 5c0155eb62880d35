import type { Command } from '../commands/command.ts'
import type { CommandHandler } from '../commands/handler.ts'
import { Refusal } from '../errors.ts'
import { OBJECT_ID, type Position } from '../events/event.ts'
import type { Journal } from '../events/journal.ts'
import { tagOf } from '../json/tag.ts'
import { collectionPath } from '../projections/address.ts'
import type { Past } from '../projections/past.ts'
import { AnswerCache } from '../projections/query/answer-cache.ts'
import type { AnsweredAt, Queries, QuerySource } from '../projections/query/queries.ts'
import { mayBeRelative, type Parameter, parseQuery } from '../projections/query/query.ts'
import { tookTooLong } from '../projections/query/too-long.ts'
import type { Views } from '../projections/views.ts'
import { type Asker, Slices } from '../slices.ts'
import { type ApiRequest, type ApiResource, type Method, parseTags, type Reply } from './api.ts'
import { asksForPast, parseAsOf, timeOfAsOf } from './as-of.ts'
import { Batches, type BatchesOptions } from './batches.ts'
import { type Body, JSON_TYPE, PATCH_TYPES, parseAnyPatch, parseItem, readBody } from './bodies.ts'
import { createCollection, deleteItems } from './collections.ts'
import { Exports, exportOf, type TaggedQuery } from './export.ts'
import { formOf } from './formats/forms.ts'
import { textAt, writeInside } from './inner-values.ts'
import { linkOf, replyPage, resultObject } from './pages.ts'
import { replaceAll } from './replacement.ts'
import {
  apiSegments,
  type HttpQueryLimits,
  originOf,
  parametersOf,
  refuseUnheeded,
  wantsOnlyIfNewer,
} from './requests.ts'
import { allowOf, notAllowed } from './resource.ts'
import { answerWith } from './written-items.ts'

export interface ItemsOptions {
  readonly views: Views
  readonly handler: Pick<CommandHandler, 'handle' | 'bulk' | 'restore'>
  readonly past: Past
  readonly queries: Queries
  readonly journal: Pick<Journal, 'id' | 'head' | 'read'>
  readonly now: () => Date
  readonly bodies: Pick<BatchesOptions, 'bodyBytes' | 'batchBytes' | 'batchItems'>
  readonly limits: HttpQueryLimits & { readonly scanSeconds: number }
  /** A page of a collection is an object as FakeServer's. */
  readonly useResultObject: boolean
  readonly idField: string
}

const LIST_METHODS: readonly Method[] = ['GET', 'POST', 'PUT', 'DELETE']
/** POST has a route as well: its 409 explains what objects support instead. */
const OBJECT_METHODS: readonly Method[] = ['GET', 'PUT', 'PATCH', 'DELETE']
/** Size of the cache of responses to frequent queries. */
const CACHED_BYTES = 32 * 1024 * 1024

/** `/api`: the collections and their items. */
export function apiResources({
  views,
  handler,
  past,
  queries,
  journal,
  now,
  bodies,
  limits,
  useResultObject,
  idField,
}: ItemsOptions): readonly ApiResource[] {
  const answers = new AnswerCache(CACHED_BYTES)
  const slices = new Slices()
  const batches = new Batches({ handler, slices, ...bodies })
  const exports = new Exports({ queries, askerOf, tagAt, linkOf })
  const names: ApiResource = {
    path: '/api',
    routes: {
      GET: async (request, reply) => {
        const at = await momentOf(parametersOf(request, limits), reply)
        reflect(reply, at)
        const names = JSON.stringify(at === undefined ? views.names() : past.names(at))
        if (!reply.isNotModified(request, tagOf(names))) reply.json(names)
      },
      POST: (request, reply) =>
        replaceAll(request, reply, { handler, views, slices, idField, limits, batchBytes: bodies.batchBytes }),
    },
  }

  const collection: ApiResource = {
    path: '/api/:collection',
    routes: {
      GET: (request, reply) => {
        const [name] = apiSegments(request.path) as [string]
        const form = formOf(request)
        reply.vary('Accept')
        const present = views.find(name)
        const cached = form === 'json' && present && answers.find(request.base + request.url, present.position)
        if (cached) {
          reflect(reply, undefined)
          if (!reply.isNotModified(request, tagAt(present.position))) replyPage(reply, cached)
          return
        }
        const parameters = parametersOf(request, limits)
        if (asksForPast(parameters)) return readPast(request, reply, name, parameters)
        reflect(reply, undefined)
        if (!present) throw unknownCollection(name)
        if (present.isObject) return answerItem(request, reply, present.item(OBJECT_ID) as Item)
        const asked = exportOf(form, parameters)
        if (!asked) return readPage(request, reply, name, parameters, present)
        const query = queryOf(name, parameters)
        return exports.answer(request, reply, { name, parameters, ...asked, ...query }, queries.hold(present))
      },
      POST: async (request, reply) => {
        const [collection] = apiSegments(request.path) as [string]
        const body = await batches.read(request)
        if ('items' in body) return batches.create(request, reply, collection, body)
        await write(request, reply, body, { type: 'CreateItem', collection, item: parseItem(body) })
      },
    },
  }

  const item: ApiResource = {
    path: '/api/:collection/:id',
    routes: {
      GET: (request, reply) => {
        const [name, key] = apiSegments(request.path) as [string, string]
        const collection = views.find(name)
        if (request.querystring !== '' || collection?.isObject) return readValue(request, reply)
        reflect(reply, undefined)
        answerItem(request, reply, itemNow(name, key))
      },
      PUT: (request, reply) => (isObject(request.path) ? writeInner(request, reply) : replaceItem(request, reply)),
      PATCH: (request, reply) => (isObject(request.path) ? writeInner(request, reply) : patchItem(request, reply)),
      DELETE: deleteItem,
    },
  }

  const inside: ApiResource = {
    path: '/api/:collection/:id/*rest',
    routes: { GET: readValue, PUT: writeInner, PATCH: writeInner },
  }

  /** At the path of a collection, a single object is written like an item. */
  const single: ApiResource = {
    ...collection,
    routes: {
      ...collection.routes,
      PUT: (request, reply) => {
        if (isObject(request.path)) return replaceItem(request, reply)
        const [collection] = apiSegments(request.path) as [string]
        return createCollection(request, reply, collection, handler)
      },
      PATCH: (request, reply) => {
        if (isObject(request.path)) return patchItem(request, reply)
        const allow = allowOf(LIST_METHODS)
        reply.set('Allow', allow)
        throw notAllowed(request.method, allow)
      },
      DELETE: (request, reply) => {
        if (isObject(request.path)) return deleteObject(request, reply)
        const [collection] = apiSegments(request.path) as [string]
        return deleteItems(request, reply, collection, { handler, queries, now, limits })
      },
    },
    methodsAt: (path) => (isObject(path) ? OBJECT_METHODS : LIST_METHODS),
  }

  return [names, single, item, inside]

  async function replaceItem(request: ApiRequest, reply: Reply): Promise<void> {
    const body = await readBody(request, [JSON_TYPE], slices)
    const to = target(request)
    const onlyIfNewer = wantsOnlyIfNewer(request.headers) && queries.timeOf(to.collection) !== undefined
    const item = parseItem(body)
    await write(request, reply, body, { type: 'ReplaceItem', ...to, item, ...(onlyIfNewer && { onlyIfNewer }) })
  }

  async function patchItem(request: ApiRequest, reply: Reply): Promise<void> {
    const body = await readBody(request, PATCH_TYPES, slices)
    const patch = await slices.run(() => parseAnyPatch(body), request)
    await write(request, reply, body, { type: 'PatchItem', ...target(request), patch })
  }

  function writeInner(request: ApiRequest, reply: Reply): Promise<void> {
    return writeInside(request, reply, { handler, slices, isObject: isObject(request.path), idField })
  }

  function deleteItem(request: ApiRequest, reply: Reply): Promise<void> {
    return write(request, reply, undefined, { type: 'DeleteItem', ...target(request) })
  }

  function deleteObject(request: ApiRequest, reply: Reply): Promise<void> {
    if (request.querystring === '') return deleteItem(request, reply)
    throw new Refusal('Invalid', 'A single object is deleted as a whole: filters and dryRun are not allowed.')
  }

  /** Whether the path is that of a single object, existing or deleted. */
  function isObject(path: string): boolean {
    try {
      return views.any(apiSegments(path)[0] ?? '')?.isObject === true
    } catch {
      // The address cannot be decoded.
      return false
    }
  }

  /** The position to read at; undefined for the present. */
  async function momentOf(parameters: readonly Parameter[], reply: Reply): Promise<Position | undefined> {
    const at = await parseAsOf(parameters, journal, now)
    if (at !== undefined) reply.set('Cache-Control', 'private, no-cache')
    return at
  }

  /** Sets the response's position in the same turn in which the data is read, before another event can come. */
  function reflect(reply: Reply, at: Position | undefined): void {
    reply.position = at ?? views.position
  }

  async function readPast(
    request: ApiRequest,
    reply: Reply,
    name: string,
    parameters: readonly Parameter[],
  ): Promise<void> {
    const at = (await momentOf(parameters, reply)) as Position
    reflect(reply, at)
    if (!past.existed(name, at)) throw unknownCollection(name)
    const object = await past.item(name, OBJECT_ID, at)
    if (object) return answerItem(request, reply, object)
    const nowMs = mayBeRelative(parameters) ? await timeOfAsOf(parameters, journal, now) : undefined
    const asked = exportOf(formOf(request), parameters)
    const query = queryOf(name, parameters, nowMs)
    const then = await past.collection(name, at, request)
    if (asked) return exports.answer(request, reply, { name, parameters, ...asked, ...query }, then)
    try {
      await readPage(request, reply, name, parameters, then, nowMs)
    } finally {
      then.release()
    }
  }

  function queryOf(name: string, parameters: readonly Parameter[], nowMs = now().getTime()): TaggedQuery {
    const time = queries.timeOf(name)
    const query = parseQuery(parameters, limits, { time, now: nowMs })
    // Filters relative to now change without an event.
    return { query, isTagged: !(time || query.namesReceived) || !mayBeRelative(parameters) }
  }

  /** A page of the collection, in the present or past. */
  function readPage(
    request: ApiRequest,
    reply: Reply,
    name: string,
    parameters: readonly Parameter[],
    source: QuerySource,
    nowMs?: number,
  ): void | Promise<void> {
    const { query, isTagged } = queryOf(name, parameters, nowMs)
    if (isTagged && reply.isNotModified(request, tagAt(source.position))) return
    const answered = ({ text, total, at, position, exists }: AnsweredAt): void => {
      reply.position = at
      if (!exists) {
        // The collection was removed during the query.
        if (isTagged) reply.remove('ETag')
        throw unknownCollection(name)
      }
      if (isTagged) reply.set('ETag', tagAt(position))
      const path = request.base + collectionPath(name)
      const body = useResultObject ? resultObject({ text, total }, path, parameters, query) : text
      const page = { total, link: linkOf(name, parameters, query, total) }
      replyPage(reply, { ...page, text: body })
      // Long pages are not cached.
      if (isTagged && source === views.find(name) && typeof body === 'string') {
        answers.note(request.base + request.url, position, { ...page, text: body })
      }
    }
    const answer = queries.answer(source, query, askerOf(request))
    return answer instanceof Promise ? answer.then(answered) : answered(answer)
  }

  function askerOf(request: ApiRequest): Asker {
    if (request.principal.role === 'admin') return request
    const seconds = limits.scanSeconds
    return { isGone: () => request.isGone(), limit: { seconds, refusal: () => tookTooLong(seconds) } }
  }

  /** Every change of a page is an event of its collection; the journal's id distinguishes histories. */
  function tagAt(position: Position): string {
    return `"${position}-${journal.id}"`
  }

  function itemNow(name: string, key: string, otherwise: Missing = 'NotFound'): Item {
    const collection = views.find(name)
    if (!collection) throw noCollection(name)
    return collection.item(key) ?? noItem(name, key, otherwise)
  }

  async function itemThen(at: Position, name: string, key: string, otherwise: Missing): Promise<Item> {
    if (!past.existed(name, at)) throw noCollection(name)
    return (await past.item(name, key, at)) ?? noItem(name, key, otherwise)
  }

  function answerItem(request: ApiRequest, reply: Reply, { tag, text }: Item): void {
    if (!reply.isNotModified(request, tag)) reply.json(text)
  }

  /** An item, a value inside one, or inside a single object, in the present or past. */
  async function readValue(request: ApiRequest, reply: Reply): Promise<void> {
    const [name, ...segments] = apiSegments(request.path) as [string, ...string[]]
    const at = await momentOf(parametersOf(request, limits), reply)
    reflect(reply, at)
    const object = at === undefined ? views.find(name)?.item(OBJECT_ID) : await past.item(name, OBJECT_ID, at)
    const [key = '', ...inner] = segments
    const rest = object ? segments : inner
    const missing = rest.length > 0 ? 'UnknownParent' : 'NotFound'
    const whole = object ?? (at === undefined ? itemNow(name, key, missing) : await itemThen(at, name, key, missing))
    if (rest.length === 0) return answerItem(request, reply, whole)
    const text = await slices.run(() => textAt(whole.text, rest, idField), request)
    if (text === undefined) throw new Refusal('NotFound', `The item has nothing at ${rest.join('/')}.`)
    if (!reply.isNotModified(request, tagOf(text))) reply.json(text)
  }

  async function write(request: ApiRequest, reply: Reply, body: Body | undefined, command: Command): Promise<void> {
    refuseUnheeded(request)
    const outcome = await handler.handle(command, originOf(request, body?.bytes ?? new Uint8Array()))
    reply.position = outcome.position
    answerWith(outcome, command, request, reply, idField)
  }
}

type Item = NonNullable<ReturnType<NonNullable<ReturnType<Views['find']>>['item']>>

function unknownCollection(name: string): Refusal {
  return new Refusal('NotFound', `There is no collection ${JSON.stringify(name)}.`)
}

type Missing = 'NotFound' | 'UnknownParent'

function noCollection(name: string): Refusal {
  return new Refusal('UnknownParent', `There is no collection ${JSON.stringify(name)}.`)
}

function noItem(name: string, key: string, code: Missing): never {
  throw new Refusal(code, `There is no item ${JSON.stringify(key)} in "${name}".`)
}

function target({ path, headers }: ApiRequest) {
  const [collection = '', key = OBJECT_ID] = apiSegments(path)
  return {
    collection,
    key,
    ifMatch: parseTags(headers['if-match']),
    ifNoneMatch: parseTags(headers['if-none-match']),
  }
}
