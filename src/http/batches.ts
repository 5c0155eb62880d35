import { createHash } from 'node:crypto'
import type { BatchItem } from '../commands/command.ts'
import { bytesOfDecision } from '../commands/create-items.ts'
import type { BulkOutcome } from '../commands/handler.ts'
import type { DomainEvent, ItemId } from '../events/event.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Turn } from '../runtime/turns.ts'
import type { ApiOptions } from './api-options.ts'
import { type Body, beginsAsList, decodeBatch, gatherBody, mediaTypeOf, parseBody, readJson } from './bodies.ts'
import type { HttpRequest, Reply } from './exchange.ts'
import { itemsOfCsv, itemsOfLines, itemsOfList } from './formats/batch-texts.ts'
import { CSV_TYPE } from './formats/forms.ts'
import { WriteHints } from './hints.ts'
import { onFirstUse } from './late-modules.ts'
import { JSON_TYPE, NDJSON_TYPE, parameterIn } from './media-types.ts'
import { problemIn } from './problems.ts'
import { originOf, prefers, refuseIgnored } from './requests.ts'

const TYPES = [JSON_TYPE, NDJSON_TYPE, CSV_TYPE]

/** The body of a POST to a collection: one item, or a batch. */
type PostBody = Body | Batch

interface Batch {
  /** Stands for the body in the comparison of retries, since the body may be large. */
  readonly digest: Uint8Array
  readonly items: readonly BatchItem[]
}

export class Batches {
  readonly #options: ApiOptions
  readonly #papa = onFirstUse(async () => (await import('papaparse')).default)

  constructor(options: ApiOptions) {
    this.#options = options
  }

  async read(request: HttpRequest): Promise<PostBody> {
    const { bodyBytes, batchBytes } = this.#options.limits
    const { headers } = request
    const isBatch = ([NDJSON_TYPE, CSV_TYPE] as readonly string[]).includes(mediaTypeOf(headers['content-type']))
    const limits = { bytes: isBatch ? batchBytes : bodyBytes, listBytes: batchBytes }
    const source = { method: request.method, headers, bytes: () => gatherBody(request, limits) }
    const { bytes, type } = await readJson(source, TYPES, this.#options)
    if (type === JSON_TYPE && !beginsAsList(bytes))
      return { bytes, type, json: await parseBody(bytes, request, this.#options) }
    return this.#batchOf(type, bytes, request)
  }

  async #batchOf(type: string, bytes: Uint8Array, request: HttpRequest): Promise<Batch> {
    const { turns, limits: most } = this.#options
    const limits = {
      items: most.batchItems,
      bytes: most.batchBytes,
      itemBytes: most.bodyBytes,
      itemValues: most.itemValues,
      isLenient: prefers(request.headers, 'handling=lenient'),
    }
    const hasHeader = type === CSV_TYPE && hasCsvHeader(request)
    const papa = type === CSV_TYPE ? await this.#papa() : undefined
    const memory = request.memoryFor('bodies')
    const isGone = (): boolean => request.isGone()
    return turns.run(
      async (turn) => {
        const digest = await digestOf(bytes, turn)
        const textBytes = TEXT_BYTES * bytes.length
        memory.hold(textBytes)
        const text = await decodeBatch(bytes, turn)
        const items = papa
          ? await itemsOfCsv(papa, text, hasHeader, limits, turn)
          : await (type === JSON_TYPE ? itemsOfList : itemsOfLines)(text, limits, turn)
        memory.count(-textBytes)
        return { digest, items }
      },
      { isGone, memory },
    )
  }

  /** Creates the items in one write: all of them, or with `Prefer: handling=lenient` the valid ones. */
  async create(request: HttpRequest, reply: Reply, collection: string, { digest, items }: Batch): Promise<void> {
    refuseIgnored(request)
    const { handler, turns } = this.#options
    const isLenient = prefers(request.headers, 'handling=lenient')
    const command = { type: 'CreateItems', collection, items, isLenient } as const
    const outcome = await handler.bulk(command, originOf(request, digest))
    reply.position = outcome.position
    request.memoryFor('bodies').count(bytesOfDecision(outcome))
    const hints = new WriteHints(this.#options, collection)
    const batch = { outcome, items, collection, hints }
    if (isLenient) reply.set('Preference-Applied', 'handling=lenient')
    const text = await turns.run((turn) => resultsOf(batch, isLenient, turn))
    const areDuplicates = outcome.events.length === 0 && outcome.notCreated.size > 0
    reply.json(text, isLenient || areDuplicates ? 200 : 201)
    hints.tell(reply)
  }
}

interface DecidedBatch {
  readonly outcome: BulkOutcome
  readonly items: readonly BatchItem[]
  readonly collection: string
  /** Complete when the results are. */
  readonly hints: WriteHints
}

/** The parameter `header` of text/csv (RFC 4180 §3). */
function hasCsvHeader({ headers }: HttpRequest): boolean {
  const header = parameterIn(headers['content-type'] ?? '', 'header') ?? 'present'
  if (header === 'present' || header === 'absent') return header === 'present'
  throw new Refusal('Invalid', `The parameter header of text/csv is present or absent, and not ${header}.`)
}

/** As JSON, in the order of the batch: what became of each item, or the ids of all. */
async function resultsOf(batch: DecidedBatch, isLenient: boolean, turn: Turn): Promise<string> {
  const texts: string[] = []
  for (const result of resultsIn(batch)) {
    if (turn.isOver) await turn.next()
    texts.push(JSON.stringify(isLenient ? result : result.id))
  }
  return `{"${isLenient ? 'results' : 'ids'}":[${texts.join(',')}]}`
}

interface Result {
  readonly status: 'created' | 'replaced' | 'duplicate' | 'rejected'
  readonly line: number | undefined
  readonly problem?: object
  readonly id?: ItemId
}

function* resultsIn({ outcome, items, collection, hints }: DecidedBatch): Generator<Result> {
  const made = outcome.events[Symbol.iterator]()
  for (const [index, sent] of items.entries()) {
    const { line } = sent
    const reason = outcome.notCreated.get(index)
    if (reason && 'rejection' in reason) yield { status: 'rejected', line, problem: problemIn(reason.rejection) }
    else if (reason) yield { status: 'duplicate', line, id: reason.duplicateOf }
    else {
      const event = nextWritten(made, collection)
      if (event.type === 'ItemCreated' && 'item' in sent) hints.created(sent.item, event.id)
      hints.written(event)
      yield { status: event.type === 'ItemCreated' ? 'created' : 'replaced', line, id: event.id }
    }
  }
}

type WrittenItem = Extract<DomainEvent, { readonly item: unknown }>

/** The next event of an item of the collection. */
function nextWritten(events: Iterator<DomainEvent>, collection: string): WrittenItem {
  for (let next = events.next(); !next.done; next = events.next()) {
    const event = next.value
    if (event.collection === collection && 'item' in event) return event
  }
  throw new Error('a batch made fewer events than it has items')
}

/** Bytes for each byte of a body while it is decoded: its text in parts, and as a whole. */
const TEXT_BYTES = 3

const DIGEST_BYTES = 1024 * 1024

async function digestOf(bytes: Uint8Array, turn: Turn): Promise<Uint8Array> {
  const digest = createHash('sha256')
  for (let from = 0; from < bytes.length; from += DIGEST_BYTES) {
    digest.update(bytes.subarray(from, from + DIGEST_BYTES))
    if (turn.isOver) await turn.next()
  }
  return digest.digest()
}
