import { LRUCache } from 'lru-cache'
import type { FileItem } from '../collections/file-items.ts'
import { Item, keyOf } from '../collections/item.ts'
import type { BulkCommand, Command, Deletion } from '../commands/command.ts'
import { type DeletionOptions, type DeletionOutcome, deletedIds } from '../commands/deletions.ts'
import type { Expiration } from '../commands/expiry.ts'
import {
  type BulkOutcome,
  type CommandHandler,
  type ExpiryOutcome,
  type ImportOutcome,
  type Outcome,
  outcomeOf,
  type RestoreOutcome,
} from '../commands/handler.ts'
import type { Restoration } from '../commands/restore.ts'
import { type DomainEvent, type ItemId, OBJECT_ID, type Position } from '../events/event.ts'
import {
  bytesOfEvent,
  type Journal,
  lastPosition,
  type Origin,
  type Projection,
  type Recorded,
  recordAt,
} from '../events/journal.ts'
import { Document } from '../json/document.ts'
import { parseText } from '../json/parse.ts'
import { isArray, type JsonObject, own } from '../json/value.ts'
import { Arrivals } from '../projections/arrivals.ts'
import { ChunkedList, type List } from '../runtime/chunked-list.ts'
import { type Progress, Refusal } from '../runtime/errors.ts'
import { type Turn, Turns } from '../runtime/turns.ts'
import { diskFull } from './leader-writes.ts'
import type { Messenger } from './messenger.ts'
import type { Node } from './node.ts'
import type { CollectionText, LeaderRequest, LeaderResponse, RestorationText } from './protocol.ts'

/** How long to wait for a write that the leader has stored. */
const WAIT_SECONDS = 10
/** Larger writes are not held in memory. */
const MOST_EVENTS = 8
const RECENT_BYTES = 16 * 1024 * 1024

interface ClusterHandlerOptions {
  readonly idField: string
  /** Decides commands while this node is the leader. */
  readonly local: Pick<CommandHandler, 'handle' | 'bulk' | 'delete' | 'restore' | 'expire' | 'apply' | 'end'>
  readonly reload: () => Promise<ImportOutcome>
  readonly snapshot: () => Promise<Position>
  readonly node: Pick<Node, 'id' | 'leader' | 'isLeader'>
  readonly messenger: Pick<Messenger, 'ask' | 'messageBytes'>
  readonly journal: Pick<Journal, 'head' | 'read' | 'at'>
  /** The position of the last event in this node's views. */
  readonly position: () => Position
  /** An item as this node's views hold it. */
  readonly find: (collection: string, key: string) => Item | undefined
  /** Whether this node's disk has room for a write. */
  readonly hasRoom: () => boolean
}

