/**
 * The states of a node. The lease is that of election.ts, the succession a message of the stream (message.ts).
 *
 * | State | Begins | Ends |
 * |---|---|---|
 * | follower | with the start, and when `resigned` is done | when the node gets the lease |
 * | elected | with the lease; the node writes its succession | when the stream has the succession; if that fails, as a follower, which the next round elects again |
 * | leader | with its succession; it accepts writes and calls `elected` | when another node has the lease or writes a succession, a write fails, or the node closes |
 * | resigning | with `resigning`, after writes that were not sent were rejected | when `resigned` is done |
 *
 * A leader whose lease is not renewed in time accepts no writes, but stays the leader until another node has the lease.
 * `#isElected` is set in the states elected and leader; `#change` resolves when the last change of state is complete.
 */

import { setTimeout as delay } from 'node:timers/promises'
import type { Logger } from 'pino'
import { JournalMismatch } from '../runtime/errors.ts'
import { LimitedLog } from '../runtime/limited-log.ts'
import type { ClusterJournal } from './cluster-journal.ts'
import type { Election } from './election.ts'
import type { Messenger } from './messenger.ts'
import type { Announcement, Peer } from './protocol.ts'
import type { RecordStream } from './record-stream.ts'

interface NodeOptions {
  readonly id: string
  readonly urls: readonly string[]
  readonly journal: ClusterJournal
  readonly stream: RecordStream
  readonly election: Election
  readonly messenger: Pick<Messenger, 'onAnnouncement' | 'announce'>
  readonly elapsedMs: () => number
  /** Whether this node has room for the writes of a leader. */
  readonly canLead: () => boolean
  readonly log: Logger
  /** Called when this node has become the leader; `resigned` ends that. */
  readonly elected: () => Promise<void>
  /** Called at once when this node leads no longer, also while `elected` works; `resigned` waits for that. */
  readonly resigning: () => void
  readonly resigned: () => Promise<void>
  /** The stream is not the expected one: the process must end. */
  readonly failed: (error: unknown) => void
}

const ROUND_MS = 1000
/** A peer that was silent for this long is considered gone. */
const SILENT_MS = 5000
/** How long a stream may seem to have lost its end: a server that is cut off from the others may be behind. */
const LOST_MS = 30_000

/** How long elections may fail before it is logged: longer than a NATS failover takes. */
const STUCK_MS = 15_000

/** A node of the cluster: takes part in leader elections and tracks its peers. */
export class Node {
  readonly #options: NodeOptions
  readonly #limitedLog: LimitedLog
  readonly #announcements = new Map<string, { readonly announcement: Announcement; readonly at: number }>()
  #isElected = false
  #isEnding = false
  #running: Promise<void> | undefined
  #change: Promise<void> = Promise.resolve()
  #checking: Promise<void> | undefined
  #shorterSince: number | undefined
  /** When rounds of the election began to fail; Infinity once that is logged. */
  #stuckSince: number | undefined

  constructor(options: NodeOptions) {
    this.#options = options
    this.#limitedLog = new LimitedLog(options.log, options.elapsedMs)
    options.messenger.onAnnouncement((announcement) => {
      if (announcement.node !== options.id)
        this.#announcements.set(announcement.node, { announcement, at: options.elapsedMs() })
    })
  }

  get id(): string {
    return this.#options.id
  }

  /** The leader; undefined while this node knows of none. */
  get leader(): string | undefined {
    const { election, id } = this.#options
    const { leader } = election
    return leader === id && !this.isLeader ? undefined : leader
  }

  /** While true, no other node accepts writes. */
  get isLeader(): boolean {
    return this.#isElected && this.#options.journal.writable && this.#options.election.isHeld
  }

  /** Whether the cluster has a leader that accepts writes. */
  get hasLeader(): boolean {
    const { leader } = this
    if (leader === undefined || leader === this.id) return this.isLeader
    return this.#options.election.isFresh && this.#announcements.get(leader)?.announcement.isDeciding !== false
  }

