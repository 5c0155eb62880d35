import { type Filters, searchOf, textOf } from './parameters.ts'
import {
  journalPosition,
  type Method,
  pathSegment,
  type ReadOptions,
  type ReadResponse,
  type Requests,
} from './requests.ts'

export interface Written {
  /** Position of the event. */
  readonly position: number
  /** Tag of the item, or of the value inside it, after the write; undefined after a deletion. */
  readonly etag: string | undefined
}

export interface WriteOptions {
  /** Writes only if the item still has this tag; otherwise a `Problem` with status 412 is thrown. */
  readonly ifMatch?: string
  /**
   * Writes only if the item has not changed since this position, such as the `position` of the page or the live list
   * that shows it; otherwise a `Problem` with status 412 is thrown.
   */
  readonly ifUnchangedSince?: number
  /** A write that is sent again with the same key is executed once. */
  readonly idempotencyKey?: string
  readonly signal?: AbortSignal
}

/** A merge patch: `null` removes a member, objects are merged, other values replace. */
export type Patch<T> = {
  readonly [name in keyof T]?: (T[name] extends object ? Patch<T[name]> | T[name] : T[name]) | null
}

export interface PatchOperation {
  readonly op: 'add' | 'remove' | 'replace' | 'move' | 'copy' | 'test'
  readonly path: string
  readonly from?: string
  readonly value?: unknown
}

/** Writes what is at a path. A patch that is an array is a JSON Patch. `prefer` is the header `Prefer`. */
export function write(
  requests: Requests,
  method: Method,
  path: string,
  body: unknown,
  { ifMatch, ifUnchangedSince, idempotencyKey, signal }: WriteOptions,
  prefer?: string,
): Promise<ReadResponse> {
  const patchType = Array.isArray(body) ? 'application/json-patch+json' : 'application/merge-patch+json'
  const headers = {
    'Content-Type': method === 'PATCH' ? patchType : undefined,
    'If-Match': ifMatch,
    'If-Unchanged-Since': textOf(ifUnchangedSince),
    'Idempotency-Key': idempotencyKey,
    Prefer: prefer,
  }
  return requests.send(method, path, { body, headers, signal })
}

export function written(response: ReadResponse): Written {
  return { position: journalPosition(response), etag: response.headers.get('ETag') ?? undefined }
}

export interface DeleteOptions {
  /** One write, however many items are deleted; otherwise many are deleted in several, between which others write. */
  readonly atomic?: boolean
  /** Deletes nothing and returns what would be deleted. */
  readonly dryRun?: boolean
  /** A write that is sent again with the same key is executed once. */
  readonly idempotencyKey?: string
  readonly signal?: AbortSignal
}

export interface Deleted {
  /** Number of items that were, or would be, deleted. */
  readonly deleted: number
  readonly dryRun: boolean
  /** Number of writes; 0 if nothing was written. */
  readonly writes: number
  /** Only of a whole collection: false if it stays, as others added items between several writes. */
  readonly removed?: boolean
  /** The ids of the first 1000 items, of several writes those of the first. */
  readonly ids: readonly (string | number)[]
  /** Position of the last event. */
  readonly position: number
}

/** Deletes the items that match the filters; with `all=true` instead, the collection. */
export async function deleteItems(
  requests: Requests,
  collection: string,
  filters: Filters,
  { dryRun = false, atomic = false, ...options }: DeleteOptions,
): Promise<Deleted> {
  const path = `/api/${pathSegment(collection)}${searchOf({ dryRun: dryRun || undefined }, filters)}`
  const response = await write(requests, 'DELETE', path, undefined, options, atomic ? 'atomic' : undefined)
  return { ...(response.json() as Omit<Deleted, 'position'>), position: journalPosition(response) }
}

/** A value inside an item; there need not be one. */
export class InnerValue<V> {
  readonly #requests: Requests
  readonly #path: string

  constructor(requests: Requests, path: string) {
    this.#requests = requests
    this.#path = path
  }

  async get(options: ReadOptions = {}) {
    const response = await this.#requests.send('GET', this.#path, options)
    const etag = response.headers.get('ETag') ?? ''
    return { value: response.json() as V, position: journalPosition(response), etag }
  }

  /** Puts another value in its place. `etag` of the answer and `ifMatch` are of this value; that of the item matches, too. */
  async replace(value: V, options: WriteOptions = {}): Promise<Written> {
    return written(await write(this.#requests, 'PUT', this.#path, value, options))
  }

  /** A merge patch (RFC 7396), by which anything but an object replaces the value, or the operations of a JSON Patch (RFC 6902), whose pointers begin at this value. */
  async patch(patch: Patch<V> | readonly PatchOperation[], options: WriteOptions = {}): Promise<Written> {
    return written(await write(this.#requests, 'PATCH', this.#path, patch, options))
  }
}