/** Executes commands, here or on the leader. Resolves when this node's own views hold the result. */
export class ClusterHandler implements Projection {
  readonly #options: ClusterHandlerOptions
  readonly #turns = new Turns()
  readonly #arrivals = new Arrivals()
  /** Writes by their last position. Reading one from the journal takes as much processor time as forwarding it. */
  readonly #recent = new LRUCache<Position, Recorded>({
    maxSize: RECENT_BYTES,
    sizeCalculation: ({ events }) => Array.from(events, bytesOfEvent).reduce((sum, bytes) => sum + bytes),
  })

  constructor(options: ClusterHandlerOptions) {
    this.#options = options
  }

  /** Responds to the clients of this node. */
  apply(recorded: Recorded): void {
    this.#options.local.apply(recorded)
    if (recorded.events.length <= MOST_EVENTS) this.#recent.set(lastPosition(recorded), recorded)
    this.#arrivals.apply()
  }

  async handle(command: Command, origin: Origin): Promise<Outcome> {
    this.#checkDiskSpace()
    if (this.#options.node.isLeader) return this.#decide(() => this.#options.local.handle(command, origin))
    const answer = await this.#ask(['stored', 'unchanged'], { type: 'handle', command, origin })
    await this.#reached(answer.position)
    const { position } = answer
    if (answer.type === 'stored') {
      return outcomeOf(this.#recent.get(position) ?? (await recordAt(this.#options.journal, position)))
    }
    const item = this.#options.find(command.collection, keyOf(answer.id))
    if (!item) throw new Refusal('Unavailable', 'The item was deleted meanwhile; send the request again.')
    return { position, event: undefined, item }
  }

  async bulk(command: BulkCommand, origin: Origin): Promise<BulkOutcome> {
    const { local, node } = this.#options
    this.#checkDiskSpace()
    if (node.isLeader) return this.#decide(() => local.bulk(command, origin))
    const { position, events, notCreated } = await this.#ask(['bulk-stored'], { type: 'bulk', command, origin })
    await this.#reached(position)
    return { position, events: await this.#stored(position, events), notCreated: new Map(notCreated) }
  }

  async delete(deletion: Deletion, origin: Origin, options: DeletionOptions = {}): Promise<DeletionOutcome> {
    const { local, node, journal } = this.#options
    if (options.isDryRun) return local.delete(deletion, origin, options)
    this.#checkDiskSpace()
    if (node.isLeader) return this.#decide(() => local.delete(deletion, origin, options))
    const { type: _, ...outcome } = await this.#ask(['deleted'], { type: 'delete', deletion, origin, options })
    await this.#reached(outcome.position)
    return { ...outcome, ids: await deletedIds(journal, outcome) }
  }

  /** Ends deletions of this node after their current write. */
  end(): void {
    this.#options.local.end()
  }

  async restore(restoration: Restoration, origin: Origin, isDryRun: boolean): Promise<RestoreOutcome> {
    const { local, node, messenger } = this.#options
    if (isDryRun) return local.restore(restoration, origin, true)
    this.#checkDiskSpace()
    if (node.isLeader) return this.#decide(() => local.restore(restoration, origin, false))
    const text = await this.#turns.run((turn) => restorationText(restoration, messenger.messageBytes, turn))
    const { position, events } = await this.#ask(['stored'], { type: 'restore', restoration: text, origin })
    return { position, events: await this.#stored(position, events) }
  }

  async expire(expiration: Expiration, origin: Origin): Promise<ExpiryOutcome> {
    const { local, node } = this.#options
    this.#checkDiskSpace()
    if (node.isLeader) return this.#decide(() => local.expire(expiration, origin))
    const { position, count } = await this.#ask(['expired'], { type: 'expire', expiration, origin })
    await this.#reached(position)
    return { position, count }
  }

  async reload(): Promise<ImportOutcome> {
    const { node, reload } = this.#options
    this.#checkDiskSpace()
    if (node.isLeader) return this.#decide(reload)
    const imported = await this.#ask(['taken-in'], { type: 'reload' })
    await this.#reached(imported.basis + imported.events)
    return imported
  }

  /** Makes the leader write its data file. */
  async snapshot(): Promise<Position> {
    const { node, snapshot } = this.#options
    if (node.isLeader) return this.#decide(snapshot)
    return (await this.#ask(['written'], { type: 'snapshot' })).position
  }

  /** The last `count` events up to a position, once this node has them. */
  async #stored(position: Position, count: number): Promise<List<DomainEvent>> {
    const stored = new ChunkedList<DomainEvent>()
    if (count === 0) return stored
    const { journal } = this.#options
    await this.#reached(position)
    for await (const recorded of journal.read(position - count + 1, position)) {
      for (const event of recorded.events) stored.push(event)
    }
    return stored
  }

  /** Resolves when this node has the event at a position. */
  async #reached(position: Position): Promise<void> {
    const { journal } = this.#options
    if (await this.#arrivals.waitUntil(() => journal.head >= position, WAIT_SECONDS)) return
    throw new Refusal('OutcomeUnknown', `It was stored at position ${position}, which this node does not have yet.`)
  }

  /** A node whose disk is full could not follow the leader's write, so it rejects the command before forwarding it. */
  #checkDiskSpace(): void {
    if (!this.#options.hasRoom()) throw diskFull()
  }

  /** Answers a request of another node. Never throws a Refusal. */
  async answer(request: LeaderRequest): Promise<LeaderResponse> {
    try {
      return await this.#decide(() => this.#answer(request))
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      const { code, message, faults, progress } = error
      return { type: 'refused', code, message, faults, progress, position: this.#options.position() }
    }
  }

  async #answer(request: LeaderRequest): Promise<LeaderResponse> {
    const { local, reload, snapshot, idField } = this.#options
    switch (request.type) {
      case 'handle': {
        const { position, event, item } = await local.handle(request.command, request.origin)
        if (event || !item) return { type: 'stored', position, events: 1 }
        return { type: 'unchanged', position, id: item.id }
      }
      case 'bulk': {
        const { position, events, notCreated } = await local.bulk(request.command, request.origin)
        return { type: 'bulk-stored', position, events: events.length, notCreated: [...notCreated] }
      }
      case 'delete': {
        const { ids: _, ...outcome } = await local.delete(request.deletion, request.origin, request.options)
        return { type: 'deleted', ...outcome }
      }
      case 'restore': {
        const { position, events } = await local.restore(
          parseRestoration(request.restoration, idField),
          request.origin,
          false,
        )
        return { type: 'stored', position, events: events.length }
      }
      case 'expire':
        return { type: 'expired', ...(await local.expire(request.expiration, request.origin)) }
      case 'reload': {
        const { basis, events, conflicts, basedOn } = await reload()
        return { type: 'taken-in', basis, events, conflicts, basedOn }
      }
      case 'snapshot':
        return { type: 'written', position: await snapshot() }
      default:
        return request satisfies never
    }
  }

  /** Even a refusal needs the lease: another leader may have accepted events that contradict it. */
  async #decide<T>(decision: () => Promise<T>): Promise<T> {
    const { node } = this.#options
    if (!node.isLeader) throw noLeader()
    try {
      return await decision()
    } catch (error) {
      const isWithoutLease = error instanceof Refusal && error.code !== 'OutcomeUnknown' && !node.isLeader
      throw isWithoutLease ? noLeader(error.progress) : error
    }
  }

  async #ask<Type extends LeaderResponse['type']>(
    types: readonly Type[],
    request: LeaderRequest,
  ): Promise<Extract<LeaderResponse, { type: Type }>> {
    const { node, messenger } = this.#options
    const { leader } = node
    if (leader === undefined || leader === node.id) throw noLeader()
    const answer = await messenger.ask(leader, request)
    if (answer.type === 'refused') {
      // After a refusal that rests on another write, the client must be able to read that write.
      await this.#reached(answer.position)
      throw new Refusal(answer.code, answer.message, answer.faults, { progress: answer.progress })
    }
    if (!types.some((type) => type === answer.type))
      throw new Error('the leader could not answer; its log has the reason')
    return answer as Extract<LeaderResponse, { type: Type }>
  }
}

function noLeader(progress?: Progress): Refusal {
  const why = 'The cluster has no leader at the moment; one is being elected.'
  return new Refusal('Unavailable', why, [], { progress })
}

/** @throws {Refusal} `TooLarge` once the items have more than `bytes` characters: no message holds them. */
async function restorationText(restoration: Restoration, bytes: number, turn: Turn): Promise<RestorationText> {
  if (restoration.type === 'item') return { ...restoration, item: restoration.item?.value ?? null }
  const collections: [string, CollectionText | null][] = []
  let left = bytes
  for (const [name, past] of restoration.collections) {
    const values: JsonObject[] = []
    let isObject = false
    for (const { id, text } of past?.items() ?? []) {
      left -= text.length
      if (left < 0) throw new Refusal('TooLarge', `The cluster accepts no message of more than ${bytes} bytes.`)
      values.push(parseText(text) as JsonObject)
      isObject = id === OBJECT_ID
      if (turn.isOver) await turn.next()
    }
    // A single object stands for itself, as in a data file.
    collections.push([name, past ? (isObject ? (values[0] as JsonObject) : values) : null])
  }
  return { ...restoration, collections }
}

function parseRestoration(text: RestorationText, idField: string): Restoration {
  if (text.type === 'item') return { ...text, item: text.item ? parseItem(text.item, text.key, idField) : undefined }
  return {
    ...text,
    collections: new Map(
      text.collections.map(([name, past]) => [name, past ? { items: () => parseItems(past, idField) } : undefined]),
    ),
  }
}

function parseItems(past: CollectionText, idField: string): readonly FileItem[] {
  const single = (value: JsonObject): FileItem => ({ id: OBJECT_ID, text: JSON.stringify(value) })
  if (!isArray(past)) return [single(past)]
  return past.map((value) => ({ id: own(value, idField) as ItemId | undefined, text: JSON.stringify(value) }))
}

function parseItem(value: JsonObject, key: string, idField: string): Item {
  return new Item(key === OBJECT_ID ? OBJECT_ID : (value[idField] as ItemId), Document.of(value), 0, 0)
}
