/** The changes that `Api.Compatibility: "json-server"` makes to responses. */

import { formatPath } from '../json/paths.ts'
import { foreignKeyOf } from '../query/embedding.ts'
import type { Parameter, Query } from '../query/query.ts'
import type { ApiOptions } from './api-options.ts'
import { resultObject, type Wrapper, type WrapperOf } from './pages.ts'

/** The envelope of json-server 1.0 around the items of a page; undefined where it has none (`_limit` of 0.17). */
function envelopeOf(parameters: readonly Parameter[], { page }: Query, total: number): Wrapper | undefined {
  const { family, size, offset } = page
  if (family.size !== '_per_page' || !parameters.some(({ name }) => name === family.start)) return undefined
  const pages = Math.max(1, Math.ceil(total / size))
  const current = offset / size + 1
  const prev = current > 1 ? Math.min(current - 1, pages) : null
  const next = current < pages ? current + 1 : null
  const before = `{"first":1,"prev":${prev},"next":${next},"last":${pages},"pages":${pages},"items":${total},"data":`
  return { before, after: '}' }
}

/** The wrapper of JSON pages of items. */
export function wrapperFor({ isJsonServer, useResultObject }: ApiOptions): WrapperOf {
  return (path, parameters, query, total) => {
    const envelope = isJsonServer ? envelopeOf(parameters, query, total) : undefined
    return envelope ?? (useResultObject ? resultObject(total, path, parameters, query) : undefined)
  }
}

/** The filter that selects what refers to an item: `postId=1` for `/api/posts/1/comments`. */
export function nestedFilter(collection: string, key: string): Parameter {
  const name = formatPath([foreignKeyOf(collection)])
  return { raw: `${encodeURIComponent(name)}=${encodeURIComponent(key)}`, name, value: key }
}
