import { RANK } from '../json/order.ts'
import { orderKey, rankOfKey, scalarKey, timeKeyAt } from '../json/order-key.ts'
import { MANY, type Path, plainAt, valuesAt } from '../json/paths.ts'
import { contains, containsFolded, fold } from '../json/text-search.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../json/value.ts'
import type { Steps } from '../runtime/time-slices.ts'
import { type Operand, operandOf } from './literal.ts'
import { traceOf } from './trace.ts'
import { RECEIVED } from './virtual-field.ts'

/** The suffixes of filters; `in` is `eq` with several values. `like`, `istartswith` and `iendswith` ignore case. */
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
  'like',
  'istartswith',
  'iendswith',
] as const
export type Operator = (typeof OPERATORS)[number]

/** The operators that compare in order. */
export const RANGES: readonly Operator[] = ['gt', 'gte', 'lt', 'lte']

/** One parameter: any of the operands may match; with `ne`, none may be equal. */
export interface Filter {
  readonly path: Path
  /** The path is that of event times, which are compared as instants. */
  readonly isTime: boolean
  readonly operator: Exclude<Operator, 'in'>
  readonly operands: readonly Operand[]
  readonly keys: OperandKeys
  /** Matches the JSON text of each matching item; undefined if there is no such expression. */
  readonly trace: RegExp | undefined
}

/** The order keys of all interpretations, so that many operands cost no more than a few. */
interface OperandKeys {
  readonly all: ReadonlySet<string>
  /** By rank; undefined if no text is a value of that type. */
  readonly lowest: readonly (string | undefined)[]
  readonly highest: readonly (string | undefined)[]
  /** The length of the longest key: the rest of an item's value makes no difference. */
  readonly most: number
}

const FOLDED: ReadonlySet<Operator> = new Set(['like', 'istartswith', 'iendswith'])

export function filterOf(path: Path, operator: Operator, values: readonly string[], isTime = false): Filter {
  const isFolded = FOLDED.has(operator)
  const texts = operator === 'in' ? values.flatMap((value) => value.split(',')) : isFolded ? values.map(fold) : values
  // A long list of the same text, such as commas alone, would cost tens of milliseconds.
  const operands = Array.from(new Set(texts), (text) => operandOf(text, isTime))
  let keys: OperandKeys | undefined
  let trace: RegExp | undefined | null = null
  return {
    path,
    isTime,
    operator: operator === 'in' ? 'eq' : operator,
    operands,
    get trace() {
      if (trace === null) trace = isTime ? undefined : traceOf(path, operator, operands)
      return trace
    },
    get keys() {
      keys ??= keysOf(operands)
      return keys
    },
  }
}

function keysOf(operands: readonly Operand[]): OperandKeys {
  const all = new Set<string>()
  const lowest: string[] = []
  const highest: string[] = []
  let most = 0
  for (const key of operands.flatMap((one) => one.keys)) {
    const rank = rankOfKey(key)
    all.add(key)
    most = Math.max(most, key.length)
    const low = lowest[rank]
    const high = highest[rank]
    if (low === undefined || key < low) lowest[rank] = key
    if (high === undefined || key > high) highest[rank] = key
  }
  return { all, lowest, highest, most }
}

/** Values of an item checked in one step. */
const STEP = 256
/** Longer text is searched in steps. */
const LONG_TEXT = 256
/** Filters checked in one step. */
const FILTERS = 8

/** The conditions of a query: all filters must match, and any of the folded texts must occur if there are any. */
export interface Conditions {
  readonly filters: readonly Filter[]
  readonly mentioned: readonly string[]
}

/** Whether an item meets all conditions. */
export function* meetsConditions(item: JsonObject, { filters, mentioned }: Conditions): Steps<boolean> {
  for (let index = 0; index < filters.length; index++) {
    if (index % FILTERS === FILTERS - 1) yield
    const filter = filters[index] as Filter
    if (!(itemMatches(item, filter) ?? (yield* itemMatchesInSteps(item, filter)))) return false
  }
  return mentioned.length === 0 || (yield* mentionsAny(item, mentioned))
}

/** Whether an item matches a filter; undefined if the check must be time-sliced. */
function itemMatches(item: JsonValue, filter: Filter): boolean | undefined {
  const { path, isTime, operator, keys } = filter
  if (isTime && isComparison(operator)) return timeMatches(timeKeyAt(item, path, keys.most), operator, keys)
  const plain = plainAt(item, path)
  if (plain === undefined) return matchesMissing(filter)
  return plain === MANY ? undefined : valueMatches(plain, filter)
}

/** A value that is no instant is in no range. */
function timeMatches(key: string | undefined, operator: Comparison, keys: OperandKeys): boolean {
  if (key === undefined) return false
  return operator === 'ne' ? !keys.all.has(key) : compares(operator, key, keys)
}

/** Whether an item without a value at the filter's path matches it. */
function matchesMissing(filter: Filter): boolean {
  return filter.operator === 'exists' && hasOperand(false, filter)
}

