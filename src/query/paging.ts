import { Refusal } from '../runtime/errors.ts'
import { JSON_SERVER_FAMILIES } from './json-server.ts'
import type { Family, Parameter, ParameterDescription } from './parameter.ts'

export interface Page {
  readonly offset: number
  readonly size: number
  /** Highest number of items on a page. */
  readonly largest: number
  /** The paging parameters of the request, which links use as well. */
  readonly family: Family
}

export const DEFAULT_PAGE_SIZE = 512

const OWN_FAMILIES = [
  { start: 'page', size: 'pageSize', pages: true },
  { start: 'page', size: 'per_page', pages: true },
  { start: 'skip', size: 'take', pages: false },
  { start: 'offset', size: 'limit', pages: false },
] as const satisfies readonly Family[]

const FAMILIES: readonly Family[] = [...OWN_FAMILIES, ...JSON_SERVER_FAMILIES]

export const PAGING: ReadonlySet<string> = new Set(FAMILIES.flatMap(({ start, size }) => [start, size]))

export const PAGE_PARAMETERS = Object.fromEntries(
  OWN_FAMILIES.flatMap((family) => {
    const { start, size, pages } = family
    const first = pages ? 'The page, from 1.' : `Number of items to skip. With \`${size}\`.`
    const most = `Highest number of items, by default ${DEFAULT_PAGE_SIZE}. With \`${start}\`.`
    return [
      [start, integerParameter(first, firstNumber(family))],
      [size, integerParameter(most, 1)],
    ]
  }),
) as Readonly<Record<(typeof OWN_FAMILIES)[number]['start' | 'size'], ParameterDescription>>

function integerParameter(description: string, minimum: number): ParameterDescription {
  return { description, schema: { type: 'integer', minimum } }
}

/** `initial` is the number of items of a page when no size is given. */
export function parsePage(paging: ReadonlyMap<string, string>, largest: number, initial: number): Page {
  const used = [...paging.keys()]
  const family = FAMILIES.find(({ start, size }) => used.every((name) => name === start || name === size))
  if (!family) {
    throw new Refusal(
      'Invalid',
      `The parameters ${used.join(', ')} count pages in different ways; use one of: ${FAMILIES.map(({ start, size }) => `${start} and ${size}`).join('; ')}.`,
    )
  }
  const start = parseCount(paging, family.start, firstNumber(family)) ?? firstNumber(family)
  // The index behind the last item counts from the first item of all, a size from that of the page.
  const sizeFrom = family.isEnd ? start : 0
  const size =
    (parseCount(paging, family.size, sizeFrom + 1) ?? sizeFrom + Math.min(family.initial ?? initial, largest)) -
    sizeFrom
  if (size > largest) throw new Refusal('Invalid', `The parameter ${family.size} may be at most ${sizeFrom + largest}.`)
  return { offset: family.pages ? (start - 1) * size : start, size, largest, family }
}

function firstNumber({ pages }: Family): number {
  return pages ? 1 : 0
}

function parseCount(paging: ReadonlyMap<string, string>, name: string, least: number): number | undefined {
  const text = paging.get(name)
  if (text === undefined) return undefined
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN
  if (value >= least) return value
  throw new Refusal(
    'Invalid',
    `The parameter ${name} must be an integer of at least ${least}, not ${JSON.stringify(text)}.`,
  )
}

export interface PageLink {
  readonly relation: 'first' | 'prev' | 'next' | 'last'
  /** The query without its `?`. */
  readonly search: string
}

/**
 * The parameters of the other pages; all others are kept as they were sent. Before an offset smaller than a page comes
 * a page of only as many items, so that following `prev` shows no item twice.
 */
export function pageLinks(parameters: readonly Parameter[], page: Page, total: number): readonly PageLink[] {
  const { family, size, offset } = page
  const lastOffset = Math.max(0, Math.ceil(total / size) - 1) * size
  let rest = ''
  for (const { name, raw } of parameters) {
    if (name !== family.start && !(family.isEnd && name === family.size)) rest += `${raw}&`
  }
  rest += `${family.start}=`
  const searchAt = (start: number): string => {
    if (family.pages) return `${rest}${Math.floor(start / size) + 1}`
    return family.isEnd ? `${rest}${start}&${family.size}=${start + size}` : rest + start
  }
  const links: PageLink[] = [{ relation: 'first', search: searchAt(0) }]
  if (offset >= size) links.push({ relation: 'prev', search: searchAt(Math.min(offset - size, lastOffset)) })
  else if (offset > 0) links.push({ relation: 'prev', search: searchBefore(offset, parameters, family) })
  if (offset + size < total) links.push({ relation: 'next', search: searchAt(offset + size) })
  links.push({ relation: 'last', search: searchAt(lastOffset) })
  return links
}

function searchBefore(offset: number, parameters: readonly Parameter[], family: Family): string {
  const others = parameters.filter(({ name }) => name !== family.start && name !== family.size)
  return [...others.map(({ raw }) => raw), `${family.size}=${offset}`, `${family.start}=0`].join('&')
}
