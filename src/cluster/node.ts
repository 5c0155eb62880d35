import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { JournalMismatch } from '../errors.ts'
import type { Position } from '../events/event.ts'
import type { ClusterJournal } from './cluster-journal.ts'
import type { Election } from './election.ts'
import type { Exchange } from './exchange.ts'
import type { Announcement } from './protocol.ts'
import type { RecordStream } from './record-stream.ts'

export interface NodeOptions {
  readonly id: string
  readonly urls: readonly string[]
  readonly journal: ClusterJournal
  readonly stream: RecordStream
  readonly election: Election
  readonly exchange: Pick<Exchange, 'hear' | 'announce'>
  readonly elapsedMs: () => number
  /** Whether this node has room for what it would decide. */
  readonly canDecide: () => boolean
  readonly log: Logger
  /** This node decides from now on, until `resigned`. */
  readonly elected: () => Promise<void>
  readonly resigned: () => Promise<void>
  /** The stream is not what it was: the process must end. */
  readonly failed: (error: unknown) => void
}

export interface Peer {
  readonly node: string
  readonly position: Position
  readonly urls: readonly string[]
}

const ROUND_MS = 1000
/** Who has said nothing for so long is gone. */
const SILENT_MS = 5000
/** So long may a stream seem to have lost its end: a server that was cut off from the others may not know better. */
const LOST_MS = 30_000

/** So long may an election get no answer before it is told of: longer than a nats-server's successor takes. */
const STUCK_MS = 15_000

/** One of the nodes that are a cluster: takes part in electing who decides, and knows of the others. */
export class Node {
  readonly #options: NodeOptions
  readonly #heard = new Map<string, { readonly announcement: Announcement; readonly at: number }>()
  #isElected = false
  #isEnding = false
  #running: Promise<void> | undefined
  #change: Promise<void> = Promise.resolve()
  #checking: Promise<void> | undefined
  #shorterSince: number | undefined
  /** Since when rounds of the election have come to nothing; told when it is Infinity. */
  #stuckSince: number | undefined

  constructor(options: NodeOptions) {
    this.#options = options
    options.exchange.hear((announcement) => {
      if (announcement.node !== options.id)
        this.#heard.set(announcement.node, { announcement, at: options.elapsedMs() })
    })
  }

  get id(): string {
    return this.#options.id
  }

  /** Who decides; undefined while nobody does, as far as this node knows. */
  get decider(): string | undefined {
    const { election, id } = this.#options
    const { decider } = election
    return decider === id && !this.isDeciding ? undefined : decider
  }

  /** What this node refuses, no other one has accepted. */
  get isDeciding(): boolean {
    return this.#isElected && this.#options.journal.writable && this.#options.election.isHeld
  }

  /** Whether a write could be stored: the node that decides, here or elsewhere, can. */
  get isDecided(): boolean {
    const { decider } = this
    if (decider === undefined || decider === this.id) return this.isDeciding
    return this.#options.election.isFresh && this.#heard.get(decider)?.announcement.isDeciding !== false
  }

  /** Those heard of lately. */
  get peers(): readonly Peer[] {
    const since = this.#options.elapsedMs() - SILENT_MS
    const peers: Peer[] = []
    for (const [node, { announcement, at }] of this.#heard) {
      if (at < since) this.#heard.delete(node)
      else peers.push({ node, position: announcement.position, urls: announcement.urls })
    }
    return peers
  }

  /** How many events others are known to have, and this node has not. */
  get lag(): number {
    const { head } = this.#options.journal
    return Math.max(0, ...this.peers.map(({ position }) => position - head))
  }

  /** Resolves after the first election that it knows of, or after some seconds without one. */
  async start(): Promise<void> {
    await this.#round()
    // What follows an election may take long, and the lease ends if nobody renews it.
    this.#running = this.#run()
    for (let rounds = 0; rounds < 8 && this.decider === undefined; rounds++) {
      await delay(ROUND_MS)
      await Promise.race([this.#change, delay(ROUND_MS)])
    }
    await this.#change
  }

  /** What was lost: the journal was taken over, or nobody knows what came of a write. */
  lost(): void {
    if (this.#isElected) this.#resign()
  }

  /** Lets another node decide. */
  async close(): Promise<void> {
    this.#isEnding = true
    await this.#running
    await this.#checking
    if (this.#isElected) this.#resign()
    await this.#change
    await this.#options.election.release().catch(() => {})
  }

  /** Waits for nothing but the election itself. */
  async #run(): Promise<void> {
    while (!this.#isEnding) {
      await delay(ROUND_MS)
      if (!this.#isEnding) await this.#round()
    }
  }

  async #round(): Promise<void> {
    const { election, id, canDecide } = this.#options
    let why: unknown
    try {
      await election.round(canDecide())
    } catch (error) {
      why = error
    }
    const isMine = election.decider === id
    this.#tellIfStuck(why !== undefined || (isMine && !election.isHeld), why)
    if (isMine && election.isHeld && !this.#isElected) this.#lead()
    if (!isMine && this.#isElected) this.#resign()
    this.#announce()
    this.#checking ??= this.#checkEnd().finally(() => {
      this.#checking = undefined
    })
  }

  #announce(): void {
    const { id, urls, journal, exchange } = this.#options
    exchange.announce({ node: id, position: journal.head, urls, isDeciding: this.isDeciding })
  }

  #tellIfStuck(isStuck: boolean, why: unknown): void {
    const { elapsedMs, log } = this.#options
    if (!isStuck) {
      if (this.#stuckSince === Infinity) log.warn('the lease of the node that decides can be written again')
      this.#stuckSince = undefined
      return
    }
    this.#stuckSince ??= elapsedMs()
    if (elapsedMs() - this.#stuckSince < STUCK_MS) return
    this.#stuckSince = Infinity
    log.warn({ err: why }, 'NATS does not take or tell the lease of the node that decides: nobody can write')
  }

  #lead(): void {
    const { journal, log, elected, id } = this.#options
    this.#isElected = true
    this.#change = this.#change.then(async () => {
      try {
        await journal.lead()
        log.info({ node: id, position: journal.head }, 'this node decides')
        this.#announce()
        await elected()
      } catch (error) {
        log.warn({ err: error }, 'this node was elected, and could not begin to decide')
        this.#isElected = false
      }
    })
  }

  #resign(): void {
    const { journal, log, resigned, id } = this.#options
    this.#isElected = false
    journal.resign()
    this.#change = this.#change.then(async () => {
      log.info({ node: id, position: journal.head }, 'this node decides no longer')
      await resigned().catch((error: unknown) => log.error({ err: error }, 'the data file could not be let go of'))
    })
  }

  /** A stream that is shorter than what it has given already has lost events. */
  async #checkEnd(): Promise<void> {
    const { stream, journal, elapsedMs, failed } = this.#options
    const { sequence } = journal
    const last = await stream.last().catch(() => undefined)
    if (last === undefined) return
    if (last >= sequence) this.#shorterSince = undefined
    else this.#shorterSince ??= elapsedMs()
    if (this.#shorterSince === undefined || elapsedMs() - this.#shorterSince < LOST_MS) return
    failed(
      new JournalMismatch(
        `The stream ends at message ${last}, and this node has had ${sequence}: it has lost events. See docs/cluster.md, "When the stream lost events".`,
      ),
    )
  }
}
