import { type Instant, instantOf, readInstant, withPlus } from '../json/instant.ts'
import { instantKey, orderKey, RANK, rankOfKey, textKey, timeKeyAt } from '../json/order-key.ts'
import { parseText, violationOf } from '../json/parse.ts'
import { type Path, valuesAt } from '../json/paths.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../json/value.ts'
import { RECEIVED } from './parameter.ts'

/** The conditions of a query, all of which must be met. */
export interface Conditions {
  readonly filters: readonly Filter[]
  /** Those with which no index helps. */
  readonly others: readonly OtherCondition[]
}

/** Any of the case-folded texts must occur somewhere, or any of the alternatives must be met. */
export type OtherCondition = { readonly mentions: readonly string[] } | { readonly anyOf: readonly Conditions[] }

/** Whether an item meets all conditions. */
export function meetsConditions(item: JsonObject, { filters, others }: Conditions): boolean {
  for (const filter of filters) if (!itemMatches(item, filter)) return false
  for (const other of others) {
    const isMet =
      'mentions' in other
        ? mentionsAny(item, other.mentions)
        : other.anyOf.some((alternative) => meetsConditions(item, alternative))
    if (!isMet) return false
  }
  return true
}

/** One parameter: any of the operands may match; with `ne`, none may be equal. */
export interface Filter {
  readonly path: Path
  /** The path is that of event times, which are compared as instants. */
  readonly isTime: boolean
  readonly operator: Exclude<Operator, 'in'>
  readonly operands: readonly Operand[]
  /** The length of the longest operand's text, in characters. */
  readonly longest: number
  readonly keys: OperandKeys
  /** Matches the JSON text of each matching item; undefined if there is no such expression. */
  readonly trace: RegExp | undefined
}

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

/** Whether any value at the filter's path matches. */
function itemMatches(item: JsonValue, filter: Filter): boolean {
  const { path, isTime, operator, operands, keys } = filter
  if (isTime && isComparison(operator)) return timeMatches(timeKeyAt(item, path, keys.most), operator, keys)
  const values = valuesAt(item, path)
  if (operator === 'exists') return operands.some(({ text }) => text === String(values.length > 0))
  return values.some((value) => valueMatches(value, operator, filter))
}

/** A value that is no instant is in no range. */
function timeMatches(key: string | undefined, operator: Comparison, keys: OperandKeys): boolean {
  if (key === undefined) return false
  return operator === 'ne' ? !keys.all.has(key) : keyCompares(operator, key, keys)
}

function valueMatches(
  value: JsonValue,
  operator: Exclude<Filter['operator'], 'exists'>,
  { operands, longest, keys }: Filter,
): boolean {
  switch (operator) {
    case 'startswith':
      return typeof value === 'string' && operands.some(({ text }) => value.startsWith(text))
    case 'endswith':
      return typeof value === 'string' && operands.some(({ text }) => value.endsWith(text))
    case 'contains':
      return typeof value === 'string' && operands.some(({ text }) => value.includes(text))
    case 'like': {
      if (value === null || isArray(value) || isObject(value)) return false
      const folded = foldCase(String(value))
      return operands.some(({ text }) => folded.includes(text))
    }
    case 'istartswith': {
      if (typeof value !== 'string') return false
      const begin = foldCase(value.slice(0, longest))
      return operands.some(({ text }) => begin.startsWith(text))
    }
    case 'iendswith': {
      if (typeof value !== 'string') return false
      const end = foldCase(value.slice(-longest))
      return operands.some(({ text }) => end.endsWith(text))
    }
    default:
      return compares(operator, value, keys)
  }
}

type Comparison = keyof typeof COMPARISONS

/** Whether an operator compares values in order, or for equality. */
export function isComparison(operator: Operator): operator is Comparison {
  return operator in COMPARISONS
}

/** Without an operand of the value's type, its key is not made. */
function compares(operator: Comparison, value: JsonValue, keys: OperandKeys): boolean {
  if (typeof value === 'number' && keys.lowest[RANK.number] === undefined) return false
  if (isArray(value) && keys.lowest[RANK.array] === undefined) return false
  if (isObject(value) && keys.lowest[RANK.object] === undefined) return false
  return keyCompares(operator, orderKey(value, keys.most), keys)
}