  /** Nodes that announced themselves recently. */
  get peers(): readonly Peer[] {
    const since = this.#options.elapsedMs() - SILENT_MS
    const peers: Peer[] = []
    for (const [node, { announcement, at }] of this.#announcements) {
      if (at < since) this.#announcements.delete(node)
      else peers.push({ node, position: announcement.position, urls: announcement.urls })
    }
    return peers
  }

  /** How many events this node is known to be behind its peers. */
  get lag(): number {
    const { head } = this.#options.journal
    return Math.max(0, ...this.peers.map(({ position }) => position - head))
  }

  /** Resolves after the first election that it knows of, or after some seconds without one. */
  async start(): Promise<void> {
    await this.#round()
    // Becoming the leader may take long, and the lease must be renewed meanwhile.
    this.#running = this.#run()
    for (let rounds = 0; rounds < 8 && this.leader === undefined; rounds++) {
      await delay(ROUND_MS)
      await Promise.race([this.#change, delay(ROUND_MS)])
    }
    await this.#change
  }

  /** The journal reports that this node no longer leads. */
  lost(): void {
    if (this.#isElected) this.#resign()
  }

  /** Hands the leadership to another node. */
  async close(): Promise<void> {
    this.#isEnding = true
    await this.#running
    await this.#checking
    if (this.#isElected) this.#resign()
    await this.#change
    await this.#options.election.release().catch(() => {})
  }

  /** Awaits only the election, so that the lease is renewed in time. */
  async #run(): Promise<void> {
    while (!this.#isEnding) {
      await delay(ROUND_MS)
      if (!this.#isEnding) await this.#round()
    }
  }

  async #round(): Promise<void> {
    const { election, id, canLead } = this.#options
    let why: unknown
    try {
      await election.round(canLead())
    } catch (error) {
      why = error
    }
    const isLeaseHolder = election.leader === id
    this.#logIfStuck(why !== undefined || (isLeaseHolder && !election.isHeld), why)
    if (isLeaseHolder && election.isHeld && !this.#isElected) this.#lead()
    if (!isLeaseHolder && this.#isElected) this.#resign()
    this.#announce()
    this.#checking ??= this.#checkEnd().finally(() => {
      this.#checking = undefined
    })
  }

  #announce(): void {
    const { id, urls, journal, messenger } = this.#options
    messenger.announce({ node: id, position: journal.head, urls, isDeciding: this.isLeader })
  }

  #logIfStuck(isStuck: boolean, why: unknown): void {
    const { elapsedMs, log } = this.#options
    if (!isStuck) {
      if (this.#stuckSince === Infinity) log.warn('the lease of the leader can be written again')
      this.#stuckSince = undefined
      return
    }
    this.#stuckSince ??= elapsedMs()
    if (elapsedMs() - this.#stuckSince < STUCK_MS) return
    this.#stuckSince = Infinity
    log.warn({ err: why }, 'NATS does not accept or return the lease of the leader: no writes are possible')
  }

  #lead(): void {
    const { journal, log, elected, id } = this.#options
    this.#isElected = true
    const change = this.#change.then(async () => {
      try {
        await journal.lead()
        log.info({ node: id, position: journal.head }, 'this node is the leader')
        this.#announce()
        await elected()
      } catch (error) {
        this.#limitedLog.warn({ err: error }, 'this node was elected leader, but could not take over')
        // It may have been elected again meanwhile, and is about to take over.
        if (this.#change === change) this.#isElected = false
      }
    })
    this.#change = change
  }

  #resign(): void {
    const { journal, log, resigning, resigned, id } = this.#options
    this.#isElected = false
    journal.resign()
    resigning()
    this.#change = this.#change.then(async () => {
      log.info({ node: id, position: journal.head }, 'this node is no longer the leader')
      await resigned().catch((error: unknown) => log.error({ err: error }, 'the data file could not be released'))
    })
  }

  /** Fails if the stream is shorter than what this node has received: it has lost events. */
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
