import type { Position } from '../events/event.ts'
import { formatPath } from '../json/paths.ts'
import { collectionPath } from '../projections/address.ts'
import { type PageLink, pageLinks } from '../query/paging.ts'
import type { Parameter, Query } from '../query/query.ts'
import type { CachedResponse } from '../query/response-cache.ts'
import type { ApiOptions } from './api-options.ts'
import type { Reply } from './exchange.ts'

/** Clients accept headers of 16 KiB in total. */
const LINK_BYTES = 8 * 1024

export function replyPage(reply: Reply, { text, total, link }: CachedResponse): void {
  reply.set('X-Total-Count', String(total))
  if (link !== undefined) reply.set('Link', link)
  reply.json(text)
}

/** The `Link` header. Links repeat the query: for a very long one only the next page fits, or none. */
export function linkOf(
  name: string,
  parameters: readonly Parameter[],
  { page }: Query,
  total: number,
): string | undefined {
  const links = pageLinks(parameters, page, total)
  const headerOf = (wanted: typeof links): string =>
    wanted.map(({ relation, search }) => `<${collectionPath(name)}?${search}>; rel="${relation}"`).join(', ')
  const all = headerOf(links)
  if (all.length <= LINK_BYTES) return all
  const next = headerOf(links.filter(({ relation }) => relation === 'next'))
  return next !== '' && next.length <= LINK_BYTES ? next : undefined
}

/** The JSON before and after the items of a page. */
export interface Wrapper {
  readonly before: string
  readonly after: string
}

/** The wrapper of a JSON page of items; undefined for a plain array. `path` is the collection's as clients see it. */
export function wrapperOf(
  { isJsonServer, useResultObject }: ApiOptions,
  path: string,
  parameters: readonly Parameter[],
  query: Query,
  total: number,
): Wrapper | undefined {
  const envelope = isJsonServer ? envelopeOf(parameters, query, total) : undefined
  return envelope ?? (useResultObject ? resultObject(total, path, parameters, query) : undefined)
}

/** FakeServer's object around a page (`Api.UseResultObject`). */
function resultObject(total: number, path: string, parameters: readonly Parameter[], { page }: Query): Wrapper {
  const searches = new Map(pageLinks(parameters, page, total).map(({ relation, search }) => [relation, search]))
  const to = (relation: PageLink['relation']): string =>
    searches.has(relation) ? `${path}?${searches.get(relation)}` : ''
  const { family, offset, size } = page
  const link = { Prev: to('prev'), Next: to('next'), First: to('first'), Last: to('last') }
  const start = family.pages ? Math.floor(offset / size) + 1 : offset
  const rest = JSON.stringify({ link, count: total, [family.start]: start, [family.size]: size })
  return { before: '{"results":', after: `,${rest.slice(1)}` }
}

/**
 * The entity tag of a collection at a position. Every change of a page is an event of its collection, unless the server
 * starts with other settings that affect pages. The journal's id distinguishes histories.
 */
export function tagAt(options: ApiOptions, name: string, position: Position): string {
  const { journal, queries, isJsonServer, useResultObject } = options
  const time = queries.timeOf(name)
  const form = `${useResultObject ? '-results' : ''}${isJsonServer ? '-json-server' : ''}`
  return `"${position}-${journal.id}${form}${time ? `-${encodeURIComponent(formatPath(time))}` : ''}"`
}

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
