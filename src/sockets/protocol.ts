import type { Position } from '../events/event.ts'

type ItemId = string | number
type Item = Readonly<Record<string, unknown>>

/** Messages to Socket.IO clients. Plain WebSocket clients get only `updated`, as a text frame. */
export interface ServerMessages {
  updated: (updated: Updated) => void
  change: (change: Change) => void
  /**
   * The client is too slow: until `current` it gets only the latest change of each item, and its list matches no single
   * position. A client that resumes meanwhile must do so after the last position before `lagging`.
   */
  lagging: (lagging: { readonly subscription: string; readonly position: number }) => void
  /** Every change up to `position` was sent: after resuming, after a replay, or after `lagging`. */
  current: (current: { readonly subscription: string; readonly position: number }) => void
}

/** Messages from Socket.IO clients. */
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
  /** The last position seen in the journal with this UUID: the changes since then follow. */
  readonly after?: number
  readonly journal?: string
  /** A position or an ISO 8601 date-time: the items at that time, then the changes at their pace. */
  readonly from?: number | string
  /** The speed of the replay, 1 to 1000; default 1. */
  readonly speed?: number
}

export type Subscribed =
  | {
      readonly subscription: string
      /** UUID. */
      readonly journal: string
      readonly position: number
      /** The items that match at `position`; missing when a client resumes. */
      readonly items?: readonly Item[]
      /** The client cannot resume: it must replace its list with `items`. */
      readonly reset?: true
      /** Changes happened since `position`: they follow, and then `current`. */
      readonly behind?: true
      /** The field of the collection's event time, whose values are compared as instants. */
      readonly eventTime?: string
    }
  | {
      /**
       * `Busy`: the server has no memory for the subscription at the moment; subscribe again later. `Unavailable`: the
       * journal is damaged where the subscription needs it.
       */
      readonly error: 'Invalid' | 'TooLarge' | 'TooMany' | 'Busy' | 'Unavailable'
      readonly message: string
      readonly position?: number
      readonly journal?: string
      readonly eventTime?: string
    }

/**
 * Changes arrive in the order of positions, each exactly once. Items that expire together have a change each: all but the last
 * have the position before that of the event, so that a client that resumes in between gets all of them.
 */
export interface Change {
  readonly subscription: string
  readonly position: number
  /** The effect on the list of the subscription. */
  readonly kind: 'enter' | 'update' | 'leave'
  readonly id: ItemId
  /** The item after the change; not with `leave`. */
  readonly item?: Item
}

/** The notification of an event to all clients, which may then read the path. */
export interface Updated {
  readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly collection: string
  /** As stored, number or text; null for an event of a whole collection. */
  readonly itemId: ItemId | null
  readonly position: Position
}
