import { positionOf, type Requests, searchOf, segment } from './requests.ts'
import { sendWrite } from './writes.ts'

export interface DeleteOptions {
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
  /** The ids of the first 1000 items. */
  readonly ids: readonly (string | number)[]
  /** Position of the last event. */
  readonly position: number
}

/** Deletes the items that match the filters; with `all=true` instead, the collection. */
export async function deleteItems(
  requests: Requests,
  collection: string,
  filters: URLSearchParams,
  { dryRun, ...options }: DeleteOptions,
): Promise<Deleted> {
  if (dryRun) filters.set('dryRun', 'true')
  const path = `/api/${segment(collection)}${searchOf(filters)}`
  const response = await sendWrite(requests, 'DELETE', path, undefined, options)
  return { ...(response.json() as Omit<Deleted, 'position'>), position: positionOf(response) }
}
