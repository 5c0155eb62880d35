import { RANK } from '../json/order.ts'
import { keyOfRanked, orderKey, rankOfKey, scalarKey } from '../json/order-key.ts'
import { MANY, type Path, plainAt, valuesAt } from '../json/paths.ts'
import { contains, containsFolded, fold } from '../json/text-search.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../json/value.ts'
import type { Steps } from '../runtime/time-slices.ts'
import { interpretations } from './literal.ts'
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
  readonly operator: Exclude<Operator, 'in'>
  readonly operands: readonly Operand[]
  readonly keys: OperandKeys
  /** Matches the JSON text of each matching item; undefined if there is no such expression. */
  readonly trace: RegExp | undefined
}

/** The text of a parameter, read as a value of each type; the type of the item's value decides which one counts. */
interface Operand {
  readonly text: string
  readonly interpretations: ReturnType<typeof interpretations>
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

export function filterOf(path: Path, operator: Operator, values: readonly string[]): Filter {
  const isFolded = FOLDED.has(operator)
  const texts = operator === 'in' ? values.flatMap((value) => value.split(',')) : isFolded ? values.map(fold) : values
  const operands = texts.map((text) => ({ text, interpretations: interpretations(text) }))
  let keys: OperandKeys | undefined
  let trace: RegExp | undefined | null = null
  return {
    path,
    operator: operator === 'in' ? 'eq' : operator,
    operands,
    get trace() {
      if (trace === null) trace = traceOf(path, operator, operands)
      return trace
    },
    get keys() {
      keys ??= keysOf(operands)
      return keys
    },
  }
}

/** Highest number of values for a trace. */
const MOST_TRACED = 16
/** Searching a longer text takes as long as parsing it in steps. */
const MOST_SEARCHED = 4096

/** Matches the text of each matching item, as written by `JSON.stringify`; undefined without such an expression. */
function traceOf(path: Path, operator: Operator, operands: readonly Operand[]): RegExp | undefined {
  if (operands.length > MOST_TRACED) return undefined
  const values: string[] = []
  for (const { text, interpretations } of operands) {
    // Instants and containers can equal differently written values.
    if (interpretations[RANK.instant] || interpretations[RANK.array] || interpretations[RANK.object]) return undefined
    const quoted = JSON.stringify(text)
    if (operator === 'eq' || operator === 'in')
      values.push(quoted, interpretations[RANK.number] ? String(Number(text)) : text)
    else if (operator === 'startswith') values.push(quoted.slice(0, -1))
    else if (operator === 'contains' || operator === 'endswith') values.push(quoted.slice(1, -1))
    else return undefined
  }
  const value = values.map(escaped).join('|')
  if (operator === 'contains' || operator === 'endswith') return new RegExp(value)
  // The value may be in an array.
  return new RegExp(`${escaped(JSON.stringify(path.at(-1)))}:(?:\\[|${value})`)
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
}

/** Whether the text of an item proves that it does not match, so that it need not be parsed. */
export function isWithoutTrace(text: string, { filters }: Pick<Conditions, 'filters'>): boolean {
  if (text.length > MOST_SEARCHED) return false
  for (let index = 0; index < filters.length && index < FILTERS; index++) {
    const trace = (filters[index] as Filter).trace
    if (trace && !trace.test(text)) return true
  }
  return false
}

function keysOf(operands: readonly Operand[]): OperandKeys {
  const all = new Set<string>()
  const lowest: string[] = []
  const highest: string[] = []
  let most = 0
  for (const interpretation of operands.flatMap((one) => one.interpretations)) {
    if (!interpretation) continue
    const { rank } = interpretation
    const key = keyOfRanked(interpretation)
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
  const plain = plainAt(item, filter.path)
  if (plain === undefined) return matchesMissing(filter)
  return plain === MANY ? undefined : valueMatches(plain, filter)
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
