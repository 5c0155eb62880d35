import { Readable } from 'node:stream'
import { setImmediate } from 'node:timers/promises'
import { formatPath, type Path, type Selection } from '../json/paths.ts'
import { collectionPath } from '../projections/address.ts'
import type { Grouping } from '../query/aggregate/aggregation.ts'
import type { CollectionSnapshot } from '../query/collection-snapshot.ts'
import type { RelatedSnapshot } from '../query/embedding.ts'
import { type ItemSource, itemsAt, type Page, pageOfTexts } from '../query/page.ts'
import type { CachedResponse } from '../query/response-cache.ts'
import { ResultCursor } from '../query/result-cursor.ts'
import { Refusal } from '../runtime/errors.ts'
import { HighWaterMark, type Memory } from '../runtime/memory.ts'
import type { Asker, Turn } from '../runtime/turns.ts'
import type { ApiOptions } from './api-options.ts'
import type { Reply } from './exchange.ts'
import { CsvColumns, columnOfRows } from './formats/csv-columns.ts'
import { type Form, TYPES } from './formats/forms.ts'
import { csvWriter, type ItemsWriter, jsonWriter, linesWriter, noteColumns } from './formats/writers.ts'
import { onFirstUse } from './late-modules.ts'
import type { ListRequest } from './list-request.ts'
import { linkOf, tagAt, wrapperOf } from './pages.ts'
import { askerOf } from './requests.ts'

/** A longer list is sent as fast as the client reads. */
const WHOLE_CHARACTERS = 1024 * 1024
/** Bytes for each character of the first part: the part, its copy at the connection, and the next one. */
const CHARACTER_BYTES = 3
/** Highest number of whole results being sent. Each makes the store keep replaced rows; pages are shorter. */
const MOST_AT_ONCE = 16
/** Retry-After beyond that number. */
const RETRY_SECONDS = 5

const TYPE_HEADERS: Readonly<Record<Form, string>> = { ...TYPES, csv: `${TYPES.csv}; charset=utf-8` }

/** The items of a response: a page, or without `total` a whole result, which can be read faster in any order. */
type Items = Pick<Page, 'bytes'> & Partial<Pick<Page, 'total'>> & { open(isOrdered?: boolean): ItemSource }

/** The first text of a response, and what follows. */
interface Begun {
  readonly total: number | undefined
  readonly text: string
  /** Undefined if the text is all. */
  readonly rest: { readonly source: ItemSource; readonly writer: ItemsWriter; readonly end: string } | undefined
}

/** Responds with the items of a query, a page of them or all, in any format. */
export class ListReplies {
  readonly #options: ApiOptions
  readonly #papa = onFirstUse(async () => (await import('papaparse')).default)
  #open = 0

  constructor(options: ApiOptions) {
    this.#options = options
  }

  /** Responds with the items of a snapshot, and releases it. Returns a response that may be cached. */
  async reply(
    reply: Reply,
    list: ListRequest,
    snapshot: CollectionSnapshot,
    related: readonly RelatedSnapshot[],
  ): Promise<CachedResponse | undefined> {
    const { request, isTagged, form, isWhole } = list
    const snapshots = [snapshot, ...related.map((one) => one.snapshot)]
    let entered = 0
    const release = (): void => {
      for (const one of snapshots) one.release()
      this.#open -= entered
    }
    let isStreaming = false
    try {
      const tag = tagAt(this.#options, list.name, Math.max(...snapshots.map(({ position }) => position)))
      if (isTagged && reply.isNotModified(request, form === 'json' ? tag : `${tag.slice(0, -1)}-${form}"`)) return
      if (isWhole && request.method === 'HEAD') {
        reply.status = 200
        reply.set('Content-Type', TYPE_HEADERS[form])
        return
      }
      if (isWhole) this.#checkOpen(reply)
      entered = isWhole ? 1 : 0
      this.#open += entered
      const { total, text, rest } = await this.#begin(list, snapshot, related)
      const link = total === undefined ? undefined : linkOf(list.name, list.parameters, list.query, total)
      if (total !== undefined) reply.set('X-Total-Count', String(total))
      if (link !== undefined) reply.set('Link', link)
      if (!rest) {
        reply.send(TYPE_HEADERS[form], text)
        return form === 'json' && total !== undefined ? { total, link, text } : undefined
      }
      reply.status = 200
      reply.set('Content-Type', TYPE_HEADERS[form])
      if (request.method === 'HEAD') return
      reply.body = this.#stream(list, text, rest, release)
      isStreaming = true
    } finally {
      if (!isStreaming) release()
    }
  }

  #checkOpen(reply: Reply): void {
    if (this.#open < MOST_AT_ONCE) return
    reply.set('Retry-After', String(RETRY_SECONDS))
    throw new Refusal('TooManyRequests', `The server sends ${MOST_AT_ONCE} whole results at a time; try again later.`)
  }

  /** Finds the items, and writes the first of them. */
  async #begin(list: ListRequest, snapshot: CollectionSnapshot, related: readonly RelatedSnapshot[]): Promise<Begun> {
    const { queries, turns } = this.#options
    const { query, form, isWhole } = list
    const { request } = list
    const { scanSeconds } = this.#options.limits
    const asker = askerOf(request, scanSeconds)
    const papa = form === 'csv' ? await this.#papa() : undefined
    const use = async (items: Items, turn: Turn): Promise<Begun> => {
      // Fields were selected before related items were added.
      const fields = related.length > 0 ? undefined : query.fields
      if (!papa) return this.#first(list, items, form === 'ndjson' ? linesWriter(fields) : jsonWriter(fields), turn)
      const rows = query.grouping?.kind === 'distinct' ? valuesInRows(items, query.grouping.path) : items
      return this.#first(list, rows, await csvWriterOf(papa, rows, query.grouping, fields, turn), turn)
    }
    if (isWhole) return turns.run((turn) => use(wholeResult(snapshot, list), turn), asker)
    if (related.length === 0) return queries.page(snapshot, query, use, asker)
    const memory = request.memoryFor('responses')
    const holding = askerOf(request, scanSeconds, memory)
    const { items, total } = await queries.find(snapshot, query, holding)
    const texts = await queries.embed(items, query.fields, related, query.page.largest, holding)
    return turns.run((turn) => {
      // The texts are held from here on.
      memory.release()
      return use(pageOfTexts(texts, total), turn)
    }, asker)
  }

