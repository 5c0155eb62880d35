import { setImmediate } from 'node:timers/promises'
import type { Position } from '../events/event.ts'
import { parseSteps } from '../json/parse-steps.ts'
import { formatPath, type Path, type Selection } from '../json/paths.ts'
import type { JsonValue } from '../json/value.ts'
import { stringifySteps } from '../json/value-steps.ts'
import { collectionPath } from '../projections/address.ts'
import type { CollectionSnapshot } from '../query/collection-snapshot.ts'
import type { RelatedSnapshot } from '../query/embedding.ts'
import type { PageText } from '../query/page-text.ts'
import type { Queries } from '../query/queries.ts'
import { ALL, PAGING, type Parameter, type Query } from '../query/query.ts'
import { ResultCursor } from '../query/result-cursor.ts'
import { RECEIVED, withReceived } from '../query/virtual-field.ts'
import { Refusal } from '../runtime/errors.ts'
import { type Asker, Slices, type Steps } from '../runtime/time-slices.ts'
import type { ApiRequest, Reply } from './api.ts'
import { CsvColumns } from './formats/csv-columns.ts'
import { type Form, TYPES } from './formats/forms.ts'
import { ItemShapes } from './formats/item-shapes.ts'
import { TextStream } from './formats/text-stream.ts'
import { csvWriter, type ItemsWriter, type ItemText, jsonWriter, linesWriter, noteColumns } from './formats/writers.ts'
import { onFirstUse } from './late-modules.ts'
import type { Wrapper } from './pages.ts'

export interface TaggedQuery {
  readonly query: Query
  /** Whether the result changes only by events, so that it has an `ETag`. */
  readonly isTagged: boolean
}

export interface ExportsOptions {
  readonly queries: Queries
  readonly askerOf: (request: ApiRequest) => Asker
  readonly tagAt: (name: string, position: Position) => string
  readonly linkOf: (name: string, parameters: readonly Parameter[], query: Query, total: number) => string | undefined
  /** The wrapper of a JSON page of items; undefined for a plain array. */
  readonly wrapperOf: (
    path: string,
    parameters: readonly Parameter[],
    query: Query,
    total: number,
  ) => Wrapper | undefined
}

/** The requested form of a list of items. */
interface Wanted {
  readonly form: Form
  /** The whole result instead of a page. */
  readonly isWhole: boolean
}

interface Asked extends Wanted, TaggedQuery {
  readonly name: string
  readonly parameters: readonly Parameter[]
  /** The embedded items, read at the same position. */
  readonly related: readonly RelatedSnapshot[]
}

/** Undefined for a JSON page without embedded items. Rejects unsupported forms. */
export function exportOf(
  form: Form | undefined,
  parameters: readonly Parameter[],
  { relations = [] }: Pick<Query, 'relations'>,
): Wanted | undefined {
  if (!form) throw new Refusal('NotAcceptable', `Items are available as ${Object.values(TYPES).join(', ')}.`)
  const isWhole = isForAll(parameters)
  const isEmbedding = relations.length > 0
  if (isWhole && isEmbedding) {
    throw new Refusal('Invalid', 'The whole result (all=true) has no embedded items; ask for pages.')
  }
  return form === 'json' && !isWhole && !isEmbedding ? undefined : { form, isWhole }
}

/** Highest number of whole results being sent. Each makes the store keep replaced rows. */
const MOST_AT_ONCE = 16
/** Retry-After beyond that number. */
const RETRY_SECONDS = 5
/** Items, or characters of items, read and written at once. */
const PART_ITEMS = 256
const PART_CHARACTERS = 128 * 1024

const TYPE_HEADERS: Readonly<Record<Form, string>> = { ...TYPES, csv: `${TYPES.csv}; charset=utf-8` }

/** Returns items part by part, each once; undefined after the last. */
type Source = () => Steps<readonly ItemText[] | undefined>

/** Starts reading the items, in order or in any order. */
type Sources = (isOrdered: boolean) => Source

/** Responds with items in other formats than JSON, and with whole results in any format. */
export class Exports {
  readonly #options: ExportsOptions
  readonly #slices = new Slices()
  readonly #papa = onFirstUse(async () => (await import('papaparse')).default)
  #open = 0

  constructor(options: ExportsOptions) {
    this.#options = options
  }

