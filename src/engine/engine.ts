import type { CommandHandler, ImportOutcome } from '../commands/handler.ts'
import type { ItemSchemas } from '../commands/item-schemas.ts'
import type { DataFileStatus } from '../data-file/file-on-disk.ts'
import type { Damage } from '../events/damage.ts'
import type { Position } from '../events/event.ts'
import type { Journal } from '../events/journal.ts'
import type { History } from '../projections/history.ts'
import type { Past } from '../projections/past.ts'
import type { Views } from '../projections/views.ts'
import type { Queries } from '../query/queries.ts'
import type { JournalDamageStatus } from './journal-check.ts'
import type { Metric } from './metric.ts'
import type { EventBus, Projections, ReadState, StoreStatus } from './projections.ts'
import type { Retention, RetentionStatus } from './retention.ts'
import type { TokenStorage } from './token-storage.ts'

/** The state of journal and projections for `/health`. An engine may add parts of its own. */
export interface EngineHealth {
  readonly status: 'ok' | 'degraded' | 'unavailable'
  readonly journal: {
    readonly id: string
    readonly writable: boolean
    readonly damage?: JournalDamageStatus
    readonly [name: string]: unknown
  }
  readonly dataFile?: DataFileStatus
  readonly store?: StoreStatus
  readonly retention?: readonly RetentionStatus[]
}

/**
 * Everything except the network: commands, durable events, projections. There is one class for each place where the
 * journal can be, such as local files, or the past in a replay. It describes its own health and metrics.
 */
export abstract class Engine {
  abstract readonly journal: Journal
  abstract readonly projections: Projections
  abstract readonly past: Past
  abstract readonly queries: Queries
  abstract readonly handler: Pick<CommandHandler, 'handle' | 'bulk' | 'delete' | 'restore' | 'end'>
  abstract readonly tokens: TokenStorage
  /** Undefined if nothing is written. */
  abstract readonly retention: Retention | undefined
  /** The schemas of the items that this engine writes; undefined if it writes none. */
  abstract readonly schemas: ItemSchemas | undefined
  /** The metrics of the journal. */
  abstract readonly metrics: readonly Metric[]
  /** Whether other processes may show events that this one has not received yet. */
  readonly mayLag: boolean = false
  /** The message for attempts to write, if nothing can be written. */
  readonly readOnly: string | undefined = undefined
  /** Messages for the operator about where the journal is stored. */
  readonly warnings: readonly string[] = []
  #isStarted = false
  #isClosing = false
  #starting: Promise<void> = Promise.resolve()

  /** The state of a former store, which is read while this one is being built; undefined if there is none. */
  get former(): ReadState | undefined {
    return undefined
  }

  /** The state that reads see. */
  get readable(): ReadState {
    return this.former ?? this
  }

  get views(): Views {
    return this.projections.views
  }

  get history(): History {
    return this.projections.history
  }

  get bus(): EventBus {
    return this.projections.bus
  }

  /** Progress of building the store; undefined when it is complete. Until then only the journal can be read. */
  building(): { readonly position: Position; readonly of: Position; readonly secondsLeft?: number } | undefined {
    if (this.isStarted) return undefined
    const { secondsLeft } = this.health().store ?? {}
    return { position: this.views.applied, of: this.journal.head, ...(secondsLeft !== undefined && { secondsLeft }) }
  }

  /** The current time of the served state. */
  abstract now(): Date
  /** Checks the journal's files; resolves with their damage. Calls and awaits `rest` between batches. */
  abstract verify(rest: (checked: Position) => Promise<void>): Promise<readonly Damage[]>
  abstract reload(): Promise<ImportOutcome>
  /** Writes the data file now; resolves with the position that it shows. */
  abstract snapshot(): Promise<Position>
  abstract health(): EngineHealth

  /**
   * Resolves when the service can begin, maybe while the store is still being built. Closes the engine when that fails;
   * a later failure is passed to `failed`.
   */
  async start(failed: (error: unknown) => void): Promise<void> {
    const starting = this.begin().then(() => {
      this.#isStarted = true
    })
    this.#starting = starting
    try {
      await Promise.race([starting, this.untilServable(starting)])
    } catch (error) {
      await this.close().catch(() => {})
      throw error
    }
    starting.catch((error) => {
      if (!this.isClosing) failed(error)
    })
  }

  /** May be called at any time, also while it starts or after a failed start. */
  close(): Promise<void> {
    this.#isClosing = true
    this.handler.end()
    return this.end(this.#starting.catch(() => {}))
  }

  /** Whether the store is complete and writes are accepted. */
  protected get isStarted(): boolean {
    return this.#isStarted
  }

  protected get isClosing(): boolean {
    return this.#isClosing
  }

  /** Resolves when the store is complete and writes are accepted. */
  protected abstract begin(): Promise<void>
  /** Resolves when the service should begin before the start is complete, and serve what does not need the store. */
  protected abstract untilServable(starting: Promise<void>): Promise<void>
  /** Releases everything; `starting` resolves when the start has ended. */
  protected abstract end(starting: Promise<void>): Promise<void>
}
