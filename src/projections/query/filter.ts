import { isArray, isObject, type JsonValue } from '../../json/value.ts'
import { compareRanked, ranked, readAs } from './ordering.ts'
import { type Path, valuesAt } from './paths.ts'

export const OPERATORS = [
  'eq',
  'ne',
  'gt',
  'gte',
  'lt',
  'lte',
  'in',
  'contains',
  'startswith',
  'endswith',
  'exists',
] as const
export type Operator = (typeof OPERATORS)[number]

/** One parameter: any of its values may match; with `ne`, none may be equal. */
export interface Filter {
  readonly path: Path
  readonly operator: Operator
  readonly values: readonly string[]
}

export function matches(item: JsonValue, { path, operator, values }: Filter): boolean {
  const found = valuesAt(item, path)
  if (operator === 'exists') return values.some((wanted) => (wanted === 'true') === found.length > 0)
  return found.some((value) =>
    operator === 'ne'
      ? values.every((wanted) => holds('ne', value, wanted))
      : values.some((wanted) => holds(operator, value, wanted)),
  )
}

function holds(operator: Exclude<Operator, 'exists'>, value: JsonValue, wanted: string): boolean {
  switch (operator) {
    case 'contains':
      return typeof value === 'string' && value.includes(wanted)
    case 'startswith':
      return typeof value === 'string' && value.startsWith(wanted)
    case 'endswith':
      return typeof value === 'string' && value.endsWith(wanted)
    case 'in':
      return wanted.split(',').some((one) => holds('eq', value, one))
    default: {
      const left = ranked(value)
      const right = readAs(left.rank, wanted)
      if (!right) return false
      const order = compareRanked(left, right)
      switch (operator) {
        case 'eq':
          return order === 0
        case 'ne':
          return order !== 0
        case 'gt':
          return order > 0
        case 'gte':
          return order >= 0
        case 'lt':
          return order < 0
        case 'lte':
          return order <= 0
        default:
          return operator satisfies never
      }
    }
  }
}

/** Whether the text occurs in any value of the item, in either case; `lowered` is in lower case. */
export function mentions(value: JsonValue, lowered: string): boolean {
  if (isArray(value)) return value.some((element) => mentions(element, lowered))
  if (isObject(value)) return Object.values(value).some((member) => mentions(member as JsonValue, lowered))
  return String(value).toLowerCase().includes(lowered)
}
