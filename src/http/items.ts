import type { Command } from '../commands/command.ts'
import type { CommandHandler } from '../commands/handler.ts'
import { OBJECT_ID, type Position } from '../events/event.ts'
import type { Journal } from '../events/journal.ts'
import { tagOf } from '../json/tag.ts'
import { collectionPath } from '../projections/address.ts'
import type { Past } from '../projections/past.ts'
import type { Views } from '../projections/views.ts'
import { foreignKeyOf } from '../query/embedding.ts'
import { dependentsOf, relationsOf } from '../query/json-server.ts'
import type { PageTextAt, PresentCollection, Queries, QuerySource } from '../query/queries.ts'
import { mayBeRelative, type Parameter, parseQuery } from '../query/query.ts'
import { ResponseCache } from '../query/response-cache.ts'
import { scanTimeout } from '../query/scan-limit.ts'
import { Refusal } from '../runtime/errors.ts'
import { type Asker, Slices } from '../runtime/time-slices.ts'
import type { ApiRequest, ApiResource, Method, Reply } from './api.ts'
import { asksForPast, parseAsOf, timeOfAsOf } from './as-of.ts'
import { Batches, type BatchesOptions } from './batches.ts'
import { type Body, JSON_TYPE, PATCH_TYPES, parseAnyPatch, parseItem, readBody } from './bodies.ts'
import { createCollection, deleteItems, deleteWithDependents } from './collections.ts'
import { Exports, exportOf, type TaggedQuery } from './export.ts'
import { formOf } from './formats/forms.ts'
import type { Hints } from './hints.ts'
import { textAt, writeInside } from './inner-values.ts'
import { answerWith, itemNow, itemThen, target, unknownCollection } from './item-answers.ts'
import { nestedFilter, wrapping } from './json-server.ts'
import { collectionTags, linkOf, replyPage, wrapped } from './pages.ts'
import { RelatedCollections } from './related.ts'
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

