import { faultOfTime } from '../commands/item-rules.ts'
import type { EventTimeRule, Rules } from '../commands/rules.ts'
import type { DomainEvent, ItemId } from '../events/event.ts'
import type { Journal } from '../events/journal.ts'
import { formatPath, type Path } from '../json/paths.ts'
import { mostSimilar } from '../json/similar.ts'
import { type JsonObject, own } from '../json/value.ts'
import { needsOf } from '../query/aggregate/aggregation.ts'
import type { FieldList } from '../query/field-list.ts'
import { insteadOf } from '../query/json-server.ts'
import { RECEIVED } from '../query/parameter.ts'
import type { PresentCollection } from '../query/queries.ts'
import { type Query, WITHOUT_FILTERS } from '../query/query.ts'
import { type Fault, Refusal } from '../runtime/errors.ts'
import { type LimitedLog, TEN_IN_TEN_SECONDS } from '../runtime/limited-log.ts'
import type { Reply } from './exchange.ts'

interface HintsOptions {
  readonly fields: Pick<FieldList, 'has' | 'similarTo'>
  /** Whether a query that names a field that no item has is refused. */
  readonly isStrict: boolean
  readonly log: LimitedLog
}

/** Fields of a query that are looked up. */
const MOST_FIELDS = 16
/** Fields that a response names. */
const MOST_NAMED = 4

/** The parameters that, misspelt, are filters. */
const PARAMETERS = [...WITHOUT_FILTERS].filter((name) => !name.startsWith('_'))

/** Tells clients of fields in a query that no item has: such a query selects or shows nothing, which looks like lost data. */
export class Hints {
  readonly #options: HintsOptions

  constructor(options: HintsOptions) {
    this.#options = options
  }

  /** Sets the header where a field is absent. False: a later answer to the same query may have another header. */
  check(reply: Reply, collection: PresentCollection, query: Query): boolean | Promise<boolean> {
    const paths = pathsOf(query)
    return paths.length === 0 || this.#lookUp(reply, collection, paths)
  }

  async #lookUp(reply: Reply, collection: PresentCollection, paths: readonly Path[]): Promise<boolean> {
    const { fields, isStrict, log } = this.#options
    const known = await Promise.all(paths.map((path) => fields.has(collection, path)))
    const absent = paths.filter((_, index) => known[index] === false)
    if (absent.length === 0) return known.every((one) => one === true)
    const similar = fields.similarTo(collection, absent)
    const hint = absent
      .slice(0, MOST_NAMED)
      .map((path, index) => hintOf(collection.name, path, similar[index]))
      .join(' ')
    const isParameter = absent.some((path) => path.length === 1 && insteadOf(path[0] as string) !== undefined)
    if (isStrict || isParameter) throw new Refusal('Invalid', hint)
    // Names of fields in queries are not logged, because they may be misplaced secrets.
    const didYouMean = similar.filter((one) => one !== undefined)
    const logged = { collection: collection.name, absent: absent.length, ...(didYouMean.length > 0 && { didYouMean }) }
    log.warn(logged, 'a query names fields that no item has', TEN_IN_TEN_SECONDS)
    addHint(reply, hint)
    return false
  }
}

function hintOf(collection: string, path: Path, similar: string | undefined): string {
  const field = formatPath(path)
  const name = JSON.stringify(field)
  const instead = path.length === 1 ? insteadOf(field) : undefined
  const where = JSON.stringify(collection)
  if (instead !== undefined) {
    return `There is no parameter ${name}, and no item of ${where} has such a field; instead: ${instead}.`
  }
  const parameter = mostSimilar(field, PARAMETERS)
  const meant = similar !== undefined ? JSON.stringify(similar) : parameter && `the parameter ${parameter}`
  return `No item of ${where} has the field ${name}${meant === undefined ? '.' : `; did you mean ${meant}?`}`
}

