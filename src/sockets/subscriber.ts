import type { Socket } from 'socket.io'
import type { Change, ClientMessages, ServerMessages, Subscribed } from './protocol.ts'
import { engineConnectionOf, jsonText, queuedBytes, terminate, whenSent } from './socket-io-internals.ts'
import { parseSubscribe } from './subscribe-request.ts'
import type { SubscribeResponse, Subscriber, TextChange } from './subscription.ts'
import { rejectionOf, type Subscriptions } from './subscriptions.ts'

type ClientSocket = Socket<ClientMessages, ServerMessages>

/** A client may queue so many requests, or twice as many as it may have subscriptions if that is more. */
const MOST_QUEUED = 256
/** Ids of subscriptions are numbers. A longer text is not kept in the queue. */
const MOST_DIGITS = 16

interface WaitingRequest {
  readonly serve: () => Promise<void>
  /** Its memory. */
  readonly bytes: number
}

/**
 * Handles `subscribe` and `unsubscribe` of a client one at a time, in order, and pauses while the client is slow. A
 * client that queues too many requests is disconnected, and one whose requests find no memory gets `Busy`.
 */
export function serveSubscriptions(socket: ClientSocket, subscriptions: Subscriptions): void {
  const subscriber = subscriberOf(socket)
  const most = Math.max(MOST_QUEUED, 2 * subscriptions.perClient)
  const requests: WaitingRequest[] = []
  const memory = subscriptions.newMemory()
  const disconnect = (): void => {
    requests.length = 0
    memory.end()
    terminate(engineConnectionOf(socket))
  }
  /** The first request stays in the queue while it is served, so that the next one does not begin a second loop. */
  const serve = async (): Promise<void> => {
    for (let request = requests[0]; request && socket.connected; request = requests[0]) {
      if (subscriber.isSlow()) await new Promise<void>((resolve) => subscriber.whenDrained(resolve))
      memory.count(-request.bytes)
      await request.serve()
      requests.shift()
    }
  }
  const enqueue = (request: () => Promise<void>, bytes = 0): void => {
    if (requests.length >= most) disconnect()
    // A response longer than the longest string of V8 cannot be sent. That must end the socket and not the process.
    else if (requests.push({ serve: request, bytes }) === 1) serve().catch(disconnect)
  }
  socket.on('subscribe', (sent, answer) => {
    if (typeof answer !== 'function') return
    const respond = (response: SubscribeResponse): void => answer(responseAsSent(response))
    try {
      const request = parseSubscribe(sent)
      memory.grow(request.bytes)
      enqueue(() => subscriptions.subscribe(subscriber, request, respond), request.bytes)
    } catch (error) {
      const rejection = rejectionOf(error)
      enqueue(async () => respond(rejection))
    }
  })
  socket.on('unsubscribe', (which, answer) => {
    const sent: unknown = (which as { subscription?: unknown } | null | undefined)?.subscription
    const id = typeof sent === 'string' && sent.length <= MOST_DIGITS ? sent : undefined
    enqueue(async () => {
      const ended = id !== undefined && subscriptions.unsubscribe(subscriber, id)
      if (typeof answer === 'function') answer({ ended })
    })
  })
  socket.once('disconnect', () => {
    requests.length = 0
    memory.end()
    subscriptions.leave(subscriber)
  })
}

/** A client with a longer queue is slow. */
const SLOW_BYTES = 256 * 1024

function subscriberOf(socket: ClientSocket): Subscriber {
  const connection = engineConnectionOf(socket)
  const isSlow = (): boolean => queuedBytes(connection) > SLOW_BYTES
  const waiting: (() => void)[] = []
  const callDrained = (): void => {
    while (waiting.length > 0 && !(socket.connected && isSlow())) waiting.shift()?.()
  }
  connection.on('drain', callDrained)
  const unsent = new Set<() => void>()
  socket.once('disconnect', () => {
    setImmediate(callDrained)
    for (const work of unsent) work()
  })
  return {
    change: (change) => socket.emit('change', changeAsSent(change)),
    lagging: (subscription, position) => socket.emit('lagging', { subscription, position }),
    current: (subscription, position) => socket.emit('current', { subscription, position }),
    isSlow,
    whenDrained(work) {
      waiting.push(work)
      setImmediate(callDrained)
    },
    whenSent(work) {
      unsent.add(work)
      whenSent(connection, () => {
        if (unsent.delete(work)) work()
      })
    },
    drop: () => terminate(connection),
  }
}

function responseAsSent(response: SubscribeResponse): Subscribed {
  if ('error' in response) return response
  const { items, ...others } = response
  return items ? withMember(others, 'items', `[${items.map(({ text }) => text).join(',')}]`) : others
}

function changeAsSent({ text, ...others }: TextChange): Change {
  return text === undefined ? others : withMember(others, 'item', text)
}

/** A message, which has a member already, with a further one, whose value is JSON. */
function withMember<Message>(message: object, name: string, json: string): Message {
  return jsonText(`${JSON.stringify(message).slice(0, -1)},"${name}":${json}}`)
}
