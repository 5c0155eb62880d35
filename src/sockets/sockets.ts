import type { Server as HttpServer, IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { Server, type Socket } from 'socket.io'
import type { WebSocket } from 'ws'
import type { Principal } from '../access/accounts.ts'
import type { Gate } from '../access/gate.ts'
import { type DomainEvent, isItemEvent, OBJECT_ID, type Position } from '../events/event.ts'
import { isLarge, lastPosition, type Projection, positioned, type Recorded, slice } from '../events/journal.ts'
import { collectionPath, itemPath } from '../projections/address.ts'
import type { ClientMessages, ServerMessages, Updated } from './protocol.ts'
import { BoundedWebSocketServer, limitPackets, SlowClients } from './slow-clients.ts'
import { SocketGate } from './socket-gate.ts'
import {
  type EngineConnection,
  engineConnectionOf,
  insertJsonText,
  queuedBytes,
  terminate,
} from './socket-io-internals.ts'
import { serveSubscriptions } from './subscriber.ts'
import { type SubscriptionFigures, Subscriptions, type SubscriptionsOptions } from './subscriptions.ts'
import { dispatchUpgrades, refuse, type Unanswered } from './upgrades.ts'
import { framesOf, sendFrames } from './ws-internals.ts'

interface SocketsOptions {
  readonly gate: Gate
  /** False while the collections are not loaded. */
  readonly isReady: () => boolean
  /** Highest number of open sockets of one address. */
  readonly perAddress: number
  readonly corsCredentials: boolean
  readonly connections: Unanswered
  /** How long a client may read nothing of a long response. */
  readonly stallSeconds: number
  readonly subscriptions: SubscriptionsOptions
}

/** Highest size of a message from a client. Clients send little more than subscriptions. */
const RECEIVED_BYTES = 16 * 1024
/** How long a Socket.IO client has to authenticate. */
const CONNECT_MS = 5000
/** How often to check for expired tokens and slow clients. */
const CHECK_MS = 500
/** RFC 6455 §7.4.1. */
const [GOING_AWAY, POLICY_VIOLATION] = [1001, 1008]
/** IANA's registry of close codes. */
const TRY_AGAIN_LATER = 1013

const UNEXPECTED = { type: 'refused', status: '500 Internal Server Error' } as const

interface SocketData {
  principal: Principal
}

type ClientSocket = Socket<ClientMessages, ServerMessages, Record<string, never>, SocketData>

/** Serves Socket.IO, and plain WebSocket at `/ws`: notifications to all clients, subscriptions to those of Socket.IO. */
export class Sockets implements Projection {
  readonly #gate: Gate
  readonly #socketGate: SocketGate
  readonly #io: Server<ClientMessages, ServerMessages, Record<string, never>, SocketData>
  readonly #plain = new BoundedWebSocketServer({ noServer: true, maxPayload: RECEIVED_BYTES, clientTracking: true })
  readonly #plainPrincipals = new WeakMap<WebSocket, Principal>()
  /** Socket.IO connections that have a socket or are about to get one. */
  readonly #withSocket = new WeakSet<object>()
  readonly #subscriptions: Subscriptions
  readonly #notifications: Notifications
  readonly #slowClients: SlowClients
  readonly #writes: WritesInParts
  readonly #checking: NodeJS.Timeout

  constructor(http: HttpServer, options: SocketsOptions) {
    const { gate, isReady, perAddress, corsCredentials, connections } = options
    this.#gate = gate
    this.#socketGate = new SocketGate(gate, perAddress, isReady)
    this.#subscriptions = new Subscriptions(options.subscriptions)
    this.#slowClients = new SlowClients(options.stallSeconds * 1000)
    this.#io = new Server(http, {
      serveClient: true,
      maxHttpBufferSize: RECEIVED_BYTES,
      destroyUpgrade: false,
      wsEngine: BoundedWebSocketServer,
      connectTimeout: CONNECT_MS,
      cors: {
        origin: (origin, answer) => answer(null, origin !== undefined && gate.origins.allows(origin, undefined)),
        credentials: corsCredentials,
      },
      allowRequest: (request, answer) => {
        this.#socketGate.admit(request).then(
          (opened) => answer(opened.type === 'refused' ? opened.reason : undefined, opened.type !== 'refused'),
          () => answer('unexpected', false),
        )
      },
    })
    insertJsonText(this.#io)
    this.#io.engine.on('connection', (connection: EngineConnection) => this.#countConnection(connection))
    this.#io.use((socket, next) => this.#authenticate(socket, next))
    this.#io.on('connection', (socket) => serveSubscriptions(socket, this.#subscriptions))
    this.#notifications = new Notifications(this.#plain.clients, this.#io.sockets.sockets)
    this.#writes = new WritesInParts({
      deliver: (part, hasMore) => this.#deliver(part, hasMore),
      pause: () => this.#slowClients.drained(),
    })
    dispatchUpgrades(http, connections, (path) => {
      if (path.startsWith('/socket.io/')) return (...upgrade) => this.#io.engine.handleUpgrade(...upgrade)
      return /^\/ws\/?$/.test(path) ? (...upgrade) => void this.#openPlain(...upgrade) : undefined
    })
    this.#checking = setInterval(() => {
      this.#dropUnauthorized()
      this.#slowClients.dropSlow()
      this.#slowClients.dropStalled()
    }, CHECK_MS).unref()
  }

  /** Counts an Engine.IO connection, which has no socket of Socket.IO yet. */
  #countConnection(connection: EngineConnection): void {
    const leave = this.#socketGate.count(connection.request)
    if (!leave) {
      terminate(connection)
      return
    }
    const reader = {
      queuedBytes: () => queuedBytes(connection),
      webSocket: () => connection.transport.socket,
      terminate: () => terminate(connection),
    }
    const remove = this.#slowClients.add(reader)
    connection.once('close', () => {
      remove()
      leave()
    })
    limitPackets(connection, () => this.#slowClients.drop(reader))
  }

  #authenticate(socket: ClientSocket, next: (error?: Error) => void): void {
    // A second socket of the same connection would receive every event again.
    if (this.#withSocket.has(socket.conn)) {
      next(new Error('AlreadyConnected'))
      return
    }
    this.#withSocket.add(socket.conn)
    socket.once('disconnect', () => this.#withSocket.delete(socket.conn))
    this.#socketGate.authenticate(socket.request, socket.handshake.auth).then((identified) => {
      if ('principal' in identified) {
        socket.data.principal = identified.principal
        next()
        return
      }
      next(new Error(identified.error))
      // Socket.IO would keep the useless connection open.
      setImmediate(() => socket.conn.close())
    }, next)
  }

  async #openPlain(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const opened = await this.#socketGate.admit(request).catch(() => UNEXPECTED)
    const principal = opened.type === 'opened' ? opened.principal : undefined
    if (!principal) {
      refuse(socket, opened.type === 'refused' ? opened.status : '401 Unauthorized')
      return
    }
    this.#plain.handleUpgrade(request, socket, head, (client) => {
      const terminate = (): void => client.terminate()
      client.on('error', terminate)
      this.#plainPrincipals.set(client, principal)
      const remove = this.#slowClients.add({
        queuedBytes: () => client.bufferedAmount,
        webSocket: () => client,
        terminate,
      })
      client.once('close', remove)
      const leave = this.#socketGate.count(request)
      if (leave) client.once('close', leave)
      else client.close(TRY_AGAIN_LATER, 'The address has too many sockets.')
    })
  }

  #dropUnauthorized(): void {
    for (const client of this.#plain.clients) {
      const principal = this.#plainPrincipals.get(client)
      if (principal && !this.#gate.isValid(principal))
        client.close(POLICY_VIOLATION, 'The credentials are no longer valid.')
    }
    for (const socket of this.#io.sockets.sockets.values()) {
      // After a disconnection by Socket.IO itself a client would not reconnect.
      if (!this.#gate.isValid(socket.data.principal)) socket.conn.close()
    }
  }

  /** Notifies the clients of a write. */
  apply(recorded: Recorded): void {
    this.#writes.add(recorded)
  }

  #deliver(part: Recorded, hasMore: () => boolean): void | Promise<void> {
    this.#slowClients.dropSlow()
    const applied = this.#subscriptions.apply(part, hasMore)
    if (applied) return applied.then(() => this.#notifications.add(part))
    this.#notifications.add(part)
  }

  figures(): SocketFigures {
    return {
      socketIo: this.#io.sockets.sockets.size,
      plain: this.#plain.clients.size,
      ...this.#subscriptions.figures(),
      dropped: this.#slowClients.dropped,
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#checking)
    this.#writes.end()
    for (const client of this.#plain.clients) client.close(GOING_AWAY, 'The server is ending.')
    this.#plain.close()
    await this.#io.close()
  }
}

/** Metrics of the sockets. */
export interface SocketFigures extends SubscriptionFigures {
  readonly socketIo: number
  readonly plain: number
  /** Slow clients that were disconnected. */
  readonly dropped: number
}

interface WritesInPartsOptions {
  /**
   * Called with each write once, in order, a large one in parts. The next call waits for the promise. `hasMore` tells
   * whether another part or write is queued.
   */
  readonly deliver: (part: Recorded, hasMore: () => boolean) => void | Promise<void>
  /** Awaited between parts. */
  readonly pause: () => Promise<void>
  /** Events per part. */
  readonly events?: number
  /** Whether to divide a write. */
  readonly isLarge?: (recorded: Recorded) => boolean
}

const EVENTS_PER_PART = 256

/** Delivers writes one after the other, large ones in parts, so that they do not block the event loop. */
export class WritesInParts {
  readonly #options: WritesInPartsOptions
  /** The first one is being delivered. */
  readonly #queue: Recorded[] = []
  #isEnded = false

  constructor(options: WritesInPartsOptions) {
    this.#options = options
  }

  add(recorded: Recorded): void {
    if (this.#queue.push(recorded) === 1) void this.#deliverAll()
  }

  /** Stops delivering. */
  end(): void {
    this.#isEnded = true
  }

  /** A write is delivered at once if it is small and `deliver` is synchronous. */
  async #deliverAll(): Promise<void> {
    const {
      deliver,
      pause,
      events: most = EVENTS_PER_PART,
      isLarge: isDivided = ({ events }) => isLarge(events),
    } = this.#options
    let eventsSincePause = 0
    for (let first = this.#queue[0]; first && !this.#isEnded; first = this.#queue[0]) {
      const last = lastPosition(first)
      const size = isDivided(first) ? most : first.events.length
      for (let from = first.position; from <= last && !this.#isEnded; from += size) {
        const to = Math.min(last, from + size - 1)
        const hasMore = (): boolean => to < last || this.#queue.length > 1
        const delivered = deliver(slice(first, from, to), hasMore)
        if (delivered) await delivered
        eventsSincePause += to - from + 1
        if (eventsSincePause < most || !hasMore()) continue
        await pause()
        eventsSincePause = 0
      }
      this.#queue.shift()
    }
  }
}

/**
 * Notifies all clients of events. The events of one iteration of the event loop are encoded and framed once, and sent to each
 * client in one write: with many clients the writes dominate the cost.
 */
class Notifications {
  readonly #plain: ReadonlySet<WebSocket>
  readonly #socketIo: ReadonlyMap<string, Pick<Socket, 'conn'>>
  #texts: string[] = []

  constructor(plain: ReadonlySet<WebSocket>, socketIo: ReadonlyMap<string, Pick<Socket, 'conn'>>) {
    this.#plain = plain
    this.#socketIo = socketIo
  }

  add(recorded: Recorded): void {
    if (this.#plain.size === 0 && this.#socketIo.size === 0) return
    for (const [position, event] of positioned(recorded)) {
      if (this.#texts.push(JSON.stringify(updatedOf(event, position))) === 1) setImmediate(() => this.#send())
    }
  }

  #send(): void {
    const texts = this.#texts
    this.#texts = []
    if (this.#plain.size > 0) {
      const frames = framesOf(texts)
      for (const client of this.#plain) if (client.readyState === client.OPEN) sendFrames(client, frames)
    }
    if (this.#socketIo.size > 0) {
      // Encoded as Socket.IO does: the frames for WebSocket, the joined packets for polling.
      const packets = texts.map((text) => `2["updated",${text}]`)
      const options = { wsPreEncodedFrame: [framesOf(packets.map((packet) => `4${packet}`))] }
      const payload = packets.join(NEXT_PACKET)
      for (const socket of this.#socketIo.values()) engineConnectionOf(socket).write(payload, options)
    }
  }
}

/** Separates the packets of a polling payload of Engine.IO; "4" means message. */
const NEXT_PACKET = '\x1e4'

const METHODS: Readonly<Record<DomainEvent['type'], Updated['method']>> = {
  ItemCreated: 'POST',
  ItemReplaced: 'PUT',
  ItemPatched: 'PATCH',
  ItemDeleted: 'DELETE',
  ObjectCreated: 'POST',
  ObjectDeleted: 'DELETE',
  CollectionCreated: 'POST',
  CollectionRemoved: 'DELETE',
  CollectionOrdered: 'PUT',
  IdsReset: 'PUT',
  ItemsExpired: 'PUT',
}

function updatedOf(event: DomainEvent, position: Position): Updated {
  const { type, collection } = event
  const itemId = isItemEvent(event) && event.id !== OBJECT_ID ? event.id : null
  const path = itemId === null ? collectionPath(collection) : itemPath(collection, String(itemId))
  return { method: METHODS[type], path, collection, itemId, position }
}
