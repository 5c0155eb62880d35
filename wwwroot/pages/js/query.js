// The API's own way to ask (docs/api.md, "Query"), as a list of parameters.

/** @typedef {[name: string, value: string][]} Parameters */

export const OPERATORS = /** @type {const} */ ([
  ['', 'is'],
  ['ne', 'is not'],
  ['gt', '>'],
  ['gte', '≥'],
  ['lt', '<'],
  ['lte', '≤'],
  ['in', 'is one of'],
  ['contains', 'contains'],
  ['startswith', 'starts with'],
  ['endswith', 'ends with'],
  ['like', 'contains, in any case'],
  ['istartswith', 'starts with, in any case'],
  ['iendswith', 'ends with, in any case'],
  ['exists', 'is there'],
])

export const PAGING = ['page', 'pageSize', 'per_page', 'skip', 'take', 'offset', 'limit'].concat(
  ['_page', '_per_page', '_limit', '_start', '_end'], // json-server's
)
export const GROUPING = ['aggregate', 'groupBy', 'window', 'tz', 'fill', 'distinct', 'newestBy']
const JSON_SERVER = ['_sort', '_order', '_embed', '_expand', '_dependent']
const RESERVED = ['q', 'sort', 'fields', 'asOf', 'all', ...GROUPING, ...JSON_SERVER, ...PAGING]
const SUFFIX = /^(.+)_(eq|ne|gt|gte|lt|lte|in|contains|startswith|endswith|exists|like|istartswith|iendswith)$/

/**
 * @param {string} text
 * @returns {Parameters}
 */
export function parse(text) {
  return [...new URLSearchParams(text.trim().replace(/^\?/, ''))]
}

/** @param {Parameters} parameters */
export function write(parameters) {
  return parameters.map(([name, value]) => `${readable(name)}=${readable(value)}`).join('&')
}

/**
 * @param {Parameters} parameters
 * @param {string} name
 */
export function valueIn(parameters, name) {
  return parameters.find(([one]) => one === name)?.[1]
}

/**
 * @param {Parameters} parameters
 * @param {string} name
 * @param {string | undefined} value undefined removes it
 * @returns {Parameters}
 */
export function withValue(parameters, name, value) {
  const others = parameters.filter(([one]) => one !== name)
  return value === undefined || value === '' ? others : [...others, [name, value]]
}

/**
 * The parameter that filters by a field.
 * @param {string} field
 * @param {string} operator '' for equal
 */
export function filterName(field, operator) {
  if (operator !== '') return `${field}_${operator}`
  return RESERVED.includes(field) || SUFFIX.test(field) ? `${field}_eq` : field
}

/**
 * A name of an item as a path has it: a backslash before a dot or comma, and before a backslash that would be taken for such a one.
 * @param {string} name
 */
export function escaped(name) {
  return name.replace(/[.,]|\\(?=[.,\\]|$)/g, '\\$&')
}

/** @param {string} name */
export function isFilter(name) {
  return !RESERVED.includes(name)
}

/**
 * A filter as a sentence.
 * @param {string} name
 * @param {string} value
 */
export function filterText(name, value) {
  const [, field = name, suffix = ''] = SUFFIX.exec(name) ?? []
  if (suffix === 'exists') return `${field} ${value === 'false' ? 'is missing' : 'is there'}`
  const [, sign] = OPERATORS.find(([operator]) => operator === (suffix === 'eq' ? '' : suffix)) ?? ['', '=']
  return `${field} ${sign} ${value}`
}

/**
 * @param {Parameters} parameters
 * @returns {{ field: string, isDown: boolean } | undefined} the first field that is sorted by
 */
export function sorting(parameters) {
  const first = /^(?:\\[\s\S]|[^,])*/.exec(valueIn(parameters, 'sort') ?? '')?.[0].trim()
  if (!first) return undefined
  if (first.startsWith('-')) return { field: first.slice(1), isDown: true }
  const [, field = first.replace(/^\+/, ''), order = 'asc'] = /^(.*)_(asc|desc)$/.exec(first) ?? []
  return { field, isDown: order === 'desc' }
}

/** @param {Parameters} parameters */
export function withoutPaging(parameters) {
  return parameters.filter(([name]) => !PAGING.includes(name))
}

/** @param {string} text */
function readable(text) {
  return encodeURIComponent(text).replace(/%(2C|3A|2F|40|24|5B|5D)/g, decodeURIComponent)
}
