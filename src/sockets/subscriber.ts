import type { Server, Socket } from 'socket.io'
import { bytesWaiting, type EngineConnection, terminate } from './connection.ts'
import type { Change, ClientMessages, ServerMessages, Subscribed } from './protocol.ts'
import type { SubscribeResponse, Subscriber, TextChange } from './subscription.ts'
import type { Subscriptions } from './subscriptions.ts'

/** A client with a longer queue is slow. */
const SLOW_BYTES = 256 * 1024

type ClientSocket = Socket<ClientMessages, ServerMessages>

/** Lower bound of a client's queue of requests; it may always queue twice as many as it may have subscriptions. */
const REQUESTS = 256

/**
 * Handles `subscribe` and `unsubscribe` of a client one at a time, in order, and pauses while the client is slow. A
 * client that queues too many requests is disconnected.
 */
export function serveSubscriptions(socket: ClientSocket, subscriptions: Subscriptions): void {
  const subscriber = subscriberOf(socket)
  const most = Math.max(REQUESTS, 2 * subscriptions.perClient)
  const requests: (() => Promise<void>)[] = []
  const end = (): void => {
    requests.length = 0
    terminate(socket.conn as unknown as EngineConnection)
  }
  const serve = async (): Promise<void> => {
    for (let request = requests[0]; request && socket.connected; request = requests[0]) {
      if (subscriber.isSlow()) await new Promise<void>((resolve) => subscriber.whenDrained(resolve))
      await request()
      requests.shift()
    }
  }
  const take = (request: () => Promise<void>): void => {
    if (requests.length >= most) end()
    // A response longer than the longest string of V8 cannot be sent. That must end the socket and not the process.
    else if (requests.push(request) === 1) serve().catch(end)
  }
  socket.on('subscribe', (wanted, answer) => {
    if (typeof answer !== 'function') return
    take(() => subscriptions.subscribe(subscriber, wanted, (answered) => answer(asSent(answered))))
  })
  socket.on('unsubscribe', (which, answer) => {
    const id: unknown = (which as { subscription?: unknown } | null | undefined)?.subscription
    take(async () => {
      const ended = typeof id === 'string' && subscriptions.unsubscribe(subscriber, id)
      if (typeof answer === 'function') answer({ ended })
    })
  })
  socket.once('disconnect', () => {
    requests.length = 0
    subscriptions.leave(subscriber)
  })
}

function subscriberOf(socket: ClientSocket): Subscriber {
  const conn = socket.conn as unknown as EngineConnection
  const isSlow = (): boolean => bytesWaiting(conn) > SLOW_BYTES
  const waiting: (() => void)[] = []
  const look = (): void => {
    while (waiting.length > 0 && !(socket.connected && isSlow())) waiting.shift()?.()
  }
  conn.on('drain', look)
  socket.once('disconnect', () => setImmediate(look))
  return {
    change: (change) => socket.emit('change', changeAsSent(change)),
    lagging: (subscription, position) => socket.emit('lagging', { subscription, position }),
    current: (subscription, position) => socket.emit('current', { subscription, position }),
    isSlow,
    whenDrained(work) {
      waiting.push(work)
      setImmediate(look)
    },
  }
}

function asSent(answered: SubscribeResponse): Subscribed {
  if (!('items' in answered) || !answered.items) return answered as Subscribed
  const { items, ...others } = answered
  const text = `${JSON.stringify(others).slice(0, -1)},"items":[${items.map((item) => item.text).join(',')}]}`
  return new JsonText(text) as unknown as Subscribed
}

function changeAsSent({ text, ...others }: TextChange): Change {
  if (text === undefined) return others
  return new JsonText(`${JSON.stringify(others).slice(0, -1)},"item":${text}}`) as unknown as Change
}

/** JSON text to be inserted unchanged into a message to a Socket.IO client. */
class JsonText {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

/** A packet of the default namespace, as socket.io-parser defines it. */
interface Packet {
  readonly type: number
  readonly nsp: string
  readonly id?: number
  readonly data?: unknown
}

/**
 * Enables the server to send JsonText. Socket.IO would search each value for binary data and stringify it for each
 * client anew: 150 ms for an item of 1 MiB.
 */
export function encodeAsTheyAre(io: Pick<Server, 'encoder'>): void {
  const encoder = io.encoder as { encode(packet: Packet): unknown[] }
  const encode = encoder.encode.bind(encoder)
  encoder.encode = (packet) => {
    const { type, id = '', data } = packet
    if (!Array.isArray(data) || !data.some((part) => part instanceof JsonText)) return encode(packet)
    const parts = data.map((part) => (part instanceof JsonText ? part.text : JSON.stringify(part)))
    return [`${type}${id}[${parts.join(',')}]`]
  }
}
