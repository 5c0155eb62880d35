import type { Path } from '../json/paths.ts'
import type { JsonObject } from '../json/value.ts'
import { Refusal } from '../runtime/errors.ts'

/** A parameter as sent, for links, and decoded. */
export interface Parameter {
  readonly raw: string
  readonly name: string
  readonly value: string
}

/** Bytes for each parameter, for each of its values and steps of paths, and for each character. */
const PARAMETER_BYTES = 2000
const PART_BYTES = 500
const CHARACTER_BYTES = 5
const BETWEEN_PARTS = /[,.]/

/** The memory of the query, or of the subscription, that parameters are parsed to: a value is kept as text and as keys. */
export function bytesOfParameters(parameters: readonly Parameter[]): number {
  let bytes = 0
  for (const { name, value } of parameters) {
    const parts = value.split(BETWEEN_PARTS).length
    bytes += PARAMETER_BYTES + PART_BYTES * parts + CHARACTER_BYTES * (name.length + value.length)
  }
  return bytes
}

/** The two parameters that count pages or items. */
export interface Family {
  readonly start: string
  readonly size: string
  /** Whether `start` counts pages, from 1, or items, from 0. */
  readonly pages: boolean
  /** `size` is the index behind the last item. */
  readonly isEnd?: boolean
  /** Items of a page when no size is given. */
  readonly initial?: number
}

/** A parameter as OpenAPI documents it. */
export interface ParameterDescription {
  readonly description: string
  readonly schema: JsonObject
}

export const TEXT = { type: 'string' } as const
/** Separated by commas. */
export const TEXT_LIST = { type: 'array', items: TEXT } as const
export const FLAG = { type: 'boolean' } as const

/** json-server's: milliseconds after which the request is answered. */
export const DELAY = '_delay'

/** Parameters without a meaning for reads. Clients add most of them to avoid cached responses: jQuery, ExtJS and others. */
export const IGNORED: readonly string[] = ['_', '_dc', '_t', DELAY]

/** The underscore may be percent-encoded. */
const IGNORED_PARAMETER = new RegExp(
  `(?:^|&)(?:${IGNORED.join('|').replaceAll('_', '(?:_|%5[Ff])')})(?:=[^&]*)?(?=&|$)`,
  'g',
)

/** A query string without the parameters that reads ignore. */
export function withoutIgnored(search: string): string {
  const rest = search.replace(IGNORED_PARAMETER, '')
  return rest.startsWith('&') ? rest.slice(1) : rest
}

/** `id` of `id[]` and `id[0]`, by which axios, jQuery and qs name the values of an array. */
export function parameterName(sent: string): string {
  return sent.endsWith(']') ? sent.replace(/(?!^)\[\d*\]$/, '') : sent
}

/** The value of a parameter with the schema `FLAG`; by default false. */
export function parseFlag(parameters: readonly Parameter[], name: string): boolean {
  const given = parameters.filter((parameter) => parameter.name === name).map(({ value }) => value)
  if (given.length > 1 || !['true', 'false'].includes(given[0] ?? 'false')) {
    throw new Refusal('Invalid', `The parameter ${name} must be true or false, once.`)
  }
  return given[0] === 'true'
}

/** The virtual field of an item that queries may name: when the journal received the item's last event. */
export const RECEIVED = '$received'

export function isReceived(path: Path): boolean {
  return path[0] === RECEIVED
}

/** The text of an item with the virtual field. A member of that name which the item has itself is hidden. */
export function withReceived(text: string, timeMs: number): string {
  const body = text.slice(0, -1)
  return `${body}${body === '{' ? '' : ','}"${RECEIVED}":"${new Date(timeMs).toISOString()}"}`
}

export function scanTimeout(seconds: number): Refusal {
  return new Refusal(
    'Unavailable',
    `The query was aborted after ${seconds} s (Limits.ScanSeconds), because it has to scan too many items. Fields that are ` +
      'filtered or sorted by a second time get an index: try again later, or filter by indexed fields.',
  )
}
