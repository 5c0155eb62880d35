import { formatPath, type Path, parsePath, splitList } from '../../json/paths.ts'
import { Refusal } from '../../runtime/errors.ts'
import { type Parameter, type ParameterDescription, TEXT, TEXT_LIST } from '../parameter.ts'
import { parseWindow, type Window } from './window.ts'

/** Functions of a field, besides percentiles (`p50`, `p99.9`). */
const FUNCTIONS = ['avg', 'sum', 'min', 'max', 'first', 'last', 'stddev', 'delta', 'count'] as const
type FunctionName = (typeof FUNCTIONS)[number] | 'percentile'

/** One column of the result, for example `avg(data.temperature)`. */
export interface Aggregate {
  /** The name of the column: the alias, or the aggregate as requested. */
  readonly name: string
  readonly function: FunctionName
  /** Undefined for a count of items. */
  readonly path: Path | undefined
  /** For percentiles: from 0 to 100. */
  readonly percent: number
  /** The values are event times, and are compared, but not computed with. */
  readonly isTime: boolean
}

const FILLS = ['none', 'null', 'previous'] as const
type Fill = (typeof FILLS)[number]

/** Requests one row for each group of items. */
export interface Aggregation {
  /** The path of the event time. */
  readonly time: Path | undefined
  readonly aggregates: readonly Aggregate[]
  readonly groupBy: readonly Path[]
  readonly window: Window | undefined
  readonly fill: Fill
}

/** A query for groups of items: rows, the values of a field, or the newest item of each group by event time. */
export type Grouping =
  | (Aggregation & { readonly kind: 'rows' })
  | (Aggregation & { readonly kind: 'distinct'; readonly path: Path })
  | { readonly kind: 'newest'; readonly path: Path; readonly time: Path }

const MOST_AGGREGATES = 32
const MOST_GROUPS = 8
const POSSIBLE = ['count', ...[...FUNCTIONS, 'p50', 'p95'].map((name) => `${name}(field)`)].join(', ')

/** Parameters of queries for groups. */
export const GROUPING_PARAMETERS = {
  aggregate: {
    description: `Rows instead of items. Possible are ${POSSIBLE}; \`avg(field) as name\` names the column.`,
    schema: TEXT_LIST,
  },
  groupBy: {
    description: 'A row for each combination of values of these fields. With `aggregate`.',
    schema: TEXT_LIST,
  },
  window: {
    description: 'A row for each window of event time, such as `15m`, `1h`, `1d`, `1mo` or `1y`. With `aggregate`.',
    schema: TEXT,
  },
  tz: {
    description: 'The time zone of the windows, such as `Europe/Helsinki` or `+02:00`. With `window`.',
    schema: TEXT,
  },
  fill: {
    description:
      'Rows of windows without items, in the range of the filters on the event time: none, with null, or with the values before. With `window`.',
    schema: { type: 'string', enum: FILLS },
  },
  distinct: { description: 'The values of this field instead of items, in their order.', schema: TEXT },
  newestBy: { description: 'Only the newest item of each value of this field, by event time.', schema: TEXT },
} as const satisfies Readonly<Record<string, ParameterDescription>>

/** The requested groups, undefined if items are requested; `time` is the path of the event time. */
export function parseGrouping(parameters: readonly Parameter[], time: Path | undefined): Grouping | undefined {
  const given = new Map<string, string>()
  for (const { name, value } of parameters) {
    if (!Object.hasOwn(GROUPING_PARAMETERS, name)) continue
    if (given.has(name)) throw invalid(`The parameter ${name} must be given once.`)
    given.set(name, value)
  }
  if (given.size === 0) return undefined
  for (const name of ['distinct', 'newestBy'] as const) {
    const field = given.get(name)
    if (field === undefined) continue
    const other = [...given.keys()].find((one) => one !== name)
    if (other !== undefined) throw invalid(`The parameter ${name} cannot be combined with ${other}.`)
    if (field === '') throw invalid(`The parameter ${name} needs a field, for example ${name}=mac.`)
    const path = parsePath(field)
    if (name === 'newestBy') return { kind: 'newest', path, time: required(time, name) }
    return { kind: name, path, time, aggregates: [], groupBy: [path], window: undefined, fill: 'none' }
  }
  return parseRows(given, time)
}

function required(time: Path | undefined, parameter: string): Path {
  if (time) return time
  throw invalid(
    `The parameter ${parameter} needs the field of the event time: set Collections.<name>.Time, for example to "timestamp".`,
  )
}

