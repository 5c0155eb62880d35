import { setImmediate } from 'node:timers/promises'
import { BLOCK_PLACES } from '../collections/blocks.ts'
import type { Collection } from '../collections/collection.ts'
import { BLOCK, blockOf } from '../collections/gaps.ts'
import type { Item } from '../collections/item.ts'
import { expiryTimeOf } from '../collections/least-times.ts'
import type { FoundItem } from '../commands/expiry.ts'
import type { CommandHandler } from '../commands/handler.ts'
import type { ExpiryRule } from '../commands/rules.ts'
import type { Position } from '../events/event.ts'
import type { Origin, Projection } from '../events/journal.ts'
import { JUMP_MS } from '../projections/store-fold.ts'
import type { Views } from '../projections/views.ts'
import { Refusal } from '../runtime/errors.ts'
import type { LimitedLog } from '../runtime/limited-log.ts'
import { type Asker, type Turn, Turns } from '../runtime/turns.ts'
import { TAG, tableKey } from '../store/keys.ts'

/** The actor of the events of items that expire. */
const RETENTION_ACTOR = 'retention'
/** Items that one write lets expire: it blocks the event loop for 4 to 10 ms. Most blocks of items are removed as a whole. */
const AT_ONCE = 4 * BLOCK_PLACES
/** Items that are looked for together. */
const MOST_FOUND = 32 * AT_ONCE
/** How long a changed rule waits for its confirmation. */
const WAIT_MS = 24 * 60 * 60 * 1000
/** Items are looked for after this part of the time that they are kept, and at least once an hour. */
const PARTS = 24
const MOST_INTERVAL_MS = 60 * 60 * 1000
/** Items beyond those to keep expire together, this part of them. */
const SLACK = 0.01
const MOST_SLACK = 1000

/** The state of the rule of a collection. */
export interface RetentionStatus {
  readonly collection: string
  /** As in an `ItemsExpired` event. */
  readonly rule: string
  /**
   * `active`; `waiting`: the rule is new or has changed, and begins at `from`; `stopped`: the time of receipt has jumped by
   * more than a day, and `POST /admin/retention` says that it is right.
   */
  readonly state: 'active' | 'waiting' | 'stopped'
  /** Items before this time expire, ISO 8601. Missing without `Keep`, or when nothing was received yet. */
  readonly horizon?: string
  /** ISO 8601; only while it waits. */
  readonly from?: string
}

/** The rule of a collection, with the number of items that a confirmation lets expire. */
export interface RetentionPreview extends RetentionStatus {
  readonly items: number
}

interface RetentionOptions {
  readonly views: Views
  readonly handler: Pick<CommandHandler, 'expire'>
  readonly rules: ReadonlyMap<string, ExpiryRule>
  readonly now: () => Date
  /** Milliseconds since any moment. */
  readonly elapsedMs: () => number
  readonly newId: () => string
  readonly log: LimitedLog
  /** Whether this process decides. */
  readonly isLeader: () => boolean
}

interface SeenRule {
  readonly rule: string
  readonly ms: number
}

/** The circumstances of the last run of a rule. It runs again when they have changed. */
interface Run extends Pick<RetentionStatus, 'state'> {
  readonly receivedMs: number
  readonly position: Position
}

/** An item with the time by which it expires, in milliseconds since 1970. */
interface Candidate extends FoundItem {
  readonly ms: number
}

/**
 * Lets items expire by the rules of the settings. It runs after writes, as the horizon follows the time of the last receipt.
 *
 * | State of a rule | When | Items expire |
 * |---|---|---|
 * | waiting | the last `ItemsExpired` of the collection names another rule, or there is none, and items would expire | no |
 * | active | it names this one; or nothing would expire; or a day has passed | yes |
 * | stopped | more than a day lies between two receipts, and no expiry followed | no |
 */
export class Retention implements Projection {
  readonly #options: RetentionOptions
  readonly #turns = new Turns()
  /** The last run of each rule, by collection. */
  readonly #runs = new Map<string, Run>()
  /** When something was received last, by both clocks. */
  #received: { readonly ms: number; readonly elapsedMs: number } | undefined
  /** When the rules were seen first, in milliseconds since 1970; by collection. */
  #seen: Readonly<Record<string, SeenRule>> = {}
  #running: Promise<void> | undefined
  #hasBegun = false
  #isEnded = false

  constructor(options: RetentionOptions) {
    this.#options = options
  }

