import type { Command } from '../commands/command.ts'
import type { Outcome } from '../commands/handler.ts'
import { isCreation, OBJECT_ID, type Position } from '../events/event.ts'
import { parseText } from '../json/parse.ts'
import { formatPath, pathTo } from '../json/paths.ts'
import { tagOf } from '../json/tag.ts'
import { itemPath } from '../projections/address.ts'
import type { Views } from '../projections/views.ts'
import { foreignKeyOf, type Item } from '../query/embedding.ts'
import { dependentsOf, EMBEDDING, relationsOf } from '../query/json-server.ts'
import { AS_OF, type Parameter } from '../query/query.ts'
import { Refusal } from '../runtime/errors.ts'
import type { ApiOptions } from './api-options.ts'
import { Batches } from './batches.ts'
import { type Body, parseAnyPatch, parseItem, readBody } from './bodies.ts'
import type { CollectionReads, RelatedCollections } from './collection-reads.ts'
import { deleteWithDependents } from './collections.ts'
import { type HttpRequest, parseTags, type Reply } from './exchange.ts'
import { WriteHints } from './hints.ts'
import { JSON_TYPE, PATCH_TYPES } from './media-types.ts'
import {
  apiSegments,
  askerOf,
  type Missing,
  noCollection,
  originOf,
  type Preference,
  parametersOf,
  parametersOfRead,
  parseUnchangedSince,
  prefers,
  readPosition,
  refuseIgnored,
  refuseMisspelt,
} from './requests.ts'

/** GET of items, and of values inside items and single objects, in the present or past. */
export class ItemReads {
  readonly #options: ApiOptions
  readonly #related: RelatedCollections
  readonly #collections: CollectionReads

  constructor(options: ApiOptions, related: RelatedCollections, collections: CollectionReads) {
    this.#options = options
    this.#related = related
    this.#collections = collections
  }

  /** GET at the path of an item, or of a member of a single object. */
  get(request: HttpRequest, reply: Reply): void | Promise<void> {
    const { views } = this.#options
    const [name, key] = apiSegments(request.path) as [string, string]
    if (request.querystring !== '' || views.find(name)?.isObject) return this.getValue(request, reply)
    reply.position = views.position
    reply.tagged(request, itemNow(views, name, key))
  }

