import type { Command } from '../commands/command.ts'
import { OBJECT_ID, type Position } from '../events/event.ts'
import { parseText } from '../json/parse-text.ts'
import { valueAt } from '../json/paths.ts'
import { tagOf } from '../json/tag.ts'
import { foreignKeyOf } from '../query/embedding.ts'
import { dependentsOf } from '../query/json-server.ts'
import { Refusal } from '../runtime/errors.ts'
import { Batches } from './batches.ts'
import { type Body, parseAnyPatch, parseItem, readBody } from './bodies.ts'
import { deleteWithDependents } from './collections.ts'
import { type HttpRequest, parseTags, type Reply } from './exchange.ts'
import { answerWith, itemNow, target } from './item-answers.ts'
import { JSON_TYPE, PATCH_TYPES } from './media-types.ts'
import {
  type ApiOptions,
  apiSegments,
  originOf,
  parametersOf,
  prefers,
  refuseParameters,
  refuseUnheeded,
} from './requests.ts'
import { WriteHints, type WriteHintsOptions } from './write-hints.ts'

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
    const { views, idField, limits } = this.#options
    const [name, key, ...rest] = apiSegments(request.path) as [string, string, ...string[]]
    const [collection = ''] = rest
    const parent = itemNow(views, name, key, 'UnknownParent')
    const isMember = textAt(parent.text, rest, idField) !== undefined
    if (isMember || rest.length > 1 || views.find(collection)?.isObject !== false) {
      throw new Refusal('NotFound', `There is no collection at ${request.path} to create an item in.`)
    }
    const body = await readBody(request, [JSON_TYPE], limits.itemValues)
    const item = { ...parseItem(body), [foreignKeyOf(name)]: parent.id }
    await this.#write(request, reply, body, { type: 'CreateItem', collection, item })
  }

  async replace(request: HttpRequest, reply: Reply): Promise<void> {
    const body = await readBody(request, [JSON_TYPE], this.#options.limits.itemValues)
    const to = target(request)
    const onlyIfNewer =
      prefers(request.headers, 'only-if-newer') && this.#options.queries.timeOf(to.collection) !== undefined
    const item = parseItem(body)
    await this.#write(request, reply, body, { type: 'ReplaceItem', ...to, item, ...(onlyIfNewer && { onlyIfNewer }) })
  }

  async patch(request: HttpRequest, reply: Reply): Promise<void> {
    const { limits, isJsonServer } = this.#options
    const body = await readBody(request, PATCH_TYPES, limits.itemValues)
    const patch = parseAnyPatch(body, { isInside: false, isJsonServer })
    await this.#write(request, reply, body, { type: 'PatchItem', ...target(request), patch })
  }

  /** PUT or PATCH of a value inside an item, or inside a single object. */
  writeInside(request: HttpRequest, reply: Reply, isObject: boolean): Promise<void> {
    return writeInside(request, reply, { ...this.#options, isObject })
  }

  async delete(request: HttpRequest, reply: Reply): Promise<void> {
    const { limits, isJsonServer } = this.#options
    const names = request.querystring === '' ? [] : dependentsOf(parametersOf(request, limits))
    if (names.length === 0) {
      return this.#write(request, reply, undefined, { type: 'DeleteItem', ...target(request) })
    }
    const { position } = await deleteWithDependents(request, target(request), names, this.#options)
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
    refuseUnheeded(request)
    refuseParameters(request)
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

interface InnerWriteOptions extends WriteHintsOptions, Pick<ApiOptions, 'handler' | 'limits' | 'isJsonServer'> {
  /** Whether the path is that of a single object, of which all further segments are inside. */
  readonly isObject: boolean
}

/** PUT and PATCH of a value inside an item or a single object: one event of the item. */
export async function writeInside(request: HttpRequest, reply: Reply, writing: InnerWriteOptions): Promise<void> {
  const { handler, limits, isObject, idField, isJsonServer } = writing
  const [collection, ...segments] = apiSegments(request.path) as [string, ...string[]]
  const [key, inside] = isObject ? [OBJECT_ID, segments] : [segments[0] as string, segments.slice(1)]
  const isPatch = request.method === 'PATCH'
  const body = await readBody(request, isPatch ? PATCH_TYPES : [JSON_TYPE], limits.itemValues)
  const patch = isPatch
    ? parseAnyPatch(body, { isInside: true, isJsonServer })
    : ({ type: 'value', value: body.json } as const)
  refuseUnheeded(request)
  refuseParameters(request)
  const { headers } = request
  const conditions = { ifMatch: parseTags(headers['if-match']), ifNoneMatch: parseTags(headers['if-none-match']) }
  const { position, event, item } = await handler.handle(
    { type: 'PatchItem', collection, key, inside, patch, ...conditions },
    originOf(request, body.bytes),
  )
  reply.position = position
  const hints = new WriteHints(writing, collection)
  hints.written(event)
  hints.tell(reply)
  // A JSON Patch may remove the value.
  const text = item && textAt(item.text, inside, idField)
  if (text !== undefined) reply.set('ETag', tagOf(text))
  if (text === undefined || !prefers(headers, 'return=representation')) {
    reply.status = 204
    return
  }
  reply.set('Preference-Applied', 'return=representation')
  reply.json(text)
}

/** The text of what a URL's further segments name within a value; undefined when there is nothing. */
export function textAt(whole: string, segments: readonly string[], idField: string): string | undefined {
  const found = valueAt(parseText(whole), segments, idField)
  return found === undefined ? undefined : JSON.stringify(found)
}