  /** Begins to let items expire. */
  async begin(): Promise<void> {
    await this.#logged(() => this.#noteRules())
    this.#hasBegun = true
    this.#noteReceipt()
    this.#runIfDue()
  }

  apply(): void {
    if (this.#options.rules.size === 0) return
    this.#noteReceipt()
    this.#runIfDue()
  }

  async end(): Promise<void> {
    this.#isEnded = true
    await this.#running
  }

  get status(): readonly RetentionStatus[] {
    return Array.from(this.#options.rules.values(), (rule) => this.#statusOf(rule))
  }

  /** Counts what would expire if all rules were confirmed now. */
  preview(asker: Asker): Promise<readonly RetentionPreview[]> {
    return this.#turns.run(async (turn) => {
      const previews: RetentionPreview[] = []
      for (const rule of this.#options.rules.values())
        previews.push({ ...this.#statusOf(rule), items: await this.#count(rule, turn) })
      return previews
    }, asker)
  }

  /** Confirms all rules, and the time of the last receipt. Items expire in the background. Resolves with the position. */
  async confirm(origin: Origin): Promise<Position> {
    const { rules, handler, views } = this.#options
    let { position } = views
    for (const { collection, text: rule } of rules.values()) {
      if (!views.find(collection)) continue
      const confirmed = await handler.expire({ collection, rule, items: [] }, origin)
      position = Math.max(position, confirmed.position)
    }
    return position
  }

  /** A quiet day is no jump of the clock if this process has seen it pass. */
  #noteReceipt(): void {
    const { views, elapsedMs } = this.#options
    const { receivedMs, jump } = views.receipt
    if (receivedMs === undefined || receivedMs === this.#received?.ms) return
    const before = this.#received
    this.#received = { ms: receivedMs, elapsedMs: elapsedMs() }
    const passedMs = before ? this.#received.elapsedMs - before.elapsedMs : 0
    const isQuiet = before && jump?.fromMs === before.ms && jump.toMs - jump.fromMs - passedMs <= JUMP_MS
    if (isQuiet) void this.#confirmAlone()
  }

  async #confirmAlone(): Promise<void> {
    const active = this.status.find(({ state, collection }) => state === 'stopped' && this.#isAccepted(collection))
    if (!active || !this.#options.isLeader()) return
    const { collection, rule } = active
    await this.#logged(() => this.#options.handler.expire({ collection, rule, items: [] }, this.#origin()))
  }

  #runIfDue(): void {
    const { rules, isLeader } = this.#options
    if (!this.#hasBegun || this.#isEnded || this.#running || !isLeader()) return
    const due = Array.from(rules.values()).filter((rule) => this.#isDue(rule))
    if (due.length === 0) return
    this.#running = this.#logged(async () => {
      // The write that is being published comes first.
      await setImmediate()
      for (const rule of due) await this.#run(rule)
    }).finally(() => {
      this.#running = undefined
      // More was received meanwhile.
      this.#runIfDue()
    })
  }

  #isDue(rule: ExpiryRule): boolean {
    const { views } = this.#options
    const { collection, keepMs, keepItems } = rule
    const found = views.find(collection)
    const { receivedMs } = views.receipt
    if (!found || receivedMs === undefined) return false
    const last = this.#runs.get(collection)
    const state = this.#stateOf(rule)
    // It was confirmed, or stopped.
    if (last?.state !== state) return true
    const interval = Math.min(MOST_INTERVAL_MS, (keepMs ?? WAIT_MS) / PARTS)
    if (receivedMs - last.receivedMs >= interval) return true
    // A run that failed, on a full disk, is not repeated before the next write.
    const hasNew = state === 'active' && views.position > last.position
    return hasNew && this.#excess(found, keepItems) > Math.min(MOST_SLACK, SLACK * (keepItems ?? 0))
  }

  #excess({ size }: Collection, keepItems: number | undefined): number {
    return keepItems === undefined ? 0 : Math.max(0, size - keepItems)
  }

  async #run(rule: ExpiryRule): Promise<void> {
    const { views, handler } = this.#options
    const { collection, text } = rule
    const { receivedMs = 0 } = views.receipt
    const state = this.#stateOf(rule)
    this.#runs.set(collection, { receivedMs, position: views.position, state })
    if (state === 'stopped') return
    let isAccepted = this.#isAccepted(collection)
    for (;;) {
      const found = await this.#turns.run((turn) => this.#find(rule, turn))
      if (found.length > 0 && !isAccepted && this.#waitsUntil(rule) > this.#options.now().getTime()) {
        this.#options.log.warn(
          { collection, rule: text, from: isoOf(this.#waitsUntil(rule)) },
          'items would expire by a new rule: POST /admin/retention confirms it, and ?dryRun=true counts them',
        )
        return
      }
      let expired = 0
      for (let at = 0; at === 0 || at < found.length; at += AT_ONCE) {
        await setImmediate()
        if (this.#isEnded || !this.#options.isLeader() || this.#stateOf(rule) === 'stopped') return
        const items = this.#expiring(rule, found.slice(at, at + AT_ONCE))
        if (items.length === 0 && isAccepted) return
        const { count } = await handler.expire({ collection, rule: text, items }, this.#origin())
        isAccepted = true
        expired += count
      }
      // Found items were changed meanwhile, or all have gone.
      if (expired === 0) return
    }
  }

  #isAccepted(collection: string): boolean {
    const rule = this.#options.rules.get(collection)
    return this.#options.views.find(collection)?.facts.rule === rule?.text
  }

  #stateOf(rule: ExpiryRule): RetentionStatus['state'] {
    const { views, now } = this.#options
    if (views.receipt.jump) return 'stopped'
    const isWaiting = !this.#isAccepted(rule.collection) && this.#waitsUntil(rule) > now().getTime()
    return isWaiting ? 'waiting' : 'active'
  }

  #statusOf(rule: ExpiryRule): RetentionStatus {
    const { collection, text } = rule
    const state = this.#stateOf(rule)
    const horizonMs = horizonOf(rule, this.#options.views.receipt)
    return {
      collection,
      rule: text,
      state,
      ...(horizonMs !== undefined && { horizon: isoOf(horizonMs) }),
      ...(state === 'waiting' && { from: isoOf(this.#waitsUntil(rule)) }),
    }
  }

  /** When a rule begins that was not confirmed, in milliseconds since 1970. */
  #waitsUntil({ collection, text }: ExpiryRule): number {
    const seen = Object.hasOwn(this.#seen, collection) ? this.#seen[collection] : undefined
    return (seen?.rule === text ? seen.ms : this.#options.now().getTime()) + WAIT_MS
  }

  /** The store remembers when it saw each rule first, so that restarts do not prolong the wait. */
  async #noteRules(): Promise<void> {
    const { views, rules, now } = this.#options
    if (rules.size === 0) return
    const row = views.store.newest(SEEN_RULES)
    const before = row ? (JSON.parse(row.toString()) as Readonly<Record<string, SeenRule>>) : {}
    this.#seen = Object.fromEntries(
      Array.from(rules.values(), ({ collection, text }) => {
        const known = Object.hasOwn(before, collection) ? before[collection] : undefined
        return [collection, known?.rule === text ? known : { rule: text, ms: now().getTime() }]
      }),
    )
    const value = Buffer.from(JSON.stringify(this.#seen))
    await views.onceRoom(() => views.store.transaction(() => views.store.set(SEEN_RULES, value)))
  }

  /** The items that expire next, at most MOST_FOUND, the oldest first. */
  async #find(rule: ExpiryRule, turn: Turn): Promise<readonly Candidate[]> {
    const { views } = this.#options
    const collection = views.find(rule.collection)
    if (!collection || collection.isObject) return []
    const excess = this.#excess(collection, rule.keepItems)
    const horizonMs = horizonOf(rule, views.receipt) ?? Number.NEGATIVE_INFINITY
    const oldest = await this.#oldest(collection, rule, horizonMs, Math.min(MOST_FOUND, excess), turn)
    return this.#expiring(rule, oldest)
  }

  /** Those of the oldest items that expire now: others may have been deleted since these were found. */
  #expiring(rule: ExpiryRule, oldest: readonly Candidate[]): readonly Candidate[] {
    const { views } = this.#options
    const collection = views.find(rule.collection)
    const excess = collection ? this.#excess(collection, rule.keepItems) : 0
    const horizonMs = horizonOf(rule, views.receipt) ?? Number.NEGATIVE_INFINITY
    return oldest.filter(({ ms }, index) => ms < horizonMs || index < excess)
  }

  /** The oldest items: at least `least` of them, and those before a time, at most MOST_FOUND. Reads the blocks that may have them. */
  async #oldest(
    collection: Collection,
    rule: ExpiryRule,
    beforeMs: number,
    least: number,
    turn: Turn,
  ): Promise<readonly Candidate[]> {
    const { leastTimes } = this.#options.views
    const { table, name } = collection.facts
    const blocks: { readonly block: number; readonly ms: number }[] = []
    for (const block of blocksOf(collection)) {
      const ms = leastTimes.of(table, name, block) ?? Number.NEGATIVE_INFINITY
      if (ms < beforeMs || least > 0) blocks.push({ block, ms })
      if (turn.isOver) await turn.next()
    }
    blocks.sort((a, b) => (a.ms === b.ms ? 0 : a.ms < b.ms ? -1 : 1))
    let oldest: Candidate[] = []
    for (const { block, ms } of blocks) {
      // The rows have whole milliseconds.
      const last = oldest[MOST_FOUND - 1] ?? (ms >= beforeMs && least > 0 ? oldest[least - 1] : undefined)
      if (last && ms > last.ms) break
      const read = await this.#readBlock(collection, rule, block, turn)
      oldest.push(...read.filter((one) => one.ms < beforeMs || least > 0))
      oldest = oldest.sort((a, b) => a.ms - b.ms).slice(0, MOST_FOUND)
      // Less than a whole turn at a time: requests and the writes of the last items block the event loop, too.
      await turn.next()
    }
    return oldest
  }

  async #count(rule: ExpiryRule, turn: Turn): Promise<number> {
    const { views } = this.#options
    const collection = views.find(rule.collection)
    if (!collection || collection.isObject) return 0
    const excess = this.#excess(collection, rule.keepItems)
    // A confirmation also says that the time of the last receipt is right.
    const horizonMs = horizonOf(rule, { ...views.receipt, jump: undefined })
    if (horizonMs === undefined) return excess
    const { table, name } = collection.facts
    let count = 0
    for (const block of blocksOf(collection)) {
      const least = views.leastTimes.of(table, name, block)
      if (least === undefined || least < horizonMs) {
        const read = await this.#readBlock(collection, rule, block, turn)
        count += read.filter(({ ms }) => ms < horizonMs).length
      }
      if (turn.isOver) await turn.next()
    }
    return Math.max(count, excess)
  }

  /** The items of a block, whose least time is stored if it is another one and nothing was written meanwhile. */
  async #readBlock(
    collection: Collection,
    { time }: ExpiryRule,
    block: number,
    turn: Turn,
  ): Promise<readonly Candidate[]> {
    const { views } = this.#options
    const { table, name, places } = collection.facts
    const began = views.position
    const found: Candidate[] = []
    const end = Math.min(places, (block + 1) * BLOCK)
    for (let place = collection.seek(block * BLOCK); place < end; place = collection.seek(place + 1)) {
      const item = collection.itemAt(place) as Item
      found.push({ place, position: item.position, ms: expiryTimeOf(() => item.value, item.timeMs, time) })
      // Items may be long.
      if (turn.isOver) await turn.next()
    }
    const least = found.reduce((ms, one) => Math.min(ms, one.ms), Number.POSITIVE_INFINITY)
    const isCurrent = views.applied === began && views.position === began && found.length > 0
    if (isCurrent && Math.floor(Math.max(0, least)) !== views.leastTimes.of(table, name, block))
      views.store.transaction(() => views.leastTimes.set(table, name, block, least))
    return found
  }