  /** GET of an item with parameters, or of a value inside an item or single object. */
  async getValue(request: HttpRequest, reply: Reply): Promise<void> {
    const { views, past, limits, idField } = this.#options
    const [name, ...segments] = apiSegments(request.path) as [string, ...string[]]
    const parameters = parametersOfRead(request, this.#options)
    const isNested = this.#hasNested(segments.at(-1) ?? '')
    if (!isNested) refuseMisspelt(parameters, [AS_OF, ...EMBEDDING])
    const at = await readPosition(parameters, reply, this.#options)
    reply.position = at ?? views.position
    if (at !== undefined && !past.existed(name, at)) throw noCollection(name)
    const object = at === undefined ? views.find(name)?.item(OBJECT_ID) : await past.item(name, OBJECT_ID, at)
    const [key = '', ...inner] = segments
    const rest = object ? segments : inner
    const missing = rest.length > 0 ? 'UnknownParent' : 'NotFound'
    const found = object ?? (at === undefined ? itemNow(views, name, key, missing) : await past.item(name, key, at))
    const item = found ?? noItem(name, key, missing)
    if (rest.length === 0) {
      const relations = object ? [] : relationsOf(parameters)
      if (relations.length === 0) return reply.tagged(request, item)
      const asker = askerOf(request, limits.scanSeconds)
      const text = await this.#related.embedIn(item, name, relations, at, asker)
      return reply.tagged(request, { tag: tagOf(text), text })
    }
    const text = textAt(item.text, rest, idField)
    if (text !== undefined) return reply.tagged(request, { tag: tagOf(text), text })
    const child = object || rest.length > 1 ? undefined : rest[0]
    if (child === undefined || !this.#hasNested(child)) {
      throw new Refusal('NotFound', `The item has nothing at ${rest.join('/')}.`)
    }
    reply.vary('Accept')
    const field = foreignKeyOf(name, this.#options.foreignKeySuffix)
    return this.#collections.list(request, reply, child, [...parameters, nestedFilter(field, item.key)])
  }

  /** Whether `/api/posts/1/comments` is a list of items, as json-server's. */
  #hasNested(collection: string): boolean {
    return this.#options.isJsonServer && this.#options.views.find(collection)?.isObject === false
  }
}

/** Writes of items, single objects, and values inside them. Each request becomes one command. */
export class ItemWrites {
  readonly #options: ApiOptions
  readonly #batches: Batches

  constructor(options: ApiOptions) {
    this.#options = options
    this.#batches = new Batches(options)
  }

  /** POST to a collection: an item, or a batch of items. */
  async create(request: HttpRequest, reply: Reply): Promise<void> {
    const [collection] = apiSegments(request.path) as [string]
    const body = await this.#batches.read(request)
    if ('items' in body) return this.#batches.create(request, reply, collection, body)
    await this.#write(request, reply, body, { type: 'CreateItem', collection, item: parseItem(body) })
  }

  /** POST to `/api/posts/1/comments`: the comment gets the `postId`. */
  async createNested(request: HttpRequest, reply: Reply): Promise<void> {
    const { views, idField, foreignKeySuffix } = this.#options
    const [name, key, ...rest] = apiSegments(request.path) as [string, string, ...string[]]
    const [collection = ''] = rest
    const parent = itemNow(views, name, key, 'UnknownParent')
    const isMember = textAt(parent.text, rest, idField) !== undefined
    if (isMember || rest.length > 1 || views.find(collection)?.isObject !== false) {
      throw new Refusal('NotFound', `There is no collection at ${request.path} to create an item in.`)
    }
    const body = await readBody(request, [JSON_TYPE], this.#options)
    const item = { ...parseItem(body), [foreignKeyOf(name, foreignKeySuffix)]: parent.id }
    await this.#write(request, reply, body, { type: 'CreateItem', collection, item })
  }

  async replace(request: HttpRequest, reply: Reply): Promise<void> {
    const body = await readBody(request, [JSON_TYPE], this.#options)
    const to = target(request)
    const onlyIfNewer =
      prefers(request.headers, 'only-if-newer') && this.#options.queries.timeOf(to.collection) !== undefined
    const item = parseItem(body)
    await this.#write(request, reply, body, { type: 'ReplaceItem', ...to, item, ...(onlyIfNewer && { onlyIfNewer }) })
  }

  async patch(request: HttpRequest, reply: Reply): Promise<void> {
    const { isJsonServer } = this.#options
    const body = await readBody(request, PATCH_TYPES, this.#options)
    const patch = parseAnyPatch(body, { isInside: false, isJsonServer })
    await this.#write(request, reply, body, { type: 'PatchItem', ...target(request), patch })
  }

  /**
   * PUT or PATCH of a value inside an item or a single object: one event of the item. All segments after the name of a
   * single object are inside it.
   */
  async writeInside(request: HttpRequest, reply: Reply, isObject: boolean): Promise<void> {
    const { isJsonServer } = this.#options
    const [collection, ...segments] = apiSegments(request.path) as [string, ...string[]]
    const [key, inside] = isObject ? [OBJECT_ID, segments] : [segments[0] as string, segments.slice(1)]
    const isPatch = request.method === 'PATCH'
    const body = await readBody(request, isPatch ? PATCH_TYPES : [JSON_TYPE], this.#options)
    const patch = isPatch
      ? parseAnyPatch(body, { isInside: true, isJsonServer })
      : ({ type: 'value', value: body.json } as const)
    const command: Command = { type: 'PatchItem', collection, key, inside, patch, ...conditionsOf(request) }
    await this.#write(request, reply, body, command)
  }

  async delete(request: HttpRequest, reply: Reply): Promise<void> {
    const { limits, isJsonServer } = this.#options
    const names = request.querystring === '' ? [] : dependentsOf(parametersOf(request, limits))
    if (names.length === 0) {
      return this.#write(request, reply, undefined, { type: 'DeleteItem', ...target(request) })
    }
    const { position } = await deleteWithDependents(request, reply, target(request), names, this.#options)
    reply.position = position
    reply.status = 204
    if (isJsonServer) await this.#replyDeleted(request, reply, position)
  }

  async deleteObject(request: HttpRequest, reply: Reply): Promise<void> {
    if (request.querystring === '') return this.delete(request, reply)
    throw new Refusal('Invalid', 'A single object is deleted as a whole: filters, all and dryRun are not allowed.')
  }

  async #write(request: HttpRequest, reply: Reply, body: Body | undefined, command: Command): Promise<void> {
    const { handler, isJsonServer } = this.#options
    refuseIgnored(request)
    const outcome = await handler.handle(command, originOf(request, body?.bytes))
    reply.position = outcome.position
    if (isJsonServer && !outcome.item) await this.#replyDeleted(request, reply, outcome.position)
    else answerWith(outcome, command, request, reply, this.#options)
  }

  /** Responds with the item as it was. */
  async #replyDeleted(request: HttpRequest, reply: Reply, position: Position): Promise<void> {
    const { collection, key } = target(request)
    reply.json((await this.#options.past.item(collection, key, position - 1))?.text ?? '{}')
  }
}

/** The text of what a URL's further segments name within a value; undefined when there is nothing. */
function textAt(whole: string, segments: readonly string[], idField: string): string | undefined {
  const found = pathTo(parseText(whole), segments, idField)?.value
  return found === undefined ? undefined : JSON.stringify(found)
}

/** @throws {Refusal} `otherwise` is its code where something inside the item is requested */
function itemNow(views: Pick<Views, 'find'>, name: string, key: string, otherwise: Missing = 'NotFound'): Item {
  const collection = views.find(name)
  if (!collection) throw noCollection(name)
  return collection.item(key) ?? noItem(name, key, otherwise)
}

function noItem(name: string, key: string, code: Missing): never {
  throw new Refusal(code, `There is no item ${JSON.stringify(key)} in "${name}".`)
}

function target(request: HttpRequest) {
  const [collection = '', key = OBJECT_ID] = apiSegments(request.path)
  return { collection, key, ...conditionsOf(request) }
}

function conditionsOf({ headers }: HttpRequest) {
  return {
    ifMatch: parseTags(headers['if-match']),
    ifNoneMatch: parseTags(headers['if-none-match']),
    ifUnchangedSince: parseUnchangedSince(headers),
  }
}

/** The response to a command on one item, or on a value inside it. */
function answerWith(
  { event, item }: Outcome,
  command: Command,
  { headers }: HttpRequest,
  reply: Reply,
  options: ApiOptions,
): void {
  if (!item) {
    reply.status = 204
    return
  }
  const inside = command.type === 'PatchItem' ? command.inside : undefined
  // A JSON Patch may remove the value.
  const text = inside ? textAt(item.text, inside, options.idField) : item.text
  if (text !== undefined) reply.set('ETag', inside ? tagOf(text) : item.tag)
  const applied: Preference[] = command.type === 'ReplaceItem' && command.onlyIfNewer ? ['only-if-newer'] : []
  const hints = new WriteHints(options, command.collection)
  if (command.type === 'ReplaceItem' && command.onlyIfNewer && !event) {
    hints.timed(command.item)
    hints.tell(reply)
    reply.set('Preference-Applied', applied.join())
    reply.json('{"applied":false}')
    return
  }
  const created = event !== undefined && isCreation(event)
  const isPosted = command.type === 'CreateItem'
  if (created || isPosted) reply.set('Location', itemPath(command.collection, item.key))
  if (created && isPosted) hints.created(command.item, item.id)
  hints.written(event)
  hints.tell(reply)
  const isPreferred = text !== undefined && prefers(headers, 'return=representation')
  if (isPreferred) applied.push('return=representation')
  if (applied.length > 0) reply.set('Preference-Applied', applied.join(', '))
  // A created single object has no id to return.
  const isShown = isPreferred || (!inside && options.isJsonServer) || (created && item.id === OBJECT_ID)
  if (isShown && text !== undefined) reply.json(text, created ? 201 : 200)
  else if (created || isPosted) reply.json(JSON.stringify({ [options.idField]: item.id }), created ? 201 : 200)
  else reply.status = 204
}

/** The filter that selects what refers to an item: `postId=1` for `/api/posts/1/comments`. */
function nestedFilter(field: string, key: string): Parameter {
  const name = formatPath([field])
  return { raw: `${encodeURIComponent(name)}=${encodeURIComponent(key)}`, name, value: key }
}
