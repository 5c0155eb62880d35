import { OBJECT_ID } from '../events/event.ts'
import { tagOf } from '../json/tag.ts'
import { EMBEDDING, relationsOf } from '../query/json-server.ts'
import { AS_OF } from '../query/query.ts'
import { Refusal } from '../runtime/errors.ts'
import type { CollectionReads, RelatedCollections } from './collection-reads.ts'
import type { HttpRequest, Reply } from './exchange.ts'
import { itemNow, itemThen, replyItem } from './item-answers.ts'
import { textAt } from './item-writes.ts'
import { nestedFilter } from './pages.ts'
import {
  type ApiOptions,
  apiSegments,
  askerOf,
  asksForPast,
  parametersOf,
  readPosition,
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
    replyItem(request, reply, itemNow(views, name, key))
  }

  /** GET of an item with parameters, or of a value inside an item or single object. */
  async getValue(request: HttpRequest, reply: Reply): Promise<void> {
    const { views, past, journal, now, limits, idField } = this.#options
    const [name, ...segments] = apiSegments(request.path) as [string, ...string[]]
    const parameters = parametersOf(request, limits)
    const isNested = this.#hasNested(segments.at(-1) ?? '')
    if (!isNested) refuseMisspelt(parameters, [AS_OF, ...EMBEDDING])
    const at = await readPosition(parameters, reply, journal, now)
    reply.position = at ?? views.position
    const object = at === undefined ? views.find(name)?.item(OBJECT_ID) : await past.item(name, OBJECT_ID, at)
    const [key = '', ...inner] = segments
    const rest = object ? segments : inner
    const missing = rest.length > 0 ? 'UnknownParent' : 'NotFound'
    const item =
      object ?? (at === undefined ? itemNow(views, name, key, missing) : await itemThen(past, at, name, key, missing))
    if (rest.length === 0) {
      const relations = object ? [] : relationsOf(parameters)
      if (relations.length === 0) return replyItem(request, reply, item)
      const asker = askerOf(request, limits.scanSeconds)
      const text = await this.#related.textOf(item, { collection: name, relations, at }, asker)
      return replyItem(request, reply, { tag: tagOf(text), text })
    }
    const text = textAt(item.text, rest, idField)
    if (text !== undefined) return replyItem(request, reply, { tag: tagOf(text), text })
    const child = object || rest.length > 1 ? undefined : rest[0]
    if (child === undefined || !this.#hasNested(child)) {
      throw new Refusal('NotFound', `The item has nothing at ${rest.join('/')}.`)
    }
    return this.#getNested(request, reply, child, [...parameters, nestedFilter(name, item.key)])
  }

  /** Whether `/api/posts/1/comments` is a list of items, as json-server's. */
  #hasNested(collection: string): boolean {
    return this.#options.isJsonServer && this.#options.views.find(collection)?.isObject === false
  }

  #getNested(
    request: HttpRequest,
    reply: Reply,
    collection: string,
    parameters: ReturnType<typeof parametersOf>,
  ): void | Promise<void> {
    const { views } = this.#options
    reply.vary('Accept')
    if (asksForPast(parameters)) return this.#collections.getPast(request, reply, collection, parameters)
    reply.position = views.position
    const present = views.find(collection)
    return present && this.#collections.getPresent(request, reply, parameters, present)
  }
}
