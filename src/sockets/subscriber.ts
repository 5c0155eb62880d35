import type { Socket } from 'socket.io'
import type { WebSocket } from 'ws'
import type { ClientMessages, ServerMessages } from './protocol.ts'
import type { Subscriber } from './subscription.ts'
import type { Subscriptions } from './subscriptions.ts'

/** What Socket.IO does not tell of its connections, and what is needed to bound them. */
export interface Connection {
  readonly writeBuffer: readonly { readonly data?: unknown }[]
  /** The socket is there with the WebSocket transport. */
  readonly transport: { readonly socket?: WebSocket }
  close(discard: boolean): void
  on(name: 'drain', listener: () => void): void
}

export function bytesWaiting({ writeBuffer }: Connection): number {
  return writeBuffer.reduce((sum, { data }) => sum + (typeof data === 'string' ? data.length : 0), 0)
}

/** A client to whom this much waits to be sent does not keep up. */
const SLOW_BYTES = 256 * 1024

type ClientSocket = Socket<ClientMessages, ServerMessages>

/** Takes a client's `subscribe` and `unsubscribe`; whatever it sends, it is answered or passed over. */
export function serveSubscriptions(socket: ClientSocket, subscriptions: Subscriptions): void {
  const subscriber = subscriberOf(socket)
  socket.on('subscribe', (wanted, answer) => {
    if (typeof answer !== 'function') return
    // What cannot be told, as it is longer than a text can be, must end no more than the socket.
    subscriptions
      .subscribe(subscriber, wanted)
      .then(answer)
      .catch(() => socket.disconnect(true))
  })
  socket.on('unsubscribe', (which, answer) => {
    const id: unknown = (which as { subscription?: unknown } | null | undefined)?.subscription
    const ended = typeof id === 'string' && subscriptions.unsubscribe(subscriber, id)
    if (typeof answer === 'function') answer({ ended })
  })
  socket.once('disconnect', () => subscriptions.leave(subscriber))
}

function subscriberOf(socket: ClientSocket): Subscriber {
  const conn = socket.conn as unknown as Connection
  const isSlow = (): boolean => bytesWaiting(conn) > SLOW_BYTES
  const waiting: (() => void)[] = []
  const look = (): void => {
    while (waiting.length > 0 && !(socket.connected && isSlow())) waiting.shift()?.()
  }
  conn.on('drain', look)
  socket.once('disconnect', () => setImmediate(look))
  return {
    change: (change) => socket.emit('change', change),
    lagging: (subscription, position) => socket.emit('lagging', { subscription, position }),
    current: (subscription, position) => socket.emit('current', { subscription, position }),
    isSlow,
    whenDrained(work) {
      waiting.push(work)
      setImmediate(look)
    },
  }
}
