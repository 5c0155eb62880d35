import { type Method, positionOf, type ReadResponse, type RequestOptions, type Requests } from './requests.ts'

export interface Written {
  /** Position of the event. */
  readonly position: number
  /** Tag of the item, or of the value inside it, after the write; undefined after a deletion. */
  readonly etag: string | undefined
}

export interface WriteOptions {
  /** Writes only if the item still has this tag; otherwise a `Problem` with status 412 is thrown. */
  readonly ifMatch?: string
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

/** Writes what is at a path. A patch that is an array is a JSON Patch. */
export async function write(
  requests: Requests,
  method: Method,
  path: string,
  body: unknown,
  options: WriteOptions,
): Promise<Written> {
  const patchType = Array.isArray(body) ? 'application/json-patch+json' : 'application/merge-patch+json'
  const headers = method === 'PATCH' ? { 'Content-Type': patchType } : {}
  return written(await sendWrite(requests, method, path, body, options, headers))
}

export function sendWrite(
  requests: Requests,
  method: Method,
  path: string,
  body: unknown,
  { ifMatch, idempotencyKey, signal }: WriteOptions,
  headers: RequestOptions['headers'] = {},
): Promise<ReadResponse> {
  const conditions = { 'If-Match': ifMatch, 'Idempotency-Key': idempotencyKey }
  return requests.send(method, path, { body, headers: { ...conditions, ...headers }, signal })
}

export function written(response: ReadResponse): Written {
  return { position: positionOf(response), etag: response.headers.get('ETag') ?? undefined }
}
