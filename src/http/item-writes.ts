import type { Command } from '../commands/command.ts'
import type { CommandHandler } from '../commands/handler.ts'
import type { Position } from '../events/event.ts'
import type { Past } from '../projections/past.ts'
import type { Views } from '../projections/views.ts'
import { foreignKeyOf } from '../query/embedding.ts'
import { dependentsOf } from '../query/json-server.ts'
import type { Queries } from '../query/queries.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Slices } from '../runtime/time-slices.ts'
import type { ApiRequest, Reply } from './api.ts'
import { Batches, type BatchesOptions } from './batches.ts'
import { type Body, JSON_TYPE, PATCH_TYPES, parseAnyPatch, parseItem, readBody } from './bodies.ts'
import { deleteWithDependents } from './collections.ts'
import { textAt, writeInside } from './inner-values.ts'
import { answerWith, itemNow, target } from './item-answers.ts'
import { prefers } from './preferences.ts'
import {
  apiSegments,
  type HttpQueryLimits,
  originOf,
  parametersOf,
  refuseParameters,
  refuseUnheeded,
} from './requests.ts'

export interface ItemWritesOptions {
  readonly views: Views
  readonly handler: Pick<CommandHandler, 'handle' | 'bulk'>
  readonly past: Past
  readonly queries: Queries
  readonly isJsonServer: boolean
  readonly bodies: Pick<BatchesOptions, 'bodyBytes' | 'batchBytes' | 'batchItems'>
  readonly limits: HttpQueryLimits & { readonly scanSeconds: number }
  readonly idField: string
}

const NO_BODY = new Uint8Array()

/** Writes of items, single objects, and values inside them. Each request becomes one command. */
export class ItemWrites {
  readonly #options: ItemWritesOptions
  readonly #slices: Slices
  readonly #batches: Batches

  constructor(options: ItemWritesOptions, slices: Slices) {
    this.#options = options
    this.#slices = slices
    this.#batches = new Batches({ handler: options.handler, slices, ...options.bodies })
  }

  /** POST to a collection: an item, or a batch of items. */
  async create(request: ApiRequest, reply: Reply): Promise<void> {
    const [collection] = apiSegments(request.path) as [string]
    const body = await this.#batches.read(request)
    if ('items' in body) return this.#batches.create(request, reply, collection, body)
    await this.#write(request, reply, body, { type: 'CreateItem', collection, item: parseItem(body) })
  }

  /** POST to `/api/posts/1/comments`: the comment gets the `postId`. */
  async createNested(request: ApiRequest, reply: Reply): Promise<void> {
    const { views, idField } = this.#options
    const [name, key, ...rest] = apiSegments(request.path) as [string, string, ...string[]]
    const [collection = ''] = rest
    const parent = itemNow(views, name, key, 'UnknownParent')
    const isMember = (await this.#slices.run(() => textAt(parent.text, rest, idField), request)) !== undefined
    if (isMember || rest.length > 1 || views.find(collection)?.isObject !== false) {
      throw new Refusal('NotFound', `There is no collection at ${request.path} to create an item in.`)
    }
    const body = await readBody(request, [JSON_TYPE], this.#slices)
    const item = { ...parseItem(body), [foreignKeyOf(name)]: parent.id }
    await this.#write(request, reply, body, { type: 'CreateItem', collection, item })
  }

  async replace(request: ApiRequest, reply: Reply): Promise<void> {
    const body = await readBody(request, [JSON_TYPE], this.#slices)
    const to = target(request)
    const onlyIfNewer =
      prefers(request.headers, 'only-if-newer') && this.#options.queries.timeOf(to.collection) !== undefined
    const item = parseItem(body)
    await this.#write(request, reply, body, { type: 'ReplaceItem', ...to, item, ...(onlyIfNewer && { onlyIfNewer }) })
  }

  async patch(request: ApiRequest, reply: Reply): Promise<void> {
    const body = await readBody(request, PATCH_TYPES, this.#slices)
    const patch = await this.#slices.run(() => parseAnyPatch(body), request)
    await this.#write(request, reply, body, { type: 'PatchItem', ...target(request), patch })
  }

  /** PUT or PATCH of a value inside an item, or inside a single object. */
  writeInside(request: ApiRequest, reply: Reply, isObject: boolean): Promise<void> {
    const { handler, idField } = this.#options
    return writeInside(request, reply, { handler, slices: this.#slices, isObject, idField })
  }

  async delete(request: ApiRequest, reply: Reply): Promise<void> {
    const { handler, views, limits, isJsonServer } = this.#options
    const names = request.querystring === '' ? [] : dependentsOf(parametersOf(request, limits))
    if (names.length === 0) {
      return this.#write(request, reply, undefined, { type: 'DeleteItem', ...target(request) })
    }
    const { position } = await deleteWithDependents(request, target(request), names, { handler, views, limits })
    reply.position = position
    reply.status = 204
    if (isJsonServer) await this.#replyDeleted(request, reply, position)
  }

  async deleteObject(request: ApiRequest, reply: Reply): Promise<void> {
    if (request.querystring === '') return this.delete(request, reply)
    throw new Refusal('Invalid', 'A single object is deleted as a whole: filters and dryRun are not allowed.')
  }

  async #write(request: ApiRequest, reply: Reply, body: Body | undefined, command: Command): Promise<void> {
    const { handler, isJsonServer, idField } = this.#options
    refuseUnheeded(request)
    refuseParameters(request)
    const outcome = await handler.handle(command, originOf(request, body?.bytes ?? NO_BODY))
    reply.position = outcome.position
    if (isJsonServer && !outcome.item) await this.#replyDeleted(request, reply, outcome.position)
    else answerWith(outcome, command, request, reply, { idField, isJsonServer })
  }

  /** Responds with the item as it was. */
  async #replyDeleted(request: ApiRequest, reply: Reply, position: Position): Promise<void> {
    const { collection, key } = target(request)
    reply.json((await this.#options.past.item(collection, key, position - 1))?.text ?? '{}')
  }
}
