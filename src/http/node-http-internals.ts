import { IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/*
 * Undocumented behaviour of node:http, as read in Node 20.20 (lib/_http_server.js, lib/_http_incoming.js) and unchanged
 * in 22 and 24. test/http/internals.test.ts fails if another version of Node changes it.
 */

/**
 * Replaces the listeners of an event, and returns a function that calls them. Node's HTTP server and Socket.IO begin to
 * serve connections and requests by listeners, before which there is no hook that may hold one back.
 */
export function intercept<Parameters extends unknown[]>(
  http: Server,
  name: 'connection' | 'request',
): (...parameters: Parameters) => void {
  const listeners = http.listeners(name) as ((...parameters: Parameters) => void)[]
  http.removeAllListeners(name)
  return (...parameters) => {
    for (const listener of listeners) listener.apply(http, parameters)
  }
}

/**
 * A client that closes its side after its request still gets the response. Node would destroy the connection; the
 * option `allowHalfOpen` of `net` is always set for HTTP servers and changes nothing.
 */
export function allowHalfOpen(http: Server): void {
  ;(http as { httpAllowHalfOpen?: boolean }).httpAllowHalfOpen = true
}

/** The connections that Node's parser reads, and those of them that have a request or a response to it. */
interface ParsedConnections {
  all(): Iterable<Socket>
  busy(): Iterable<Socket>
}

/**
 * Corrects `closeIdleConnections`, which `close` calls as well. Node's own function knows which connections are receiving
 * a request. But it destroys also those whose responses are not sent yet, whose `destroy` does nothing meanwhile, and
 * leaves those that have sent nothing.
 */
export function correctIdleConnections(http: Server, connections: ParsedConnections): void {
  const closeIdleConnections = http.closeIdleConnections.bind(http)
  http.closeIdleConnections = () => {
    const busy = [...connections.busy()]
    for (const socket of busy) socket.destroy = () => socket
    closeIdleConnections()
    for (const socket of busy) delete (socket as Partial<Socket>).destroy
    for (const socket of connections.all()) if (socket.bytesRead === 0) socket.destroy()
  }
}

/** Discards what a connection receives. Node has no way to take a connection from its parser before the end of a request. */
export function stopParsing(socket: Socket): void {
  socket.removeAllListeners('data').on('data', () => {})
}

/** Node calls `destroySoon` after the last response. It would close also the receiving side, which resets the connection. */
export function closeAfterLastResponse(socket: Socket, close: () => void): void {
  socket.destroySoon = close
}

/** Calls back when a reader asks for the body for the first time. A listener of `resume` would miss other ways to read. */
export function beforeFirstRead(request: IncomingMessage, callback: () => void): void {
  request._read = (size) => {
    request._read = IncomingMessage.prototype._read
    callback()
    request._read(size)
  }
}

/** Node would close the connection after each response without a `100 Continue` before it. */
export function allowNoContinue(response: ServerResponse): void {
  ;(response as { _expect_continue?: boolean })._expect_continue = false
}
