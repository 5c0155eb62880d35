import type { Position } from '../events/event.ts'
import { type Item, type ItemText, type RelatedSnapshot, relatedOf } from '../query/embedding.ts'
import type { Relation } from '../query/json-server.ts'
import type { PresentCollection } from '../query/queries.ts'
import type { Asker } from '../runtime/turns.ts'
import type { ApiOptions } from './api-options.ts'

/** The items embedded in an item, now or right after an event. */
interface Embedding {
  readonly collection: string
  readonly relations: readonly Relation[]
  readonly at: Position | undefined
}

/** Reads the collections whose items `_embed` and `_expand` show in others. The readings are to be released. */
export class RelatedCollections {
  readonly #options: ApiOptions

  constructor(options: ApiOptions) {
    this.#options = options
  }

  /** As they are now. */
  now(collection: string, relations: readonly Relation[]): readonly RelatedSnapshot[] {
    const { views, queries } = this.#options
    const isList = (name: string): boolean => views.find(name)?.isObject === false
    return relatedOf(collection, relations, isList).map((related) => ({
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
    const { views, past } = this.#options
    const isList = (name: string): boolean => past.existed(name, at) && views.any(name)?.isObject === false
    const readings: RelatedSnapshot[] = []
    try {
      for (const related of relatedOf(collection, relations, isList)) {
        readings.push({ ...related, snapshot: await past.collection(related.collection, at, asker) })
      }
    } catch (error) {
      release(readings)
      throw error
    }
    return readings
  }

  /** The text of an item with its related ones in it. */
  async textOf(item: Item, { collection, relations, at }: Embedding, asker: Asker): Promise<string> {
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

export function release(related: readonly RelatedSnapshot[]): void {
  for (const { snapshot } of related) snapshot.release()
}
