import type { Views } from '../projections/views.ts'
import type { LimitedLog } from '../runtime/limited-log.ts'
import type { Turn, Turns } from '../runtime/turns.ts'
import type { LiveSubscriptions } from './live-subscriptions.ts'
import { type ItemState, latestOf, type Subscription } from './subscription.ts'

export interface LaggingOptions {
  readonly views: Pick<Views, 'position' | 'any'>
  readonly live: LiveSubscriptions
  readonly turns: Turns
  readonly log: LimitedLog
}

/** Subscriptions whose client reads slowly: each gets the latest state of the items that changed, not every change. */
export class LaggingSubscriptions {
  /** How often a client became slow. */
  count = 0
  readonly #options: LaggingOptions
  /** The views are ahead of what subscriptions were told: parts of a write are still to come. */
  #isMidway = false
  #postponed: (() => void)[] = []

  constructor(options: LaggingOptions) {
    this.#options = options
  }

  /** Must be called before and after each part of a write; `isMidway` until the last part was applied. */
  setMidway(isMidway: boolean): void {
    this.#isMidway = isMidway
    if (isMidway) return
    const postponed = this.#postponed
    this.#postponed = []
    for (const work of postponed) work()
  }

  /** Whether the change is to be sent later, as the client is slow. */
  postpones(subscription: Subscription, latest: ItemState): boolean {
    if (!subscription.behind) {
      if (!subscription.client.isSlow()) return false
      this.count++
      subscription.behind = new Set()
      subscription.client.lagging(subscription.id, latest.position)
      subscription.client.whenDrained(() => this.#sendLatest(subscription))
    }
    // Deleting first moves the key to the end: keys are ordered by their latest change.
    subscription.behind.delete(String(latest.id))
    subscription.behind.add(String(latest.id))
    return true
  }

  #sendLatest(subscription: Subscription): void {
    if (!subscription.behind || subscription.isEnded) return
    // The views are ahead of what other subscriptions were told.
    if (this.#isMidway) {
      this.#postponed.push(() => this.#sendLatest(subscription))
      return
    }
    const { turns, log } = this.#options
    turns
      .run((turn) => this.#sendingLatest(subscription, turn))
      .catch((error: unknown) => log.error({ err: error }, 'a subscription could not catch up'))
  }

  /** Sends the latest state of each item that changed while the client was slow, as fast as the client reads. */
  async #sendingLatest(subscription: Subscription, turn: Turn): Promise<void> {
    const { views, live } = this.#options
    const { behind, client, has } = subscription
    const collection = views.any(subscription.collection)
    if (!behind) return
    for (const key of behind) {
      if (subscription.isEnded) return
      if (client.isSlow()) {
        client.whenDrained(() => this.#sendLatest(subscription))
        return
      }
      if (this.#isMidway) {
        this.#sendLatest(subscription)
        return
      }
      behind.delete(key)
      const position = collection?.get(key)?.position
      const item = collection?.item(key)
      if (position !== undefined) {
        live.send(subscription, latestOf(item?.id ?? has.get(key) ?? key, item?.text, position))
      }
      if (turn.isOver) await turn.next()
    }
    if (this.#isMidway) {
      this.#sendLatest(subscription)
      return
    }
    subscription.behind = undefined
    client.current(subscription.id, views.position)
  }
}