function keyCompares(operator: Comparison, key: string, keys: OperandKeys): boolean {
  const rank = rankOfKey(key)
  const lowest = keys.lowest[rank]
  const highest = keys.highest[rank]
  // No operand has this type.
  if (lowest === undefined || highest === undefined) return false
  return COMPARISONS[operator](key, { lowest, highest, all: keys.all })
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

const COMPARISONS = {
  eq: (key: string, { all }: Pick<OperandKeys, 'all'>) => all.has(key),
  ne: (key: string, { all }: Pick<OperandKeys, 'all'>) => !all.has(key),
  gt: (key: string, { lowest }: { readonly lowest: string }) => key > lowest,
  gte: (key: string, { lowest }: { readonly lowest: string }) => key >= lowest,
  lt: (key: string, { highest }: { readonly highest: string }) => key < highest,
  lte: (key: string, { highest }: { readonly highest: string }) => key <= highest,
}

/** Whether any of the folded texts occurs in any value of the item. */
function mentionsAny(item: JsonObject, folded: readonly string[]): boolean {
  // A query that names the virtual field finds no other items than one that does not.
  return Object.keys(item).some((name) => name !== RECEIVED && isMentioned(item[name] as JsonValue, folded))
}

function isMentioned(value: JsonValue, folded: readonly string[]): boolean {
  if (isArray(value)) return value.some((element) => isMentioned(element, folded))
  if (isObject(value)) return Object.keys(value).some((name) => isMentioned(value[name] as JsonValue, folded))
  const text = foldCase(String(value))
  return folded.some((one) => text.includes(one))
}

/** Folds case, by both conversions, as some letters have two forms in one case: σ and ς, K and the kelvin sign. */
export function foldCase(text: string): string {
  return text.toLowerCase().toUpperCase()
}

const FOLDED: ReadonlySet<Operator> = new Set(['like', 'istartswith', 'iendswith'])

export function filterOf(path: Path, operator: Operator, values: readonly string[], isTime = false): Filter {
  const isFolded = FOLDED.has(operator)
  const texts =
    operator === 'in' ? values.flatMap((value) => value.split(',')) : isFolded ? values.map(foldCase) : values
  // A long list of the same text, such as commas alone, would cost tens of milliseconds.
  const operands = Array.from(new Set(texts), (text) => operandOf(text, isTime))
  let trace: RegExp | undefined | null = null
  return {
    path,
    isTime,
    operator: operator === 'in' ? 'eq' : operator,
    operands,
    keys: operandKeys(operands),
    longest: operands.reduce((most, { text }) => Math.max(most, text.length), 0),
    get trace() {
      if (trace === null) trace = isTime ? undefined : traceOf(path, operator, operands)
      return trace
    },
  }
}

function operandKeys(operands: readonly Operand[]): OperandKeys {
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

/** Highest number of values for a trace. */
const MOST_TRACED = 16
/** Highest number of their characters where each place of an item's text is compared with all of them. */
const MOST_CHARACTERS = 256

/** Matches the text of each matching item, as written by `JSON.stringify`; undefined without such an expression. */
function traceOf(path: Path, operator: string, operands: readonly Operand[]): RegExp | undefined {
  if (operands.length > MOST_TRACED) return undefined
  const values: string[] = []
  for (const { text, keys } of operands) {
    // Instants and containers can equal differently written values.
    const ranks = keys.map(rankOfKey)
    if (ranks.some((rank) => rank === RANK.instant || rank >= RANK.array)) return undefined
    const quoted = JSON.stringify(text)
    if (operator === 'eq' || operator === 'in')
      values.push(quoted, ranks.includes(RANK.number) ? String(Number(text)) : text)
    else if (operator === 'startswith') values.push(quoted.slice(0, -1))
    else if (operator === 'contains' || operator === 'endswith') values.push(quoted.slice(1, -1))
    else return undefined
  }
  const value = values.map(escapeRegExp).join('|')
  if (operator === 'contains' || operator === 'endswith') {
    return value.length > MOST_CHARACTERS ? undefined : new RegExp(value)
  }
  // The value may be in an array.
  return new RegExp(`${escapeRegExp(JSON.stringify(path.at(-1)))}:(?:\\[|${value})`)
}

function escapeRegExp(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')
}

const JSON_NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

/** The text of a parameter, read as a value of each type; the type of the item's value decides which one counts. */
interface Operand {
  readonly text: string
  readonly instant: Instant | undefined
  /** The order keys of a value to which it is equal, of different ranks. */
  readonly keys: readonly string[]
}

export function operandOf(text: string, isTime: boolean): Operand {
  const instant = isTime ? readEventTime(text) : readInstant(text)
  if (!isTime) return { text, instant, keys: orderKeysOf(text, instant) }
  return { text, instant, keys: instant ? [instantKey(instant)] : orderKeysOf(text, undefined).map(textKey) }
}

/** The order keys of all values that a text may stand for: the text, an instant, a number, or other JSON. */
function orderKeysOf(text: string, instant: Instant | undefined): readonly string[] {
  const keys = [textKey(text)]
  if (instant) keys.push(instantKey(instant))
  if (JSON_NUMBER.test(text)) keys.push(orderKey(Number(text)))
  else if (/^(?:null|true|false)$|^\s*[[{]/.test(text)) {
    const value = storableValue(text)
    if (value !== undefined) keys.push(orderKey(value))
  }
  return keys
}

/** A filter's text as an event time: any spelling, and any number; undefined for other text. */
export function readEventTime(text: string): Instant | undefined {
  return instantOf(withPlus(text)) ?? (JSON_NUMBER.test(text) ? instantOf(Number(text)) : undefined)
}

function storableValue(text: string): JsonValue | undefined {
  let value: JsonValue
  try {
    value = parseText(text)
  } catch {
    return undefined
  }
  // Values that cannot be stored match nothing; unlimited nesting would overflow the stack.
  return violationOf(value) ? undefined : value
}
