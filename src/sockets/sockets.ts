import type { Server as HttpServer, IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { Server } from 'socket.io'
import type { WebSocket } from 'ws'
import * as ws from 'ws'
import type { Principal } from '../access/accounts.ts'
import type { Gate } from '../access/gate.ts'
import { type DomainEvent, isItemEvent, OBJECT_ID } from '../events/event.ts'
import type { Projection, Recorded } from '../events/journal.ts'
import { collectionPath, itemPath } from '../projections/address.ts'
import { boundAnswers, bytesWaiting, type EngineConnection, Stalls, terminate, WAITING_BYTES } from './connection.ts'
import { BoundedWebSocketServer, InParts } from './in-parts.ts'
import type { ClientMessages, ServerMessages, Updated } from './protocol.ts'
import { SocketGate } from './socket-gate.ts'
import { encodeAsTheyAre, serveSubscriptions } from './subscriber.ts'
import { type SubscriptionFigures, Subscriptions, type SubscriptionsOptions } from './subscriptions.ts'
import { dispatchUpgrades, refuse, type Unanswered } from './upgrades.ts'

/** How long a part of a large write waits for slow readers. */
const PATIENCE_MS = 100
/** Highest size of a message from a client. Clients send little more than subscriptions. */
const RECEIVED_BYTES = 16 * 1024
/** How long a Socket.IO client has to authenticate. */
const CONNECT_MS = 5000
/** How often to check for expired tokens and slow clients. */
const LOOK_MS = 500
/** RFC 6455 §7.4.1. */
const POLICY_VIOLATION = 1008
/** IANA's registry of close codes. */
const TRY_AGAIN_LATER = 1013

const UNEXPECTED = { type: 'refused', status: '500 Internal Server Error' } as const

interface SocketData {
  principal: Principal
}

/** Metrics of the sockets. */
export interface SocketFigures extends SubscriptionFigures {
  readonly socketIo: number
  readonly plain: number
  /** Slow clients that were disconnected. */
  readonly dropped: number
}

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

/** Broadcasts events to all clients: Socket.IO, and plain WebSocket at `/ws`. */
export class Sockets implements Projection {
  readonly #io: Server<ClientMessages, ServerMessages, Record<string, never>, SocketData>
  readonly #subscriptions: Subscriptions
  readonly #plain = new BoundedWebSocketServer({
    noServer: true,
    maxPayload: RECEIVED_BYTES,
    clientTracking: true,
  })
  readonly #fanOut = new FanOut(
    () => this.#connections(),
    () => this.#plain.clients,
  )
  readonly #inParts = new InParts({
    tell: (part, hasMore) => this.#tell(part, hasMore),
    pause: () => this.#pause(),
  })
  readonly #plainPrincipals = new WeakMap<WebSocket, Principal>()
  readonly #socketGate: SocketGate
  /** Socket.IO connections that have a socket or are about to get one. */
  readonly #joined = new WeakSet<object>()
  readonly #gate: Gate
  /** Engine.IO connections, also those before the end of their handshake. */
  readonly #connected = new Set<EngineConnection>()
  readonly #looking: NodeJS.Timeout
  readonly #stalls: Stalls
  #hasLooked = false
  #dropped = 0

  constructor(http: HttpServer, options: SocketsOptions) {
    const { gate, isReady, perAddress, corsCredentials, connections, subscriptions } = options
    this.#gate = gate
    this.#stalls = new Stalls(options.stallSeconds * 1000)
    this.#subscriptions = new Subscriptions(subscriptions)
    this.#socketGate = new SocketGate(gate, perAddress, isReady)
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
    encodeAsTheyAre(this.#io)
    this.#io.engine.on('connection', (connection: EngineConnection) => this.#enter(connection))
    this.#io.use((socket, next) => {
      // A second socket of the same connection would receive every event again.
      if (this.#joined.has(socket.conn)) {
        next(new Error('AlreadyConnected'))
        return
      }
      this.#joined.add(socket.conn)
      socket.once('disconnect', () => this.#joined.delete(socket.conn))
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
    })
    this.#io.on('connection', (socket) => serveSubscriptions(socket, this.#subscriptions))
    dispatchUpgrades(http, connections, {
      '/ws': (request, socket, head) => void this.#openPlain(request, socket, head),
    })
    this.#looking = setInterval(() => {
      this.#dropUnauthorized()
      this.#dropSlowReaders()
      this.#dropStalled()
    }, LOOK_MS).unref()
  }

  #enter(connection: EngineConnection): void {
    const leave = this.#socketGate.count(connection.request)
    if (!leave) {
      terminate(connection)
      return
    }
    this.#connected.add(connection)
    connection.once('close', () => {
      this.#connected.delete(connection)
      leave()
    })
    boundAnswers(connection, () => this.#drop(connection))
  }

  #dropStalled(): void {
    for (const connection of this.#connected) {
      const { socket } = connection.transport
      if (socket && this.#stalls.isStalled(socket)) this.#drop(connection)
    }
  }

  #drop(connection: EngineConnection): void {
    this.#dropped++
    terminate(connection)
  }

  async #openPlain(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const opened = await this.#socketGate.admit(request).catch(() => UNEXPECTED)
    const principal = opened.type === 'opened' ? opened.principal : undefined
    if (!principal) {
      refuse(socket, opened.type === 'refused' ? opened.status : '401 Unauthorized')
      return
    }
    this.#plain.handleUpgrade(request, socket, head, (client) => {
      client.on('error', () => client.terminate())
      this.#plainPrincipals.set(client, principal)
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
      if (!this.#gate.isValid(socket.data.principal)) socket.disconnect(true)
    }
  }

  apply(recorded: Recorded): void {
    this.#inParts.give(recorded)
  }

  #tell(recorded: Recorded, hasMore: () => boolean): void | Promise<void> {
    this.#dropSlowReaders()
    const applied = this.#subscriptions.apply(recorded, hasMore)
    if (applied) return applied.then(() => this.#notify(recorded))
    this.#notify(recorded)
  }

  #notify(recorded: Recorded): void {
    if (this.#plain.clients.size === 0 && this.#io.sockets.sockets.size === 0) return
    for (const updated of notificationsOf(recorded)) this.#fanOut.tell(updated)
  }

  /** Waits until all clients have read most of their queue; slow clients are disconnected elsewhere. */
  async #pause(): Promise<void> {
    const until = performance.now() + PATIENCE_MS
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (this.#isBusy() && performance.now() < until) {
      await new Promise<void>((resolve) => setTimeout(resolve, 1))
    }
  }

  #isBusy(): boolean {
    for (const client of this.#plain.clients) if (client.bufferedAmount > WAITING_BYTES / 2) return true
    for (const connection of this.#connected) if (bytesWaiting(connection) > WAITING_BYTES / 2) return true
    return false
  }

  /** Runs once in a turn of the event loop, before more is sent, so that queued data had a chance to leave. */
  #dropSlowReaders(): void {
    if (this.#hasLooked) return
    this.#hasLooked = true
    setImmediate(() => {
      this.#hasLooked = false
    })
    for (const client of this.#plain.clients) {
      if (client.bufferedAmount <= WAITING_BYTES) continue
      this.#dropped++
      client.terminate()
    }
    for (const connection of this.#connected) {
      if (bytesWaiting(connection) > WAITING_BYTES) this.#drop(connection)
    }
  }

  *#connections(): Generator<Tellable> {
    for (const { conn } of this.#io.sockets.sockets.values()) yield conn as unknown as Tellable
  }

  figures(): SocketFigures {
    return {
      socketIo: this.#io.sockets.sockets.size,
      plain: this.#plain.clients.size,
      ...this.#subscriptions.figures(),
      dropped: this.#dropped,
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#looking)
    this.#inParts.end()
    for (const client of this.#plain.clients) client.close(1001, 'The server is ending.')
    this.#plain.close()
    await this.#io.close()
  }
}

/** The part of a Socket.IO connection that FanOut needs. */
interface Tellable {
  write(data: string, options: { readonly wsPreEncodedFrame: readonly Buffer[] }): unknown
}

/** RFC 6455 §5.2. */
const TEXT = { fin: true, opcode: 1, mask: false, readOnly: false, rsv1: false }
/** Separates the packets of a polling payload of Engine.IO; "4" means message. */
const NEXT_PACKET = '\x1e4'

/**
 * Broadcasts events to all clients. The events of one turn of the event loop are encoded and framed once, and sent to
 * each client in one write: with many clients the writes dominate the cost.
 */
class FanOut {
  readonly #socketIo: () => Iterable<Tellable>
  readonly #plain: () => Iterable<WebSocket>
  #texts: string[] = []

  constructor(socketIo: () => Iterable<Tellable>, plain: () => Iterable<WebSocket>) {
    this.#socketIo = socketIo
    this.#plain = plain
  }

  tell(updated: Updated): void {
    if (this.#texts.push(JSON.stringify(updated)) === 1) setImmediate(() => this.#send())
  }

  #send(): void {
    const texts = this.#texts
    this.#texts = []
    let frames: Buffer | undefined
    for (const client of this.#plain()) {
      if (client.readyState !== client.OPEN) continue
      frames ??= framesOf(texts)
      senderOf(client).sendFrame([frames])
    }
    let packets: { readonly data: string; readonly frames: readonly Buffer[] } | undefined
    for (const connection of this.#socketIo()) {
      packets ??= packetsOf(texts)
      connection.write(packets.data, { wsPreEncodedFrame: packets.frames })
    }
  }
}

/** Encoded as Socket.IO does: `frames` for WebSocket, `data` for polling. */
function packetsOf(texts: readonly string[]) {
  const messages = texts.map((text) => `2["updated",${text}]`)
  return { data: messages.join(NEXT_PACKET), frames: [framesOf(messages.map((message) => `4${message}`))] }
}

function framesOf(texts: readonly string[]): Buffer {
  return Buffer.concat(texts.flatMap((text) => Sender.frame(Buffer.from(text), TEXT)))
}

/** Missing in the types of ws; the adapter of Socket.IO uses it as well. */
const { Sender } = ws as unknown as { Sender: { frame(data: Buffer, options: typeof TEXT): Buffer[] } }

function senderOf(client: WebSocket): { sendFrame(list: readonly Buffer[]): void } {
  return (client as unknown as { _sender: { sendFrame(list: readonly Buffer[]): void } })._sender
}

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
}

function* notificationsOf(recorded: Recorded): Generator<Updated> {
  let { position } = recorded
  for (const event of recorded.events) {
    const { collection } = event
    const itemId = isItemEvent(event) && event.id !== OBJECT_ID ? event.id : null
    yield {
      method: METHODS[event.type],
      path: itemId === null ? collectionPath(collection) : itemPath(collection, String(itemId)),
      collection,
      itemId,
      position: position++,
    }
  }
}
