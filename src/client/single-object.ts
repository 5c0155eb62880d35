import type { JsonObject } from '../json/value.ts'
import { Item } from './collection.ts'
import { LiveList } from './live-list.ts'
import { type Moment, momentOf } from './parameters.ts'
import { Problem } from './problem.ts'
import type { Server } from './query.ts'
import { segment } from './requests.ts'

/** In events and changes; the items of a list have an id that is not empty. */
const OBJECT_ID = ''

/** A single object by its name; it need not exist. It is read and written as an item is. */
export class SingleObject<T extends object> extends Item<T> {
  readonly #server: Server

  constructor(server: Server, name: string, asOf?: string) {
    super(server.requests, name, OBJECT_ID, asOf)
    this.#server = server
  }

  override asOf(at: Moment): Pick<Item<T>, 'get' | 'id' | 'collection'> {
    return new SingleObject<T>(this.#server, this.collection, momentOf(at))
  }

  /** A list that has the object while there is one, and stays right. Ends with `close()`. */
  live(): LiveList<T> {
    return new LiveList<T>(this.#server.connection, {
      collection: this.collection,
      query: '',
      sort: [],
      window: undefined,
      select: undefined,
      replay: undefined,
      idOf: () => OBJECT_ID,
      readAll: async (position, signal) => {
        const then = new SingleObject<JsonObject>(this.#server, this.collection, String(position))
        try {
          return [(await then.get({ signal })).item]
        } catch (error) {
          if (error instanceof Problem && error.status === 404) return []
          throw error
        }
      },
    })
  }

  protected override get path(): string {
    return `/api/${segment(this.collection)}`
  }
}