  #origin(): Origin {
    return { actor: RETENTION_ACTOR, requestId: this.#options.newId() }
  }

  /** A failure, such as a full disk, ends the run; the next one continues. */
  async #logged(work: () => Promise<unknown>): Promise<void> {
    try {
      await work()
    } catch (error) {
      if (!this.#isEnded || !(error instanceof Refusal))
        this.#options.log.error({ err: error }, 'items could not expire')
    }
  }
}

const SEEN_RULES = tableKey(TAG.state, 3)

/**
 * Items before this time expire by a rule, in milliseconds since 1970. It follows the last receipt, or that before a jump.
 * Undefined without Keep, or when nothing was received yet.
 */
export function horizonOf({ keepMs }: ExpiryRule, { receivedMs, jump }: Views['receipt']): number | undefined {
  if (keepMs === undefined || receivedMs === undefined) return undefined
  return (jump?.fromMs ?? receivedMs) - keepMs
}

/** The blocks of places with items, in order, also while items change. */
function* blocksOf(collection: Collection): Generator<number> {
  for (let block = 0; ; block++) {
    const place = collection.seek(block * BLOCK)
    if (place >= collection.places) return
    block = blockOf(place)
    yield block
  }
}

function isoOf(ms: number): string {
  return new Date(ms).toISOString()
}
