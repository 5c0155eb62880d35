import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { isLoopback, PerAddress } from '../access/addresses.ts'
import type { Gate } from '../access/gate.ts'
import type { LimitedLog } from '../runtime/limited-log.ts'
import { intercept } from './node-http-internals.ts'
import { closeLingering, unavailable } from './unread-requests.ts'

interface ConnectionLimitsOptions {
  readonly gate: Gate
  /** Highest number of connections. */
  readonly most: number
  /** Highest number of connections of one address, at most half of all; not of loopback and trusted proxies. */
  readonly perAddress: number
  readonly log: LimitedLog
}

/** Metrics of the connections. */
export interface ConnectionFigures {
  readonly open: number
  readonly refused: number
}

/** How many refused connections at a time are closed gracefully, so that clients can read the reason. */
const LINGERING = 8

/** Limits the connections of a server, and responds to others with 503. Node's `maxConnections` closes them. */
export class ConnectionLimits {
  readonly #options: ConnectionLimitsOptions
  readonly #open = new Set<Socket>()
  readonly #perAddress: PerAddress
  #lingering = 0
  #refused = 0

  constructor(options: ConnectionLimitsOptions) {
    this.#options = options
    this.#perAddress = new PerAddress(Math.min(options.perAddress, Math.ceil(options.most / 2)))
  }

  /** Checks each connection before the existing listeners. */
  guard(http: Server): void {
    const serve = intercept<[Socket]>(http, 'connection')
    http.on('connection', (socket) => this.#admit(socket) && serve(socket))
  }

  figures(): ConnectionFigures {
    return { open: this.#open.size, refused: this.#refused }
  }

  #admit(socket: Socket): boolean {
    // A connection whose upgrade offer was declined is emitted a second time.
    if (this.#open.has(socket)) return true
    const { gate, most } = this.#options
    const { remoteAddress: remote } = socket
    if (this.#open.size >= most) {
      this.#refuse(socket, `The server has ${most} connections open, and takes no more for now.`)
      return false
    }
    const address = gate.addressOf(remote, {})
    const isLimited = remote !== undefined && !isLoopback(remote) && !gate.isTrustedProxy(remote)
    if (isLimited && this.#perAddress.isFull(address)) {
      const held = `This address has ${this.#perAddress.most} connections open already`
      this.#refuse(socket, `${held} (Limits.ConnectionsPerAddress).`)
      return false
    }
    const leave = isLimited ? this.#perAddress.enter(address) : undefined
    this.#open.add(socket)
    socket.once('close', () => {
      this.#open.delete(socket)
      leave?.()
    })
    return true
  }

  #refuse(socket: Socket, detail: string): void {
    this.#refused++
    const facts = { open: this.#open.size, refused: this.#refused, why: detail }
    this.#options.log.warn(facts, 'a connection was refused')
    // A connection reset must not end the process.
    socket.on('error', () => socket.destroy())
    socket.write(unavailable('Too many connections', detail))
    if (this.#lingering >= LINGERING) {
      // Frees the descriptor at once. The kernel already has the response.
      socket.destroy()
      return
    }
    this.#lingering++
    socket.once('close', () => this.#lingering--)
    closeLingering(socket)
  }
}
