import { type Parameter, type Query, startAt } from './query.ts'

/** What a query string says. */
export interface ParsedQuery {
  readonly parameters: readonly Parameter[]
  readonly query: Query
}

/** The number of a page, or of the item that it begins with. */
const START = /(?:^|&)(?:page|skip|offset)=(\d{1,15})(?=&|$)/

const MOST = 100

/**
 * Query strings that were read of late, but for the number of their page: whoever pages through a query asks for the same
 * again and again. What is the same of them is the same object, so that others may keep what they make of it.
 */
export class RecentQueries {
  /** By what stands around the number. */
  readonly #kept = new Map<string, ParsedQuery>()

  find(search: string): ParsedQuery | undefined {
    const place = placeOf(search)
    const kept = place && this.#kept.get(place.around)
    if (!kept) return undefined
    const page = startAt(kept.query.page, place.start)
    return page && { parameters: kept.parameters, query: { ...kept.query, page } }
  }

  /** `parsed` is what the query string says; returned to be used instead of it. */
  keep(search: string, { parameters, query }: ParsedQuery): ParsedQuery {
    const place = placeOf(search)
    if (!place) return { parameters, query }
    const shared = { parameters, query: { ...query, isShared: true } }
    if (this.#kept.size >= MOST) this.#kept.clear()
    this.#kept.set(place.around, shared)
    return shared
  }
}

function placeOf(search: string): { readonly around: string; readonly start: number } | undefined {
  const match = START.exec(search)
  if (!match) return undefined
  const to = match.index + match[0].length
  const from = to - (match[1] as string).length
  return { around: `${search.slice(0, from)}?${search.slice(to)}`, start: Number(search.slice(from, to)) }
}
