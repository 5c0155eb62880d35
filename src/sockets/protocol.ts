import type { Updated } from '../projections/notifications.ts'

/** What a Socket.IO client is sent. Plain WebSocket clients get the same object as a text frame. */
export interface ServerMessages {
  updated: (updated: Updated) => void
}