/** The fields that a query names, up to a limit. */
function pathsOf(query: Query): readonly Path[] {
  const paths = new Map<string, Path>()
  for (const path of namedIn(query)) {
    const name = formatPath(path)
    if (name !== 'id' && name !== RECEIVED) paths.set(name, path)
    if (paths.size === MOST_FIELDS) break
  }
  return [...paths.values()]
}

/** Items without a field may be asked for with `exists`; rows are sorted by their columns; embedded items are no field. */
function* namedIn({ filters, sort, grouping, selected = [], relations = [] }: Query): Generator<Path> {
  for (const { path, operator } of filters) if (operator !== 'exists') yield path
  if (!grouping || grouping.kind === 'newest') for (const { path } of sort) yield path
  if (grouping) {
    const { groups, values } = needsOf(grouping)
    yield* groups
    yield* values
  }
  for (const path of selected) if (!relations.some(({ name }) => name === path[0])) yield path
}

export interface WriteHintsOptions {
  readonly idField: string
  /** The event times, by collection. */
  readonly times: Rules['times']
  readonly now: () => Date
  readonly journal: Pick<Journal, 'timeMs'>
}

const HEADER = 'Recollect-Hint'

/** Adds a sentence to the hints of a response. */
function addHint(reply: Reply, hint: string): void {
  const at = reply.headers.indexOf(HEADER)
  reply.set(HEADER, at < 0 ? ascii(hint) : `${reply.headers[at + 1]} ${ascii(hint)}`)
}

/** As a header may hold it. */
function ascii(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Characters of an id that a hint shows. */
const MOST_SHOWN = 64

/** Tells a client what a write did otherwise than it may expect: in one response, of one item or of a batch. */
export class WriteHints {
  readonly #idField: string
  readonly #time: EventTimeRule | undefined
  readonly #nowMs: number
  #replaced = 0
  /** The first replaced id as it was sent, and its replacement. */
  #firstReplaced: readonly [string, string] = ['', '']
  #written = 0
  #untimed = 0
  /** Why the first of the items has no valid event time. */
  #firstUntimed: Fault | undefined

  constructor({ idField, times, now, journal }: WriteHintsOptions, collection: string) {
    this.#idField = idField
    this.#time = times.get(collection)
    this.#nowMs = Math.max(now().getTime(), journal.timeMs)
  }

  /** A new item got this id. */
  created(sent: JsonObject, id: ItemId): void {
    const wanted = own(sent, this.#idField) ?? null
    if (wanted === null || (typeof wanted !== 'object' && String(wanted) === String(id))) return
    if (this.#replaced++ === 0) this.#firstReplaced = [shortened(JSON.stringify(wanted)), JSON.stringify(id)]
  }

  written(event: DomainEvent | undefined): void {
    if (event && 'item' in event) this.timed(event.item.value)
  }

  /** An item whose event time counts. */
  timed(item: JsonObject): void {
    if (!this.#time) return
    this.#written++
    const fault = faultOfTime(item, this.#time, this.#nowMs)
    if (!fault) return
    this.#untimed++
    this.#firstUntimed ??= fault
  }

  tell(reply: Reply): void {
    if (this.#replaced > 0) {
      const [sent, id] = this.#firstReplaced
      const one = `The id ${sent} was replaced by ${id}.`
      const many = `${this.#replaced} ids were replaced, the first, ${sent}, by ${id}.`
      addHint(reply, `${this.#replaced === 1 ? one : many} With Api.ClientIdsOnPost POST keeps the ids of clients.`)
    }
    if (this.#time && this.#firstUntimed) {
      const which = this.#written === 1 ? 'The item has' : `${this.#untimed} of ${this.#written} items have`
      const why = `"${formatPath(this.#time.path)}" ${this.#firstUntimed.message}`
      addHint(reply, `${which} no valid event time${this.#written === 1 ? '' : '; of the first'}: ${why}.`)
    }
  }
}

function shortened(text: string): string {
  return text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}...` : text
}