/** Time-sliced: whether any value at the filter's path matches. */
function* itemMatchesInSteps(item: JsonValue, filter: Filter): Steps<boolean> {
  const { path, operator } = filter
  let looked = 0
  for (const value of valuesAt(item, path)) {
    if (value === undefined) yield
    else if (operator === 'exists') return hasOperand(true, filter)
    else {
      if (++looked % STEP === 0) yield
      if (valueMatches(value, filter) ?? (yield* valueMatchesInSteps(value, filter))) return true
    }
  }
  return matchesMissing(filter)
}

/** Whether `exists` asks for this. */
function hasOperand(exists: boolean, { operands }: Filter): boolean {
  return operands.some(({ text }) => text === String(exists))
}

/** Whether a value matches a filter; undefined if the check must be time-sliced: for long text, arrays and objects. */
function valueMatches(value: JsonValue, filter: Filter): boolean | undefined {
  const { operator, operands, keys } = filter
  switch (operator) {
    case 'exists':
      return hasOperand(true, filter)
    case 'startswith':
      return typeof value === 'string' && operands.some(({ text }) => value.startsWith(text))
    case 'endswith':
      return typeof value === 'string' && operands.some(({ text }) => value.endsWith(text))
    case 'contains':
      if (typeof value !== 'string') return false
      return value.length <= LONG_TEXT ? operands.some(({ text }) => value.includes(text)) : undefined
    case 'like': {
      if (typeof value === 'string' && value.length > LONG_TEXT) return undefined
      if (value === null || isArray(value) || isObject(value)) return false
      const folded = fold(String(value))
      return operands.some(({ text }) => folded.includes(text))
    }
    case 'istartswith':
      return (
        typeof value === 'string' && operands.some(({ text }) => fold(value.slice(0, text.length)).startsWith(text))
      )
    case 'iendswith':
      return typeof value === 'string' && operands.some(({ text }) => fold(value.slice(-text.length)).endsWith(text))
    default:
      if (isArray(value) || isObject(value)) return undefined
      if (typeof value === 'number' && keys.lowest[RANK.number] === undefined) return false
      return compares(operator, scalarKey(value, keys.most), keys)
  }
}

/** Time-sliced: whether long text, an array or an object matches a filter. */
function* valueMatchesInSteps(value: JsonValue, { operator, operands, keys }: Filter): Steps<boolean> {
  if (typeof value === 'string') {
    const texts = operands.map(({ text }) => text)
    if (operator === 'like') return yield* containsFolded(value, texts)
    for (const text of texts) {
      if (yield* contains(value, text)) return true
      yield
    }
    return false
  }
  if (keys.lowest[isArray(value) ? RANK.array : RANK.object] === undefined) return false
  return compares(operator as Comparison, yield* orderKey(value, keys.most), keys)
}

type Comparison = keyof typeof COMPARISONS

/** Whether an operator compares values in order, or for equality. */
export function isComparison(operator: Operator): operator is Comparison {
  return operator in COMPARISONS
}

function compares(operator: Comparison, key: string, keys: OperandKeys): boolean {
  const rank = rankOfKey(key)
  const lowest = keys.lowest[rank]
  const highest = keys.highest[rank]
  // No operand has this type.
  if (lowest === undefined || highest === undefined) return false
  return COMPARISONS[operator](key, { lowest, highest, all: keys.all })
}

const COMPARISONS = {
  eq: (key: string, { all }: Pick<OperandKeys, 'all'>) => all.has(key),
  ne: (key: string, { all }: Pick<OperandKeys, 'all'>) => !all.has(key),
  gt: (key: string, { lowest }: { readonly lowest: string }) => key > lowest,
  gte: (key: string, { lowest }: { readonly lowest: string }) => key >= lowest,
  lt: (key: string, { highest }: { readonly highest: string }) => key < highest,
  lte: (key: string, { highest }: { readonly highest: string }) => key <= highest,
}

/** Whether any of the folded texts occurs in any value of the item. */
function* mentionsAny(item: JsonObject, folded: readonly string[]): Steps<boolean> {
  const containers: (JsonObject | readonly JsonValue[])[] = [item]
  let looked = 0
  for (let container = containers.pop(); container; container = containers.pop()) {
    const names = isArray(container) ? undefined : Object.keys(container)
    const size = names?.length ?? (container.length as number)
    for (let index = 0; index < size; index++) {
      const name = names ? (names[index] as string) : index
      // A query that names the virtual field finds no other items than one that does not.
      if (name === RECEIVED && container === item) continue
      const value = (container as JsonObject)[name] as JsonValue
      if (isArray(value) || isObject(value)) containers.push(value)
      else {
        const text = String(value)
        if (text.length <= LONG_TEXT ? isAnyIn(folded, fold(text)) : yield* containsFolded(text, folded)) return true
      }
      looked += folded.length
      if (looked < STEP) continue
      looked = 0
      yield
    }
    looked++
  }
  return false
}

function isAnyIn(operands: readonly string[], text: string): boolean {
  return operands.some((one) => text.includes(one))
}
