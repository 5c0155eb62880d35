import type { Position } from '../events/event.ts'
import { formatPath } from '../json/paths.ts'
import { collectionPath } from '../projections/address.ts'
import { LongText, type PageText } from '../query/page-text.ts'
import { type PageLink, pageLinks } from '../query/paging.ts'
import type { Parameter, Query } from '../query/query.ts'
import type { CachedResponse } from '../query/response-cache.ts'
import type { ApiOptions } from './api-options.ts'
import type { Reply } from './exchange.ts'

/** Clients accept headers of 16 KiB in total. */
const LINK_BYTES = 8 * 1024

type Page = Omit<CachedResponse, 'text'> & Pick<PageText, 'text'>

export function replyPage(reply: Reply, { text, total, link }: Page): void {
  reply.set('X-Total-Count', String(total))
  if (link !== undefined) reply.set('Link', link)
  reply.json(text)
}

export function linkOf(
  name: string,
  parameters: readonly Parameter[],
  { page }: Query,
  total: number,
): string | undefined {
  return linkHeader(collectionPath(name), pageLinks(parameters, page, total))
}

/** Links repeat the query: for a very long one only the next page fits, or none. */
function linkHeader(path: string, links: readonly PageLink[]): string | undefined {
  const linksOf = (wanted: typeof links): string =>
    wanted.map(({ relation, search }) => `<${path}?${search}>; rel="${relation}"`).join(', ')
  const all = linksOf(links)
  if (all.length <= LINK_BYTES) return all
  const next = linksOf(links.filter(({ relation }) => relation === 'next'))
  return next !== '' && next.length <= LINK_BYTES ? next : undefined
}

/** The JSON before and after the items of a page. */
export interface Wrapper {
  readonly before: string
  readonly after: string
}

/** Undefined for a plain array. `path` is the collection's as clients see it. */
export type WrapperOf = (
  path: string,
  parameters: readonly Parameter[],
  query: Query,
  total: number,
) => Wrapper | undefined

export function wrapped(text: PageText['text'], wrapper: Wrapper | undefined): string | LongText {
  if (!wrapper) return text
  const { before, after } = wrapper
  if (typeof text === 'string') return before + text + after
  return new LongText([before, ...text.pieces, after], text.bytes + Buffer.byteLength(before + after))
}

/** FakeServer's object around a page (`Api.UseResultObject`). `path` is the collection's as clients see it. */
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

/** The entity tag of a collection at a position. */
export type TagAt = (name: string, position: Position) => string

/**
 * The entity tags of collections by position. Every change of a page is an event of its collection, unless the server
 * starts with other settings that affect pages. The journal's id distinguishes histories.
 */
export function collectionTags({ journal, queries, isJsonServer, useResultObject }: ApiOptions): TagAt {
  const form = `${useResultObject ? '-results' : ''}${isJsonServer ? '-json-server' : ''}`
  return (name, position) => {
    const time = queries.timeOf(name)
    return `"${position}-${journal.id}${form}${time ? `-${encodeURIComponent(formatPath(time))}` : ''}"`
  }
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

/** The wrapper of JSON pages of items. */
export function wrapperFor({ isJsonServer, useResultObject }: ApiOptions): WrapperOf {
  return (path, parameters, query, total) => {
    const envelope = isJsonServer ? envelopeOf(parameters, query, total) : undefined
    return envelope ?? (useResultObject ? resultObject(total, path, parameters, query) : undefined)
  }
}