function parseRows(given: ReadonlyMap<string, string>, time: Path | undefined): Grouping {
  const aggregate = given.get('aggregate')
  if (aggregate === undefined) {
    throw invalid(
      `The parameter ${[...given.keys()][0]} needs aggregate, for example aggregate=count. Possible are ${POSSIBLE}.`,
    )
  }
  const aggregates = splitList(aggregate).map((text) => parseAggregate(text, time))
  if (aggregates.length === 0) throw invalid(`The parameter aggregate is empty. Possible are ${POSSIBLE}.`)
  if (aggregates.length > MOST_AGGREGATES) throw invalid(`At most ${MOST_AGGREGATES} aggregates are possible at once.`)
  const groupBy = splitList(given.get('groupBy') ?? '').map(parsePath)
  if (groupBy.length > MOST_GROUPS) throw invalid(`The parameter groupBy may have at most ${MOST_GROUPS} fields.`)
  const window = given.get('window')
  checkNames(
    groupBy.map(formatPath),
    aggregates.map(({ name }) => name),
    window === undefined ? [] : ['window'],
  )
  const fill = given.get('fill')
  for (const name of ['tz', 'fill']) {
    if (window === undefined && given.has(name))
      throw invalid(`The parameter ${name} needs window, for example window=1h.`)
  }
  if (fill !== undefined && !(FILLS as readonly string[]).includes(fill)) {
    throw invalid(`The parameter fill must be ${FILLS.join(', ')}, not ${JSON.stringify(fill)}.`)
  }
  return {
    kind: 'rows',
    time: window === undefined ? time : required(time, 'window'),
    aggregates,
    groupBy,
    window: window === undefined ? undefined : parseWindow(window, given.get('tz')),
    fill: (fill as Fill | undefined) ?? 'none',
  }
}

function checkNames(groups: readonly string[], columns: readonly string[], others: readonly string[]): void {
  const group = groups.find((name, index) => [...groups.slice(index + 1), ...columns, ...others].includes(name))
  if (group !== undefined) {
    throw invalid(`The parameter groupBy names the field ${JSON.stringify(group)}, and another column has that name.`)
  }
  const column = columns.find((name, index) => [...columns.slice(index + 1), ...others].includes(name))
  if (column !== undefined) {
    throw invalid(
      `The parameter aggregate names the column ${JSON.stringify(column)}, and another column has that name; name it otherwise, as in max(field) as highest.`,
    )
  }
}

function parseAggregate(text: string, time: Path | undefined): Aggregate {
  const [, column = '', name = '', field, alias] =
    /^(([A-Za-z]+[\d.]*)(?:\((.*?)\))?)(?:\s+as\s+(.+))?$/is.exec(text.trim()) ?? []
  const known = parseFunction(name)
  if (!known) throw invalid(`The aggregate ${JSON.stringify(text)} is not known. Possible are ${POSSIBLE}.`)
  if (!field && (name !== 'count' || field === '')) {
    throw invalid(`The aggregate ${name} needs a field, for example ${name}(data.temperature).`)
  }
  const path = field ? parsePath(field) : undefined
  return { name: alias ?? column, path, ...known, isTime: COMPARING.has(known.function) && isSame(path, time) }
}

/** The functions that compare values and do not compute with them. */
const COMPARING: ReadonlySet<FunctionName> = new Set(['min', 'max', 'first', 'last'])

function parseFunction(name: string): Pick<Aggregate, 'function' | 'percent'> | undefined {
  const known = FUNCTIONS.find((one) => one === name)
  if (known) return { function: known, percent: 0 }
  const percent = Number(/^p(\d{1,3}(?:\.\d+)?)$/.exec(name)?.[1])
  return percent <= 100 ? { function: 'percentile', percent } : undefined
}

/** Whether a column without an alias may have this name, such as `avg(data.temperature)`. */
export function isFunctionOfField(column: string): boolean {
  const name = /^([^(]+)\(.+\)$/s.exec(column)?.[1]
  return name !== undefined && parseFunction(name) !== undefined
}

/** The fields that a query for groups depends on. */
export interface Needs {
  readonly groups: readonly Path[]
  /** Undefined if the answer does not depend on event times. */
  readonly time: Path | undefined
  readonly values: readonly Path[]
  /** It computes with event times as numbers, which only the items have: an index has their instants. */
  readonly computesWithTimes: boolean
}

export function needsOf(grouping: Grouping): Needs {
  if (grouping.kind === 'newest') {
    return { groups: [grouping.path], time: grouping.time, values: [], computesWithTimes: false }
  }
  const { aggregates, groupBy, time, window } = grouping
  return {
    groups: groupBy,
    time: window || aggregates.some(isByTime) ? time : undefined,
    values: aggregates.flatMap(({ path }) => (path ? [path] : [])),
    computesWithTimes: aggregates.some((one) => !one.isTime && isSame(one.path, time)),
  }
}

export function isSame(path: Path | undefined, other: Path | undefined): boolean {
  return path !== undefined && other !== undefined && formatPath(path) === formatPath(other)
}

export function isByTime({ function: name }: Aggregate): boolean {
  return name === 'first' || name === 'last' || name === 'delta'
}

/** The columns of event times. */
export function timeColumns({ aggregates, groupBy, time }: Aggregation): ReadonlySet<string> {
  const groups = groupBy.filter((path) => isSame(path, time)).map(formatPath)
  return new Set([...groups, ...aggregates.filter(({ isTime }) => isTime).map(({ name }) => name)])
}

function invalid(message: string): Refusal {
  return new Refusal('Invalid', message)
}