  /** The text of all items, or of the first ones if it is long. */
  async #first(list: ListRequest, items: Items, writer: ItemsWriter, turn: Turn): Promise<Begun> {
    const { request, name, parameters, query, form } = list
    const { total } = items
    const memory = request.memoryFor('responses')
    memory.hold(items.bytes)
    const path = request.base + collectionPath(name)
    const isWrapped = form === 'json' && total !== undefined
    const wrapper = isWrapped ? wrapperOf(this.#options, path, parameters, query, total) : undefined
    const source = items.open()
    const end = writer.end + (wrapper?.after ?? '')
    const texts = [(wrapper?.before ?? '') + writer.begin]
    let characters = 0
    for (let part = await source(turn); part; part = await source(turn)) {
      const text = await writer.part(part, turn)
      characters += text.length
      texts.push(characters === text.length ? text : writer.between + text)
      if (characters <= WHOLE_CHARACTERS) continue
      memory.hold(CHARACTER_BYTES * characters)
      return { total, text: texts.join(''), rest: { source, writer, end } }
    }
    return { total, text: [...texts, end].join(''), rest: undefined }
  }

  #stream(list: ListRequest, first: string, rest: NonNullable<Begun['rest']>, release: () => void): Readable {
    const memory = list.request.memoryFor('responses')
    const body = Readable.from(
      this.#texts(first, rest, askerOf(list.request, this.#options.limits.scanSeconds, memory), memory),
    )
    // No part is being read any more when the stream is closed.
    body.once('close', release)
    return body
  }

  /**
   * Makes the body as fast as the client reads. Work stops when the client disconnects. Ends with an error, so that the
   * client sees that the body is incomplete, when a part does not fit into memory.
   */
  async *#texts(
    first: string,
    { source, writer, end }: NonNullable<Begun['rest']>,
    asker: Asker,
    memory: Memory,
  ): AsyncGenerator<string> {
    const mark = new HighWaterMark(memory, CHARACTER_BYTES * first.length)
    yield first
    for (;;) {
      // Yields to the event loop between two parts, even if the client reads without delay.
      await setImmediate()
      const before = memory.bytes
      const text = await this.#options.turns.run(async (turn) => {
        const items = await source(turn)
        return items && writer.between + (await writer.part(items, turn))
      }, asker)
      memory.count(before - memory.bytes)
      if (text === undefined) break
      mark.reach(CHARACTER_BYTES * text.length)
      yield text
    }
    yield end
  }
}

/** All items that match, in order. */
function wholeResult(snapshot: CollectionSnapshot, { query }: ListRequest): Items {
  const openInOrder = (sort: typeof query.sort): ItemSource => {
    const cursor = new ResultCursor(snapshot, { ...query, sort })
    return itemsAt(snapshot.items, (turn) => cursor.next(turn), query.fields)
  }
  return { bytes: 0, open: (isOrdered = true) => openInOrder(isOrdered ? query.sort : []) }
}

/** In CSV a distinct value is a row with one column. */
function valuesInRows(items: Items, path: Path): Items {
  const column = JSON.stringify(formatPath(path))
  return {
    ...items,
    open() {
      const source = items.open()
      return async (turn) => (await source(turn))?.map(({ text }) => ({ text: `{${column}:${text}}` }))
    },
  }
}

/** The header row comes first, so all items are read for it. */
async function csvWriterOf(
  papa: typeof import('papaparse'),
  items: Items,
  grouping: Grouping | undefined,
  fields: Selection | undefined,
  turn: Turn,
): Promise<ItemsWriter> {
  const columnName = grouping?.kind === 'rows' ? columnOfRows : grouping?.kind === 'distinct' ? plainName : formatPath
  const columns = new CsvColumns(columnName, fields)
  const source = items.open(false)
  for (let part = await source(turn); part; part = await source(turn)) {
    await noteColumns(columns, part, fields, turn)
  }
  return csvWriter(papa, columns, fields)
}

/** The column of distinct values is named by a path already. */
function plainName(path: Path): string {
  return path.join('.')
}