  /** Responds with the items of a reading, and releases it. */
  async answer(request: ApiRequest, reply: Reply, asked: Asked, reading: CollectionSnapshot): Promise<void> {
    const { tagAt } = this.#options
    const { name, form, isWhole, query, isTagged, related } = asked
    const readings = [reading, ...related.map((one) => one.snapshot)]
    const release = once(() => {
      for (const one of readings) one.release()
    })
    try {
      if (isWhole && query.grouping) {
        throw new Refusal('Invalid', 'The parameter all cannot be combined with groups, whose rows fit on one page.')
      }
      const tag = tagAt(name, Math.max(...readings.map(({ position }) => position)))
      const tagOfForm = form === 'json' ? tag : `${tag.slice(0, -1)}-${form}"`
      if (isTagged && reply.isNotModified(request, tagOfForm)) return release()
      reply.set('Content-Type', TYPE_HEADERS[form])
      if (isWhole) await this.#sendWhole(request, reply, form, query, reading, release)
      else await this.#sendPage(request, reply, asked, reading, release)
    } catch (error) {
      release()
      throw error
    }
  }

  async #sendPage(
    request: ApiRequest,
    reply: Reply,
    asked: Asked,
    reading: CollectionSnapshot,
    release: () => void,
  ): Promise<void> {
    const { linkOf, wrapperOf } = this.#options
    const { name, parameters, form, query, related } = asked
    const { items, total } = await this.#page(request, asked, reading)
    release()
    reply.set('X-Total-Count', String(total))
    const link = linkOf(name, parameters, query, total)
    if (link !== undefined) reply.set('Link', link)
    const shown = related.length > 0 ? { ...query, fields: undefined } : query
    const path = request.base + collectionPath(name)
    const wrapper = form === 'json' ? wrapperOf(path, parameters, query, total) : undefined
    if (request.method !== 'HEAD')
      await this.#send(
        reply,
        form,
        shown,
        () => partsOf(items),
        request,
        () => {},
        wrapper,
      )
  }

  async #page(
    request: ApiRequest,
    { form, query, related }: Asked,
    reading: CollectionSnapshot,
  ): Promise<{ readonly items: readonly ItemText[]; readonly total: number }> {
    const { queries, askerOf } = this.#options
    const asker = askerOf(request)
    if (!query.grouping) {
      const { items, total } = await queries.find(reading, query, asker)
      const embed = () => queries.embed(items, query.fields, related, query.page.largest, asker)
      return { items: related.length > 0 ? await embed() : items.map((item) => shownOf(item, query)), total }
    }
    const { text, total } = await queries.answer(reading, query, asker)
    return { items: await this.#slices.run(() => rowsOf(text, form, query), asker), total }
  }

  async #sendWhole(
    request: ApiRequest,
    reply: Reply,
    form: Form,
    query: Query,
    reading: CollectionSnapshot,
    release: () => void,
  ): Promise<void> {
    if (request.method === 'HEAD') return release()
    if (this.#open >= MOST_AT_ONCE) {
      reply.set('Retry-After', String(RETRY_SECONDS))
      throw new Refusal('TooManyRequests', `The server sends ${MOST_AT_ONCE} whole results at a time; try again later.`)
    }
    this.#open++
    const ended = once(() => {
      this.#open--
      release()
    })
    try {
      const sources: Sources = (isOrdered) => found(reading, isOrdered ? query : { ...query, sort: [] })
      await this.#send(reply, form, query, sources, request, ended)
    } catch (error) {
      ended()
      throw error
    }
  }

  /** Creates the body. Calls `ended` when it is sent or aborted. */
  async #send(
    reply: Reply,
    form: Form,
    query: Query,
    sources: Sources,
    request: ApiRequest,
    ended: () => void = () => {},
    wrapper?: Wrapper,
  ): Promise<void> {
    const slices = this.#slices
    let body: TextStream | undefined
    const { limit } = this.#options.askerOf(request)
    // Work stops when the client disconnects.
    const asker: Asker = { isGone: () => request.isGone() || body?.destroyed === true, limit }
    const writer = await this.#writer(form, query, sources, asker)
    const source = sources(true)
    let text = (wrapper?.before ?? '') + writer.begin
    let parts = 0
    let isEnded = false
    const next = async (): Promise<string | undefined> => {
      if (isEnded) return undefined
      // Yields to the event loop between two parts, even if the client reads without delay.
      await setImmediate()
      const items = await slices.run(source, asker)
      if (items) text += (parts++ > 0 ? writer.between : '') + (await slices.run(() => writer.part(items), asker))
      else text += writer.end + (wrapper?.after ?? '')
      isEnded = items === undefined
      const made = text
      text = ''
      return made === '' ? undefined : made
    }
    body = new TextStream(next, ended)
    reply.stream(TYPE_HEADERS[form], body)
  }

  async #writer(form: Form, { fields, grouping }: Query, sources: Sources, asker: Asker): Promise<ItemsWriter> {
    if (form === 'json') return jsonWriter(fields)
    if (form === 'ndjson') return linesWriter(fields)
    const papa = await this.#papa()
    const nameOf = grouping && grouping.kind !== 'newest' ? plainName : formatPath
    // The header row comes first, so all items are read for it.
    const { columns, shapes } = await this.#slices.run(() => columnsOf(sources(false), fields, nameOf), asker)
    return csvWriter(papa, columns, shapes, fields)
  }
}

