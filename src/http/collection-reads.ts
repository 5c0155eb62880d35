import { OBJECT_ID, type Position } from '../events/event.ts'
import { type Item, type RelatedSnapshot, relatedOf } from '../query/embedding.ts'
import type { Relation } from '../query/json-server.ts'
import type { ItemText } from '../query/page.ts'
import type { PresentCollection } from '../query/queries.ts'
import { AS_OF, mayBeRelative, type Parameter } from '../query/query.ts'
import { ResponseCache } from '../query/response-cache.ts'
import type { Asker } from '../runtime/turns.ts'
import type { ApiOptions } from './api-options.ts'
import type { HttpRequest, Reply } from './exchange.ts'
import { formOf } from './formats/forms.ts'
import { ListReplies } from './list-replies.ts'
import { parseList } from './list-request.ts'
import { replyPage, tagAt } from './pages.ts'
import {
  apiSegments,
  asksForPast,
  noCollection,
  parametersOfRead,
  readPosition,
  refuseMisspelt,
  timeOfAsOf,
} from './requests.ts'

/** Size of the cache of responses to frequent queries. */
const CACHED_BYTES = 32 * 1024 * 1024

/** GET of collections, in the present or past: pages, other formats, and whole results. */
export class CollectionReads {
  readonly #options: ApiOptions
  readonly #related: RelatedCollections
  readonly #responses = new ResponseCache(CACHED_BYTES)
  readonly #replies: ListReplies

  constructor(options: ApiOptions, related: RelatedCollections) {
    this.#options = options
    this.#related = related
    this.#replies = new ListReplies(options)
  }

  /** GET at the path of a collection or single object. */
  get(request: HttpRequest, reply: Reply): void | Promise<void> {
    const { views } = this.#options
    const [name] = apiSegments(request.path) as [string]
    reply.vary('Accept')
    const present = views.find(name)
    const isJson = formOf(request) === 'json'
    const cached = isJson && present && this.#responses.find(request.base + request.url, present.position)
    if (cached) {
      reply.position = views.position
      if (!reply.isNotModified(request, tagAt(this.#options, name, present.position))) replyPage(reply, cached)
      return
    }
    return this.list(request, reply, name, parametersOfRead(request, this.#options))
  }

  /** GET of a collection or single object with these parameters. */
  list(request: HttpRequest, reply: Reply, name: string, parameters: readonly Parameter[]): void | Promise<void> {
    const { views } = this.#options
    if (asksForPast(parameters)) return this.#getPast(request, reply, name, parameters)
    const present = views.find(name)
    reply.position = views.position
    if (!present) throw noCollection(name, 'NotFound')
    if (present.isObject) {
      refuseMisspelt(parameters, [AS_OF])
      return reply.tagged(request, present.item(OBJECT_ID) as Item)
    }
    return this.#getPresent(request, reply, parameters, present)
  }

  /** A list of items as it is now. */
  async #getPresent(
    request: HttpRequest,
    reply: Reply,
    parameters: readonly Parameter[],
    present: PresentCollection,
  ): Promise<void> {
    const { views, hints, queries } = this.#options
    const list = parseList({ request, name: present.name, parameters }, this.#options)
    const hint = hints.check(reply, present, list.query)
    // A query that names no fields does not pause here, so it reflects the position at which it arrived.
    const isCached = hint instanceof Promise ? await hint : hint
    const snapshot = queries.hold(present)
    reply.position = snapshot.at
    const { position, exists } = snapshot
    if (!exists) {
      snapshot.release()
      throw noCollection(list.name, 'NotFound')
    }
    const related = this.#related.now(list.name, list.query.relations ?? [])
    const response = await this.#replies.reply(reply, list, snapshot, related)
    if (!response || !isCached || !list.isTagged || related.length > 0 || present !== views.find(list.name)) return
    this.#responses.note(request.base + request.url, position, response)
  }

  /** A list of items, or a single object, as of the parameter `asOf`. */
  async #getPast(request: HttpRequest, reply: Reply, name: string, parameters: readonly Parameter[]): Promise<void> {
    const { past } = this.#options
    const at = (await readPosition(parameters, reply, this.#options)) as Position
    reply.position = at
    if (!past.existed(name, at)) throw noCollection(name, 'NotFound')
    const object = await past.item(name, OBJECT_ID, at)
    if (object) return reply.tagged(request, object)
    const nowMs = mayBeRelative(parameters) ? await timeOfAsOf(parameters, this.#options) : undefined
    const list = parseList({ request, name, parameters }, this.#options, nowMs)
    const snapshot = await past.collection(name, at, request)
    const related = await this.#related.at(name, list.query.relations ?? [], at, request).catch((error: unknown) => {
      snapshot.release()
      throw error
    })
    await this.#replies.reply(reply, list, snapshot, related)
  }
}

/** Reads the collections whose items `_embed` and `_expand` show in others. The readings are to be released. */
export class RelatedCollections {
  readonly #options: ApiOptions

  constructor(options: ApiOptions) {
    this.#options = options
  }

  /** As they are now. */
  now(collection: string, relations: readonly Relation[]): readonly RelatedSnapshot[] {
    const { views, queries, foreignKeySuffix } = this.#options
    const isList = (name: string): boolean => views.find(name)?.isObject === false
    return relatedOf(collection, relations, foreignKeySuffix, isList).map((related) => ({
      ...related,
      snapshot: queries.hold(views.find(related.collection) as PresentCollection),
    }))
  }

  /** As they were right after an event. */
  async at(
    collection: string,
    relations: readonly Relation[],
    at: Position,
    asker: Asker,
  ): Promise<readonly RelatedSnapshot[]> {
    const { views, past, foreignKeySuffix } = this.#options
    const isList = (name: string): boolean => past.existed(name, at) && views.any(name)?.isObject === false
    const readings: RelatedSnapshot[] = []
    try {
      for (const related of relatedOf(collection, relations, foreignKeySuffix, isList)) {
        readings.push({ ...related, snapshot: await past.collection(related.collection, at, asker) })
      }
    } catch (error) {
      release(readings)
      throw error
    }
    return readings
  }

  /** The text of an item with its related ones in it, as they were right after an event; undefined: as they are now. */
  async embedIn(
    item: Item,
    collection: string,
    relations: readonly Relation[],
    at: Position | undefined,
    asker: Asker,
  ): Promise<string> {
    const { queries, limits } = this.#options
    const related = at === undefined ? this.now(collection, relations) : await this.at(collection, relations, at, asker)
    try {
      const [shown] = await queries.embed([item], undefined, related, limits.pageSize, asker)
      return (shown as ItemText).text
    } finally {
      release(related)
    }
  }
}

function release(related: readonly RelatedSnapshot[]): void {
  for (const { snapshot } of related) snapshot.release()
}
