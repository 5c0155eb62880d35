import type { JsonObject } from '../json/value.ts'
import { Item } from './collection.ts'
import { LiveList } from './live-list.ts'
import { type Moment, momentOf } from './parameters.ts'
import { Problem } from './problem.ts'
import type { Server } from './query.ts'
import { segment } from './requests.ts'

/** The id in events and changes. Items of lists never have an empty id. */
const OBJECT_ID = ''

/** A single object, which need not exist. It is read and written like an item. */
export class SingleObject<T extends object> extends Item<T> {
  readonly #server: Server

  constructor(server: Server, name: string, asOf?: string) {
    super(server.requests, name, OBJECT_ID, asOf)
    this.#server = server
  }

  override asOf(at: Moment): Pick<Item<T>, 'get' | 'id' | 'collection'> {
    return new SingleObject<T>(this.#server, this.collection, momentOf(at))
  }

  /** A list that contains the object while it exists. Call `close()` to end it. */
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
