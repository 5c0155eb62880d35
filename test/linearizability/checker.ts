import type { Answer, Fields, History, Operation, Request } from './history.ts'

/** An item's JSON, undefined while there is none. */
export type State = string | undefined

export type TagOf = (text: string) => string

/** The number of pairs of operations and state after which a check is given up, with an error. */
const MOST_TRIED = 300_000

/** The operations on an item for which there is no order that explains every answer. */
export interface Violation {
  readonly item: string
  readonly operations: readonly Operation[]
  /** The most operations that could be put in order, and the state that they lead to. */
  readonly explained: readonly Operation[]
  readonly state: State
}

/**
 * Looks for an order of each item's operations in which one client at a time would have got the same answers, and
 * which keeps what came before what (linearizability; the search of Wing and Gong 1993, remembering as Lowe 2017
 * which pairs of operations done and state were tried). Items are independent: a history has such an order when
 * that of each item has (Herlihy and Wing 1990, locality).
 */
export function check(
  history: Pick<History, 'operations'>,
  initial: (item: string) => State,
  tagOf: TagOf,
): Violation | undefined {
  for (const item of new Set(history.operations.map((operation) => operation.item))) {
    const operations = history.operations.filter((operation) => operation.item === item)
    const violation = checkItem(item, operations, initial(item), tagOf)
    if (violation) return violation
  }
  return undefined
}

function checkItem(
  item: string,
  operations: readonly Operation[],
  initial: State,
  tagOf: TagOf,
): Violation | undefined {
  const pending = operations.filter(matters)
  const tried = new Set<string>()
  const order: Operation[] = []
  let explained: readonly Operation[] = []
  let reached = initial

  const search = (done: bigint, state: State): boolean => {
    const length = order.length
    for (;;) {
      if (pending.every(({ answer }, index) => isDone(done, index) || !answer)) return true
      const only = candidates(pending, done).find((index) => {
        const operation = pending[index] as Operation
        return changesNothing(operation) && fits(operation, state, tagOf)
      })
      if (only === undefined) break
      done |= 1n << BigInt(only)
      order.push(pending[only] as Operation)
    }
    if (order.length > explained.length) {
      explained = [...order]
      reached = state
    }
    const place = `${done.toString(36)} ${state}`
    if (!tried.has(place)) {
      if (tried.size >= MOST_TRIED) throw new Error(`the history of "${item}" is too entangled to be checked`)
      tried.add(place)
      for (const index of candidates(pending, done)) {
        const operation = pending[index] as Operation
        if (changesNothing(operation) || !fits(operation, state, tagOf)) continue
        const changed = answerOf(operation.request, item, state, tagOf).state
        if (!operation.answer && changed === state) continue
        order.push(operation)
        if (search(done | (1n << BigInt(index)), changed)) return true
        order.pop()
      }
    }
    order.length = length
    return false
  }

  return search(0n, initial) ? undefined : { item, operations, explained, state: reached }
}

/** A read without an answer tells nothing; neither does a refusal that promises that nothing was stored. */
function matters({ request, answer }: Operation): boolean {
  return answer ? answer.status < 500 : request.method !== 'GET'
}

/** Those that may come next, the answered ones first: none of the others was answered before they were called. */
function candidates(pending: readonly Operation[], done: bigint): readonly number[] {
  let earliest = Infinity
  for (const [index, { answered }] of pending.entries())
    if (!isDone(done, index)) earliest = Math.min(earliest, answered)
  const next: number[] = []
  const unanswered: number[] = []
  for (const [index, { called, answer }] of pending.entries()) {
    if (called > earliest) break
    if (!isDone(done, index)) (answer ? next : unanswered).push(index)
  }
  return [...next, ...unanswered]
}

function isDone(done: bigint, index: number): boolean {
  return ((done >> BigInt(index)) & 1n) === 1n
}

function fits({ item, request, answer }: Operation, state: State, tagOf: TagOf): boolean {
  if (!answer) return true
  const expected = answerOf(request, item, state, tagOf).answer
  return (
    answer.status === expected.status &&
    (expected.tag === undefined || answer.tag === expected.tag) &&
    (expected.text === undefined || answer.text === expected.text)
  )
}

/** An operation whose answer says so, wherever it comes: as soon as it fits it may go first, as no other order is lost. */
function changesNothing({ request, answer }: Operation): boolean {
  return answer !== undefined && (request.method === 'GET' || answer.status >= 300)
}

/**
 * The model of one item, with UpsertOnPut and ClientIdsOnPost: what a request is answered, and what it leaves. A
 * tag or text that is not there may be anything.
 */
export function answerOf(
  request: Request,
  item: string,
  state: State,
  tagOf: TagOf,
): { readonly answer: Answer; readonly state: State } {
  const { method, body = {}, ifMatch, ifNoneMatch } = request
  const tag = state === undefined ? undefined : tagOf(state)
  const unchanged = (status: number) => ({ answer: { status }, state })
  const stored = (status: number, fields: Fields) => {
    const text = JSON.stringify(fields)
    return { answer: { status, tag: tagOf(text) }, state: text }
  }
  const matches = tag !== undefined && (ifNoneMatch === '*' || ifNoneMatch === tag)
  if (method === 'GET') {
    if (state === undefined || tag === undefined) return unchanged(404)
    return { answer: matches ? { status: 304, tag } : { status: 200, tag, text: state }, state }
  }
  if (matches || (ifMatch !== undefined && ifMatch !== tag)) return unchanged(412)
  switch (method) {
    case 'POST':
      return state === undefined ? stored(201, { id: item, ...body }) : unchanged(409)
    case 'PUT':
      return stored(state === undefined ? 201 : 204, { id: item, ...body })
    case 'PATCH':
      return state === undefined ? unchanged(404) : stored(204, merged(JSON.parse(state) as Fields, body))
    case 'DELETE':
      return state === undefined ? unchanged(404) : { answer: { status: 204 }, state: undefined }
    default:
      return method satisfies never
  }
}

function merged(fields: Fields, patch: Fields): Fields {
  return Object.fromEntries(Object.entries({ ...fields, ...patch }).filter(([name]) => patch[name] !== null))
}

/** The violation as a person reads it: every operation on the item, and how far an explanation goes. */
export function describe({ item, operations, explained, state }: Violation): string {
  const lines = operations.map((operation) => {
    const place = explained.indexOf(operation)
    const { client, request, called, answered, answer } = operation
    const told = answer ? JSON.stringify(answer) : 'no answer'
    const times = `${called}-${answered === Infinity ? '' : answered}`
    return `${place < 0 ? '' : place + 1}\t${times}\tclient ${client}\t${JSON.stringify(request)} → ${told}`
  })
  return [
    `no order of the operations on "${item}" explains every answer`,
    ...lines,
    `the numbered ones can be put in this order, and lead to ${state ?? 'no item'}`,
  ].join('\n')
}