export interface ItemsOptions {
  readonly views: Views
  readonly handler: Pick<CommandHandler, 'handle' | 'bulk' | 'restore'>
  readonly past: Past
  readonly queries: Queries
  readonly journal: Pick<Journal, 'id' | 'head' | 'read'>
  readonly now: () => Date
  readonly hints: Pick<Hints, 'check'>
  /** Whether responses are those of json-server where they differ. */
  readonly isJsonServer: boolean
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
  hints,
  isJsonServer,
  bodies,
  limits,
  useResultObject,
  idField,
}: ItemsOptions): readonly ApiResource[] {
  const answers = new ResponseCache(CACHED_BYTES)
  const slices = new Slices()
  const batches = new Batches({ handler, slices, ...bodies })
  const tagAt = collectionTags({ journal, queries, isJsonServer, useResultObject })
  const wrapperOf = wrapping({ isJsonServer, useResultObject })
  const exports = new Exports({ queries, askerOf, tagAt, linkOf, wrapperOf })
  const related = new RelatedCollections({ views, past, queries, pageSize: limits.pageSize })
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
          if (!reply.isNotModified(request, tagAt(name, present.position))) replyPage(reply, cached)
          return
        }
        const parameters = parametersOf(request, limits)
        if (asksForPast(parameters)) return readPast(request, reply, name, parameters)
        reflect(reply, undefined)
        if (!present) throw unknownCollection(name)
        if (present.isObject) return answerItem(request, reply, present.item(OBJECT_ID) as Item)
        return readList(request, reply, name, parameters, present)
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
        answerItem(request, reply, itemNow(views, name, key))
      },
      PUT: (request, reply) => (isObject(request.path) ? writeInner(request, reply) : replaceItem(request, reply)),
      PATCH: (request, reply) => (isObject(request.path) ? writeInner(request, reply) : patchItem(request, reply)),
      DELETE: deleteItem,
    },
  }

  const inside: ApiResource = {
    path: '/api/:collection/:id/*rest',
    routes: { GET: readValue, PUT: writeInner, PATCH: writeInner, ...(isJsonServer && { POST: createNested }) },
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
        return deleteItems(request, reply, collection, { handler, views, hints, queries, now, limits })
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

  async function deleteItem(request: ApiRequest, reply: Reply): Promise<void> {
    const names = request.querystring === '' ? [] : dependentsOf(parametersOf(request, limits))
    if (names.length > 0) {
      const { position } = await deleteWithDependents(request, target(request), names, { handler, views, limits })
      reply.position = position
      reply.status = 204
      return isJsonServer ? answerDeleted(request, reply, position) : undefined
    }
    await write(request, reply, undefined, { type: 'DeleteItem', ...target(request) })
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

  /** A list of items as it is now. */
  function readList(
    request: ApiRequest,
    reply: Reply,
    name: string,
    parameters: readonly Parameter[],
    present: PresentCollection,
  ): void | Promise<void> {
    const query = queryOf(name, parameters)
    const asked = exportOf(formOf(request), parameters, query.query)
    const answer = (isWithoutHint: boolean): void | Promise<void> => {
      if (!asked) return readPage(request, reply, name, parameters, present, { ...query, isCached: isWithoutHint })
      const wanted = { name, parameters, related: related.now(name, query.query.relations ?? []), ...asked, ...query }
      return exports.answer(request, reply, wanted, queries.hold(present))
    }
    const isWithoutHint = hints.check(reply, present, query.query)
    if (!(isWithoutHint instanceof Promise)) return answer(isWithoutHint)
    return isWithoutHint.then((known) => {
      reflect(reply, undefined)
      return answer(known)
    })
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
    const query = queryOf(name, parameters, nowMs)
    const asked = exportOf(formOf(request), parameters, query.query)
    const then = await past.collection(name, at, request)
    if (asked) {
      const embedded = await related.at(name, query.query.relations ?? [], at, request).catch((error: unknown) => {
        then.release()
        throw error
      })
      return exports.answer(request, reply, { name, parameters, related: embedded, ...asked, ...query }, then)
    }
    try {
      await readPage(request, reply, name, parameters, then, { ...query, isCached: false })
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
    { query, isTagged, isCached }: TaggedQuery & { readonly isCached: boolean },
  ): void | Promise<void> {
    if (isTagged && reply.isNotModified(request, tagAt(name, source.position))) return
    const answered = ({ text, total, at, position, exists }: PageTextAt): void => {
      reply.position = at
      if (!exists) {
        // The collection was removed during the query.
        if (isTagged) reply.remove('ETag')
        throw unknownCollection(name)
      }
      if (isTagged) reply.set('ETag', tagAt(name, position))
      const body = wrapped(text, wrapperOf(request.base + collectionPath(name), parameters, query, total))
      const page = { total, link: linkOf(name, parameters, query, total) }
      replyPage(reply, { ...page, text: body })
      // Long pages are not cached.
      if (isTagged && isCached && source === views.find(name) && typeof body === 'string') {
        answers.note(request.base + request.url, position, { ...page, text: body })
      }
    }
    const answer = queries.answer(source, query, askerOf(request))
    return answer instanceof Promise ? answer.then(answered) : answered(answer)
  }

  function askerOf(request: ApiRequest): Asker {
    if (request.principal.role === 'admin') return request
    const seconds = limits.scanSeconds
    return { isGone: () => request.isGone(), limit: { seconds, refusal: () => scanTimeout(seconds) } }
  }

  function answerItem(request: ApiRequest, reply: Reply, { tag, text }: Item): void {
    if (!reply.isNotModified(request, tag)) reply.json(text)
  }

  /** An item, a value inside one, or inside a single object, in the present or past. */
  async function readValue(request: ApiRequest, reply: Reply): Promise<void> {
    const [name, ...segments] = apiSegments(request.path) as [string, ...string[]]
    const parameters = parametersOf(request, limits)
    const at = await momentOf(parameters, reply)
    reflect(reply, at)
    const object = at === undefined ? views.find(name)?.item(OBJECT_ID) : await past.item(name, OBJECT_ID, at)
    const [key = '', ...inner] = segments
    const rest = object ? segments : inner
    const missing = rest.length > 0 ? 'UnknownParent' : 'NotFound'
    const whole =
      object ?? (at === undefined ? itemNow(views, name, key, missing) : await itemThen(past, at, name, key, missing))
    const relations = object ? [] : relationsOf(parameters)
    if (rest.length === 0 && relations.length === 0) return answerItem(request, reply, whole)
    if (rest.length === 0) {
      const shown = await related.shownIn(whole, { collection: name, relations, at }, askerOf(request))
      if (!reply.isNotModified(request, tagOf(shown))) reply.json(shown)
      return
    }
    const text = await slices.run(() => textAt(whole.text, rest, idField), request)
    if (text === undefined) {
      const [child = ''] = rest
      const nested = isJsonServer && !object && rest.length === 1 ? views.find(child) : undefined
      if (nested?.isObject !== false) throw new Refusal('NotFound', `The item has nothing at ${rest.join('/')}.`)
      const filtered = [...parameters, nestedFilter(name, whole.key)]
      reply.vary('Accept')
      if (at !== undefined) return readPast(request, reply, child, filtered)
      reflect(reply, undefined)
      return readList(request, reply, child, filtered, nested)
    }
    if (!reply.isNotModified(request, tagOf(text))) reply.json(text)
  }

  /** POST to `/api/posts/1/comments`: the comment gets the `postId`. */
  async function createNested(request: ApiRequest, reply: Reply): Promise<void> {
    const [name, key, ...rest] = apiSegments(request.path) as [string, string, ...string[]]
    const [collection = ''] = rest
    const parent = itemNow(views, name, key, 'UnknownParent')
    const isMember = (await slices.run(() => textAt(parent.text, rest, idField), request)) !== undefined
    if (isMember || rest.length > 1 || views.find(collection)?.isObject !== false) {
      throw new Refusal('NotFound', `There is no collection at ${request.path} to create an item in.`)
    }
    const body = await readBody(request, [JSON_TYPE], slices)
    const item = { ...parseItem(body), [foreignKeyOf(name)]: parent.id }
    await write(request, reply, body, { type: 'CreateItem', collection, item })
  }

  async function write(request: ApiRequest, reply: Reply, body: Body | undefined, command: Command): Promise<void> {
    refuseUnheeded(request)
    const outcome = await handler.handle(command, originOf(request, body?.bytes ?? new Uint8Array()))
    reply.position = outcome.position
    if (isJsonServer && !outcome.item) await answerDeleted(request, reply, outcome.position)
    else answerWith(outcome, command, request, reply, { idField, isJsonServer })
  }

  /** With the item as it was. */
  async function answerDeleted(request: ApiRequest, reply: Reply, position: Position): Promise<void> {
    const { collection, key } = target(request)
    reply.json((await past.item(collection, key, position - 1))?.text ?? '{}')
  }
}

type Item = NonNullable<ReturnType<NonNullable<ReturnType<Views['find']>>['item']>>
