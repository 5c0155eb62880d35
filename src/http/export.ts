import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { elementsOf } from '../json/parse.ts'
import { formatPath, type Path, type Selection } from '../json/paths.ts'
import { collectionPath } from '../projections/address.ts'
import type { CollectionSnapshot } from '../query/collection-snapshot.ts'
import type { RelatedSnapshot } from '../query/embedding.ts'
import type { PageText } from '../query/page-text.ts'
import { RECEIVED, withReceived } from '../query/parameter.ts'
import type { Query } from '../query/query.ts'
import { ResultCursor } from '../query/result-cursor.ts'
import { Refusal } from '../runtime/errors.ts'
import { type Asker, type Turn, Turns } from '../runtime/turns.ts'
import type { ApiOptions } from './api-options.ts'
import type { HttpRequest, Reply } from './exchange.ts'
import { CsvColumns, columnOfRows } from './formats/csv-columns.ts'
import { type Form, TYPES } from './formats/forms.ts'
import { ItemShapes } from './formats/item-shapes.ts'
import { csvWriter, type ItemsWriter, type ItemText, jsonWriter, linesWriter, noteColumns } from './formats/writers.ts'
import { onFirstUse } from './late-modules.ts'
import type { ExportForm, ListRequest } from './list-request.ts'
import { linkOf, tagAt, type Wrapper, wrapperOf } from './pages.ts'
import { askerOf } from './requests.ts'

interface ExportRequest extends ListRequest {
  readonly exported: ExportForm
  /** The embedded items, read at the same position. */
  readonly related: readonly RelatedSnapshot[]
}

/** Highest number of whole results being sent. Each makes the store keep replaced rows. */
const MOST_AT_ONCE = 16
/** Retry-After beyond that number. */
const RETRY_SECONDS = 5

const TYPE_HEADERS: Readonly<Record<Form, string>> = { ...TYPES, csv: `${TYPES.csv}; charset=utf-8` }

/** The items of a response, and their format. */
interface ExportContent {
  readonly form: Form
  /** Without fields if they are selected already. */
  readonly query: Query
  readonly open: OpenSource
  readonly wrapper: Wrapper | undefined
}

/** Responds with items in other formats than JSON, and with whole results in any format. */
export class Exports {
  readonly #options: ApiOptions
  readonly #turns = new Turns()
  readonly #papa = onFirstUse(async () => (await import('papaparse')).default)
  #open = 0

  constructor(options: ApiOptions) {
    this.#options = options
  }

  /** Responds with the items of a snapshot, and releases it. */
  async reply(reply: Reply, list: ExportRequest, snapshot: CollectionSnapshot): Promise<void> {
    const { request, query, isTagged, related } = list
    const { form, isWhole } = list.exported
    const snapshots = [snapshot, ...related.map((one) => one.snapshot)]
    const release = (): void => {
      for (const one of snapshots) one.release()
    }
    let isStreaming = false
    try {
      if (isWhole && query.grouping) {
        throw new Refusal('Invalid', 'The parameter all cannot be combined with groups, whose rows fit on one page.')
      }
      const tag = tagAt(this.#options, list.name, Math.max(...snapshots.map(({ position }) => position)))
      const tagOfForm = form === 'json' ? tag : `${tag.slice(0, -1)}-${form}"`
      if (isTagged && reply.isNotModified(request, tagOfForm)) return
      reply.status = 200
      reply.set('Content-Type', TYPE_HEADERS[form])
      if (!isWhole) await this.#sendPage(reply, list, snapshot)
      else if (request.method !== 'HEAD') {
        await this.#sendWhole(reply, list, snapshot, release)
        isStreaming = true
      }
    } finally {
      if (!isStreaming) release()
    }
  }

  async #sendPage(reply: Reply, list: ExportRequest, snapshot: CollectionSnapshot): Promise<void> {
    const { request, name, parameters, query, related } = list
    const { form } = list.exported
    const { items, total } = await this.#readPage(list, snapshot)
    reply.set('X-Total-Count', String(total))
    const link = linkOf(name, parameters, query, total)
    if (link !== undefined) reply.set('Link', link)
    if (request.method === 'HEAD') return
    const path = request.base + collectionPath(name)
    await this.#send(reply, request, {
      form,
      query: related.length > 0 ? { ...query, fields: undefined } : query,
      open: () => listSource(items),
      wrapper: form === 'json' ? wrapperOf(this.#options, path, parameters, query, total) : undefined,
    })
  }

  async #readPage(
    { request, query, related, exported }: ExportRequest,
    snapshot: CollectionSnapshot,
  ): Promise<{ readonly items: readonly ItemText[]; readonly total: number }> {
    const { queries, limits } = this.#options
    const asker = askerOf(request, limits.scanSeconds)
    if (query.grouping) {
      const { text, total } = await queries.answer(snapshot, query, asker)
      return { items: await this.#turns.run((turn) => rowsOf(text, exported.form, query, turn), asker), total }
    }
    const { items, total } = await queries.find(snapshot, query, asker)
    if (related.length === 0) return { items: items.map((item) => selectedFrom(item, query)), total }
    return { items: await queries.embed(items, query.fields, related, query.page.largest, asker), total }
  }

  /** Calls `release` when the whole result is sent, or sending is aborted. */
  async #sendWhole(
    reply: Reply,
    { request, query, exported: { form } }: ExportRequest,
    snapshot: CollectionSnapshot,
    release: () => void,
  ): Promise<void> {
    if (this.#open >= MOST_AT_ONCE) {
      reply.set('Retry-After', String(RETRY_SECONDS))
      throw new Refusal('TooManyRequests', `The server sends ${MOST_AT_ONCE} whole results at a time; try again later.`)
    }
    this.#open++
    try {
      const open: OpenSource = (isOrdered) => resultSource(snapshot, isOrdered ? query : { ...query, sort: [] })
      const body = await this.#send(reply, request, { form, query, open, wrapper: undefined })
      // A part in progress, which may still read, is complete then.
      body.once('close', () => {
        this.#open--
        release()
      })
    } catch (error) {
      this.#open--
      throw error
    }
  }

  async #send(reply: Reply, request: HttpRequest, content: ExportContent): Promise<Readable> {
    const asker = askerOf(request, this.#options.limits.scanSeconds)
    const writer = await this.#writer(content, asker)
    const body = Readable.from(this.#parts(content, writer, asker))
    reply.send(TYPE_HEADERS[content.form], body)
    return body
  }

  /** Makes the body as fast as the client reads. Work stops when the client disconnects. */
  async *#parts({ open, wrapper }: ExportContent, writer: ItemsWriter, asker: Asker): AsyncGenerator<string> {
    const source = open(true)
    let text = (wrapper?.before ?? '') + writer.begin
    let between = ''
    for (;;) {
      // Yields to the event loop between two parts, even if the client reads without delay.
      await setImmediate()
      const items = await this.#turns.run(source, asker)
      if (!items) break
      yield text + between + (await this.#turns.run((turn) => writer.part(items, turn), asker))
      text = ''
      between = writer.between
    }
    yield text + writer.end + (wrapper?.after ?? '')
  }

  async #writer({ form, query, open }: ExportContent, asker: Asker): Promise<ItemsWriter> {
    const { fields, grouping } = query
    if (form === 'json') return jsonWriter(fields)
    if (form === 'ndjson') return linesWriter(fields)
    const papa = await this.#papa()
    const nameOf = grouping?.kind === 'rows' ? columnOfRows : grouping?.kind === 'distinct' ? plainName : formatPath
    // The header row comes first, so all items are read for it.
    const { columns, shapes } = await this.#turns.run((turn) => columnsOf(open(false), fields, nameOf, turn), asker)
    return csvWriter(papa, columns, shapes, fields)
  }
}