function* columnsOf(
  source: Source,
  fields: Selection | undefined,
  nameOf: (path: Path) => string,
): Steps<{ readonly columns: CsvColumns; readonly shapes: ItemShapes }> {
  const columns = new CsvColumns(nameOf, fields)
  const shapes = new ItemShapes(nameOf)
  for (;;) {
    const items = yield* source()
    if (!items) return { columns, shapes }
    yield* noteColumns(columns, shapes, items, fields)
    yield
  }
}

/** The names of the columns of a row may contain dots, as `avg(data.temperature)` does. */
function plainName(path: Path): string {
  return path.join('.')
}

/** The rows of a grouped query, or its newest items. In CSV a distinct value is a row with one column. */
function* rowsOf(text: PageText['text'], form: Form, { grouping }: Query): Steps<readonly ItemText[]> {
  const rows = (yield* parseSteps(typeof text === 'string' ? text : text.pieces.join(''))) as readonly JsonValue[]
  const column = form === 'csv' && grouping?.kind === 'distinct' ? formatPath(grouping.path) : undefined
  const items: ItemText[] = []
  for (const row of rows) {
    items.push({ text: yield* stringifySteps(column === undefined ? row : { [column]: row }) })
    yield
  }
  return items
}

/** Whether the whole result is requested instead of a page. */
function isForAll(parameters: readonly Parameter[]): boolean {
  const asked = parameters.filter(({ name }) => name === ALL)
  const [first] = asked
  if (!first) return false
  if (asked.length > 1 || !['true', 'false'].includes(first.value)) {
    throw new Refusal('Invalid', 'The parameter all must be true or false, once.')
  }
  const paging = parameters.find(({ name }) => PAGING.has(name))
  if (first.value === 'true' && paging) {
    throw new Refusal('Invalid', `The whole result has no pages: all=true cannot be combined with ${paging.name}.`)
  }
  return first.value === 'true'
}

type Timed = ItemText & { readonly timeMs: number }

/** An item as the fields are selected from it. */
function shownOf(item: Timed, { fields }: Query): ItemText {
  return fields?.has(RECEIVED) ? { text: withReceived(item.text, item.timeMs) } : item
}

function found(reading: CollectionSnapshot, query: Query): Source {
  const { items } = reading
  const cursor = new ResultCursor(reading, query)
  let places: readonly number[] = []
  let index = 0
  // State changes inside the steps, since work may restart before them.
  return function* () {
    while (index >= places.length) {
      const next = yield* cursor.next()
      if (!next) return undefined
      places = next
      index = 0
    }
    const part: ItemText[] = []
    let characters = 0
    let at = index
    while (at < places.length && part.length < PART_ITEMS && characters < PART_CHARACTERS) {
      const item = items.uncachedAt(places[at++] as number) as Timed
      part.push(shownOf(item, query))
      characters += item.text.length
      if (part.length % READ === 0) yield
    }
    index = at
    return part
  }
}

const READ = 32

function partsOf(items: readonly ItemText[]): Source {
  let index = 0
  // biome-ignore lint/correctness/useYield: the items are there
  return function* () {
    const part: ItemText[] = []
    let characters = 0
    for (; index < items.length && part.length < PART_ITEMS && characters < PART_CHARACTERS; index++) {
      const item = items[index] as ItemText
      part.push(item)
      characters += item.text.length
    }
    return part.length > 0 ? part : undefined
  }
}

function once(work: () => void): () => void {
  let isDone = false
  return () => {
    if (isDone) return
    isDone = true
    work()
  }
}
