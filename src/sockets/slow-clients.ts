import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { type ServerOptions, type WebSocket, WebSocketServer } from 'ws'
import { type EngineConnection, type EngineTransport, PACKET_BYTES, queuedPackets } from './socket-io-internals.ts'
import { bytesNotAccepted } from './ws-internals.ts'

/** A slow client is disconnected when its queue exceeds this size. */
export const WAITING_BYTES = 1024 * 1024
/** How long a part of a large write waits for slow readers. */
const PATIENCE_MS = 100

/** A connection whose client may read slowly. */
interface Reader {
  queuedBytes(): number
  /** Undefined while it polls. */
  webSocket(): WebSocket | undefined
  terminate(): void
}

/** Disconnects clients that do not read what they are sent, which would fill the memory. */
export class SlowClients {
  /** Clients that were disconnected. */
  dropped = 0
  readonly #stallMs: number
  readonly #now: () => number
  /** How many bytes the kernel has not accepted for each client, and since when. */
  readonly #readers = new Map<Reader, { readonly bytes: number; readonly since: number }>()
  #hasChecked = false

  /** @param stallMs How long a client may read nothing of a long response. */
  constructor(stallMs: number, now: () => number = () => performance.now()) {
    this.#stallMs = stallMs
    this.#now = now
  }

  /** Returns a function that removes the client. */
  add(reader: Reader): () => void {
    this.#readers.set(reader, { bytes: 0, since: this.#now() })
    return () => this.#readers.delete(reader)
  }

  drop(reader: Reader): void {
    this.dropped++
    reader.terminate()
  }

  /** Runs once in an iteration of the event loop, before more is sent, so that queued data had a chance to leave. */
  dropSlow(): void {
    if (this.#hasChecked) return
    this.#hasChecked = true
    setImmediate(() => {
      this.#hasChecked = false
    })
    for (const reader of this.#readers.keys()) if (reader.queuedBytes() > WAITING_BYTES) this.drop(reader)
  }

  /**
   * Disconnects clients that do not read a long response; to be called repeatedly. Such a response has left the queue
   * for the socket, so the queue's limit does not apply, and a client that answers pings could keep it in memory for
   * ever.
   */
  dropStalled(): void {
    const now = this.#now()
    for (const [reader, seen] of this.#readers) {
      const client = reader.webSocket()
      const bytes = client ? bytesNotAccepted(client) : 0
      if (bytes !== seen.bytes) this.#readers.set(reader, { bytes, since: now })
      else if (bytes > WAITING_BYTES && now - seen.since >= this.#stallMs) this.drop(reader)
    }
  }

  /** Waits a short time until all clients have read most of their queue. */
  async drained(): Promise<void> {
    const until = performance.now() + PATIENCE_MS
    const isBusy = (): boolean => [...this.#readers.keys()].some((one) => one.queuedBytes() > WAITING_BYTES / 2)
    await new Promise<void>((resolve) => setImmediate(resolve))
    while (performance.now() < until && isBusy()) await new Promise<void>((resolve) => setTimeout(resolve, 1))
  }
}

/** Calls back when the queue has too many packets. Ends a transport that is probed twice. */
export function limitPackets(connection: EngineConnection, exceeded: () => void): void {
  // Counting packets is cheap; a timer adds up their bytes.
  connection.on('packet', () => {
    if (queuedPackets(connection) > WAITING_BYTES / PACKET_BYTES) exceeded()
  })
  // During an upgrade, answers to probes bypass the connection's queue. A correct client sends one probe.
  const probed = new WeakSet<EngineTransport>()
  connection.on('upgrading', (transport) => {
    if (probed.has(transport)) transport.socket?.terminate()
    probed.add(transport)
  })
}

/** A WebSocket server that does not queue pongs. Engine.IO uses it as its `wsEngine`. */
export class BoundedWebSocketServer extends WebSocketServer {
  constructor(options: ServerOptions) {
    super({ ...options, autoPong: false })
  }

  override handleUpgrade(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    accept: (client: WebSocket, request: IncomingMessage) => void,
  ): void {
    super.handleUpgrade(request, socket, head, (client) => {
      answerPings(client)
      accept(client, request)
    })
  }
}

/**
 * Answers pings, one pong at a time. While a pong waits for a slow client, only the payload of the latest ping is
 * stored (RFC 6455 §5.5.3); ws would queue a pong for every ping.
 */
function answerPings(client: WebSocket): void {
  let isSending = false
  let latest: Buffer | undefined
  const send = (): void => {
    const payload = latest
    if (!payload || client.readyState !== client.OPEN) return
    latest = undefined
    isSending = true
    client.pong(payload, false, () => {
      isSending = false
      send()
    })
  }
  client.on('ping', (payload: Buffer) => {
    // Copied, since the payload is a slice of a larger receive buffer.
    latest = Buffer.from(payload)
    if (!isSending) send()
  })
}
