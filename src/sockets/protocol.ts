import type { Updated } from '../projections/notifications.ts'

type ItemId = string | number
type Item = Readonly<Record<string, unknown>>

/** What a Socket.IO client is sent. Plain WebSocket clients get `updated` alone, as a text frame. */
export interface ServerMessages {
  updated: (updated: Updated) => void
  change: (change: Change) => void
  /**
   * The client does not keep up: from here on it gets only the latest change of each item. Until `current` comes its
   * list is not that of any one position: what goes on from it goes on after the last one before `lagging`.
   */
  lagging: (lagging: { readonly subscription: string; readonly position: number }) => void
  /** Every change up to `position` was sent: what was missed, what was replayed, or the latest changes after `lagging`. */
  current: (current: { readonly subscription: string; readonly position: number }) => void
}

/** What a Socket.IO client sends. */
export interface ClientMessages {
  subscribe: (wanted: Subscribe, answer: (answered: Subscribed) => void) => void
  unsubscribe: (
    which: { readonly subscription: string },
    answer?: (answered: { readonly ended: boolean }) => void,
  ) => void
}

export interface Subscribe {
  readonly collection: string
  /** Filters, as a query string or as an object of parameters. */
  readonly query?: string | Readonly<Record<string, string | number | boolean | readonly (string | number | boolean)[]>>
  /** The last position seen, of the journal of this UUID: what was missed since then follows. */
  readonly after?: number
  readonly journal?: string
  /** A position or an ISO 8601 date-time: the items as they were then, and what followed at the pace of the time. */
  readonly from?: number | string
  /** How many times as fast as it happened, 1 to 1000; default 1. */
  readonly speed?: number
}

export type Subscribed =
  | {
      readonly subscription: string
      /** UUID. */
      readonly journal: string
      readonly position: number
      /** Those that match, or matched, at `position`; none when the missed changes follow instead. */
      readonly items?: readonly Item[]
      /** What was missed is not known any more: forget what there was, and begin with `items`. */
      readonly reset?: true
    }
  | {
      readonly error: 'Invalid' | 'TooLarge' | 'TooMany'
      readonly message: string
      readonly position?: number
      readonly journal?: string
    }

/** In the order of positions, none missing, none twice. */
export interface Change {
  readonly subscription: string
  readonly position: number
  /** Of the item, as seen through the subscription's filters. */
  readonly kind: 'enter' | 'update' | 'leave'
  readonly id: ItemId
  /** As it is after the change; not with `leave`. */
  readonly item?: Item
}
