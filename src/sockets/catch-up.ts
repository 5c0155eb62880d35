import { itemChanges, type Position } from '../events/event.ts'
import { type Journal, positioned, type Recorded } from '../events/journal.ts'
import type { Views } from '../projections/views.ts'
import type { LimitedLog } from '../runtime/limited-log.ts'
import { Semaphore, type Turn, type Turns } from '../runtime/turns.ts'
import type { LiveSubscriptions } from './live-subscriptions.ts'
import { inExpiry, isEnded, type Subscription, stateAfter } from './subscription.ts'

interface CatchUpOptions {
  readonly views: Pick<Views, 'position'>
  readonly journal: Pick<Journal, 'read'>
  readonly live: LiveSubscriptions
  readonly turns: Turns
  readonly log: LimitedLog
}

/**
 * How many subscriptions catch up at a time, and how many records each reads before it queues again. This keeps a long
 * catch-up from delaying requests and other subscriptions.
 */
const READING = 2
const RECORDS_A_TURN = 128

/** Why no more changes are sent for now: `until` is the time of the next change, or of the last one if all were sent. */
type Stop = 'slow' | 'more' | { readonly until: string }

/** Sends subscriptions the changes that they missed, from the journal, and then makes them live. */
export class CatchUp {
  readonly #options: CatchUpOptions
  readonly #reading = new Semaphore(READING)

  constructor(options: CatchUpOptions) {
    this.#options = options
  }

  /** Begins after the response was sent, so that the client knows the subscription when its first change arrives. */
  begin(subscription: Subscription): void {
    subscription.state = 'catchingUp'
    setImmediate(() => {
      this.#run(subscription).catch((error: unknown) => {
        this.#options.log.error({ err: error }, 'a subscription could not catch up; its client is disconnected')
        // It connects again, and begins with the current items if its changes cannot be read.
        subscription.client.drop()
      })
    })
  }

  async #run(subscription: Subscription): Promise<void> {
    const { views, live } = this.#options
    while (!isEnded(subscription) && subscription.position < views.position) {
      const why = await this.#reading.run(() => this.#readOn(subscription, views.position))
      if (why === 'slow') await new Promise<void>((resolve) => subscription.client.whenDrained(resolve))
      else if (why !== 'more') await subscription.pace?.reach(why.until)
    }
    if (isEnded(subscription)) return
    live.add(subscription)
    subscription.client.current(subscription.id, views.position)
  }

  /**
   * Sends some of the changes up to `to`, and returns why it stopped. While a subscription waits, which may take days,
   * it holds no file and no data.
   */
  async #readOn(subscription: Subscription, to: Position): Promise<Stop> {
    const { journal, turns } = this.#options
    let until = ''
    let left = RECORDS_A_TURN
    for await (const recorded of journal.read(subscription.position + 1, to)) {
      if (isEnded(subscription)) break
      if (left-- === 0) return 'more'
      until = recorded.time
      const stop = await turns.run((turn) => this.#send(subscription, recorded, turn))
      if (stop) return stop
    }
    return { until }
  }

  /** Undefined if all changes of the record were sent. */
  async #send(subscription: Subscription, recorded: Recorded, turn: Turn): Promise<Stop | undefined> {
    const { collection, pace, client, held } = subscription
    const until = recorded.time
    const isDue = pace?.isDue(until) ?? true
    for (const [position, event] of positioned(recorded)) {
      if (turn.isOver) await turn.next()
      if (isEnded(subscription)) return undefined
      const changes = event.collection === collection ? [...itemChanges(event)] : []
      const states = changes.map((change) => stateAfter(change, position))
      // Most of the items that expire are in no list.
      const sent = event.type === 'ItemsExpired' ? states.filter(({ id }) => held.has(String(id))) : states
      for (const state of inExpiry(sent)) {
        if (!isDue) return { until }
        // The event is read again from its beginning: the client has no items that have left its list.
        if (client.isSlow()) return 'slow'
        this.#options.live.send(subscription, state)
      }
      subscription.position = position
    }
    return undefined
  }
}
