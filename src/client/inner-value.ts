import { positionOf, type Requests } from './requests.ts'
import { type Patch, type PatchOperation, type WriteOptions, type Written, write } from './writes.ts'

/** A value inside an item; there need not be one. */
export class InnerValue<V> {
  readonly #requests: Requests
  readonly #path: string

  constructor(requests: Requests, path: string) {
    this.#requests = requests
    this.#path = path
  }

  async get(options: { readonly signal?: AbortSignal } = {}) {
    const response = await this.#requests.send('GET', this.#path, options)
    const etag = response.headers.get('ETag') ?? ''
    return { value: response.json() as V, position: positionOf(response), etag }
  }

  /** Puts another value in its place. `etag` of the answer and `ifMatch` are of this value; that of the item matches, too. */
  replace(value: V, options: WriteOptions = {}): Promise<Written> {
    return write(this.#requests, 'PUT', this.#path, value, options)
  }

  /** A merge patch (RFC 7396), by which anything but an object replaces the value, or the operations of a JSON Patch (RFC 6902), whose pointers begin at this value. */
  patch(patch: Patch<V> | readonly PatchOperation[], options: WriteOptions = {}): Promise<Written> {
    return write(this.#requests, 'PATCH', this.#path, patch, options)
  }
}