/** Items, or characters of items, read and written at once. */
const PART_ITEMS = 256
const PART_CHARACTERS = 128 * 1024

/** Returns items part by part, each once; undefined after the last. */
type ItemSource = (turn: Turn) => Promise<readonly ItemText[] | undefined>

/** Starts reading the items, in order or in any order. */
type OpenSource = (isOrdered: boolean) => ItemSource

type Timed = ItemText & { readonly timeMs: number }

/** An item as the fields are selected from it. */
function selectedFrom(item: Timed, { fields }: Query): ItemText {
  return fields?.has(RECEIVED) ? { text: withReceived(item.text, item.timeMs) } : item
}

function resultSource(reading: CollectionSnapshot, query: Query): ItemSource {
  const { items } = reading
  const cursor = new ResultCursor(reading, query)
  let places: readonly number[] = []
  let index = 0
  return async (turn) => {
    while (index >= places.length) {
      const next = await cursor.next(turn)
      if (!next) return undefined
      places = next
      index = 0
    }
    const part: ItemText[] = []
    let characters = 0
    while (index < places.length && part.length < PART_ITEMS && characters < PART_CHARACTERS) {
      if (turn.isOver) await turn.next()
      const item = items.itemAt(places[index++] as number) as Timed
      part.push(selectedFrom(item, query))
      characters += item.text.length
    }
    return part
  }
}

function listSource(items: readonly ItemText[]): ItemSource {
  let index = 0
  return async () => {
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

async function columnsOf(
  source: ItemSource,
  fields: Selection | undefined,
  nameOf: (path: Path) => string,
  turn: Turn,
): Promise<{ readonly columns: CsvColumns; readonly shapes: ItemShapes }> {
  const columns = new CsvColumns(nameOf, fields)
  const shapes = new ItemShapes(nameOf)
  for (;;) {
    const items = await source(turn)
    if (!items) return { columns, shapes }
    await noteColumns(columns, shapes, items, fields, turn)
  }
}

/** The column of distinct values is named by a path already. */
function plainName(path: Path): string {
  return path.join('.')
}

/** The rows of a grouped query, or its newest items. In CSV a distinct value is a row with one column. */
async function rowsOf(
  text: PageText['text'],
  form: Form,
  { grouping }: Query,
  turn: Turn,
): Promise<readonly ItemText[]> {
  const column = form === 'csv' && grouping?.kind === 'distinct' ? JSON.stringify(formatPath(grouping.path)) : undefined
  const items: ItemText[] = []
  for (const list of listsOf(text)) {
    for (const row of elementsOf(list)) {
      if (turn.isOver) await turn.next()
      if (row !== undefined) items.push({ text: column === undefined ? row : `{${column}:${row}}` })
    }
  }
  return items
}

/** The pieces of a long text, each as a list of its own: it begins with a bracket or comma, and ends after an element. */
function* listsOf(text: PageText['text']): Generator<string> {
  if (typeof text === 'string') {
    yield text
    return
  }
  for (const [index, piece] of text.pieces.entries()) {
    yield `[${piece.slice(1)}${index === text.pieces.length - 1 ? '' : ']'}`
  }
}
