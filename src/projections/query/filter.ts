import { compareRanked, keyOf, type Ranked, ranked } from '../../json/order.ts'
import { type Path, valuesAt } from '../../json/paths.ts'
import { isArray, isObject, type JsonValue } from '../../json/value.ts'
import { readings } from './readings.ts'

/** What `<field>_<op>` may be; `in` is `eq` with several values. */
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

/** One parameter: any of the wanted values may match; with `ne`, none may be equal. */
export interface Filter {
  readonly path: Path
  readonly operator: Exclude<Operator, 'in'>
  readonly wanted: readonly Wanted[]
  /** For `eq`: every reading of every wanted value, so that a long list costs no more than a short one. */
  readonly equal: ReadonlySet<string>
}

/** A parameter's text, and what it says in each class: the class of the item's value decides which of them counts. */
interface Wanted {
  readonly text: string
  readonly readings: ReturnType<typeof readings>
}

export function filterOf(path: Path, operator: Operator, values: readonly string[]): Filter {
  const texts = operator === 'in' ? values.flatMap((value) => value.split(',')) : values
  const wanted = texts.map((text) => ({ text, readings: readings(text) }))
  let equal: ReadonlySet<string> | undefined
  return {
    path,
    operator: operator === 'in' ? 'eq' : operator,
    wanted,
    get equal() {
      equal ??= new Set(wanted.flatMap((one) => one.readings.flatMap((reading) => (reading ? [keyOf(reading)] : []))))
      return equal
    },
  }
}

export function matches(item: JsonValue, { path, operator, wanted, equal }: Filter): boolean {
  const found = valuesAt(item, path)
  switch (operator) {
    case 'exists':
      return wanted.some(({ text }) => text === String(found.length > 0))
    case 'contains':
    case 'startswith':
    case 'endswith':
      return found.some((value) => typeof value === 'string' && wanted.some(({ text }) => holds[operator](value, text)))
    case 'eq':
      return found.some((value) => equal.has(keyOf(ranked(value))))
    case 'ne':
      return found.map(ranked).some((value) => isNone(value, wanted))
    default:
      return found.map(ranked).some((value) => wanted.some((one) => isInOrder(operator, value, one)))
  }
}

const holds = {
  contains: (value: string, text: string) => value.includes(text),
  startswith: (value: string, text: string) => value.startsWith(text),
  endswith: (value: string, text: string) => value.endsWith(text),
}

/** Texts that are nothing of the value's class are left out; one must be left, and the value equal to none. */
function isNone(value: Ranked, wanted: readonly Wanted[]): boolean {
  const comparable = wanted.filter(({ readings }) => readings[value.rank] !== undefined)
  return comparable.length > 0 && comparable.every((one) => isInOrder('ne', value, one))
}

/** False for every operator when the text is nothing of the value's class. */
function isInOrder(operator: keyof typeof says, value: Ranked, { readings }: Wanted): boolean {
  const reading = readings[value.rank]
  return reading !== undefined && says[operator](compareRanked(value, reading))
}

const says = {
  ne: (order: number) => order !== 0,
  gt: (order: number) => order > 0,
  gte: (order: number) => order >= 0,
  lt: (order: number) => order < 0,
  lte: (order: number) => order <= 0,
}

/** Whether any of the texts, folded, occurs in any value of the item. */
export function mentions(value: JsonValue, folded: readonly string[]): boolean {
  if (isArray(value)) return value.some((element) => mentions(element, folded))
  if (isObject(value)) return Object.values(value).some((member) => mentions(member as JsonValue, folded))
  const text = fold(String(value))
  return folded.some((one) => text.includes(one))
}

/** Letters without their case. Both ways, as some letters have two lower or two upper cases: σ and ς, K and the kelvin sign. */
export function fold(text: string): string {
  return text.toLowerCase().toUpperCase()
}
