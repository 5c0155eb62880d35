import type { Socket } from 'node:net'

/** How long a client may take to read the last response and to close its side. */
const LINGER_MS = 2000

/**
 * Ends a connection whose client may still be sending. Closing it with unread bytes would reset it, and a reset can
 * destroy the response before the client has read it (RFC 9112 §9.6). So only the sending side is closed at first.
 */
export function closeLingering(socket: Socket): void {
  socket.end()
  socket.resume()
  const timer = setTimeout(() => socket.destroy(), LINGER_MS)
  socket.once('close', () => clearTimeout(timer))
}

/** Makes Node end the connection with `closeLingering` after its last response. */
export function lingerAtEnd(socket: Socket): void {
  socket.destroySoon = () => closeLingering(socket)
}
