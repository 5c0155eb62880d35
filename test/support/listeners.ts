import { connect, createServer, type Socket } from 'node:net'
import { io } from 'socket.io-client'
import { WebSocket } from 'ws'
import { once, within } from './deadline.ts'
import type { Scope } from './directory.ts'
import { freePort } from './process.ts'

/** As every client is told of an event. */
export interface Updated {
  readonly method: string
  readonly path: string
  readonly collection: string
  readonly itemId: string | number | null
  readonly position: number
}

/** The notifications of a client so far. */
export interface Listener {
  readonly told: readonly Updated[]
  /** Waits until the client was told of that position, and gives all that it was told. */
  upTo(position: number): Promise<readonly Updated[]>
  /** Calls back the moment the client is told something. */
  onTold(callback: (updated: Updated) => void): void
}

/** Listens with Socket.IO, by WebSocket or by polling. */
export async function socketIo(t: Scope, url: string, transport: 'websocket' | 'polling' = 'websocket') {
  const client = io(url, { transports: [transport], reconnection: false })
  t.after(async () => void client.close())
  const told = listener()
  client.on('updated', told.take)
  await within(
    `a Socket.IO connection by ${transport}`,
    new Promise<void>((resolve, reject) => {
      client.once('connect', resolve)
      client.once('connect_error', reject)
    }),
  )
  return { client, ...told }
}

/** Listens with a plain WebSocket. */
export async function plainSocket(t: Scope, url: string, path = '/ws') {
  const client = new WebSocket(url.replace('http', 'ws') + path)
  t.after(async () => void client.terminate())
  const told = listener()
  client.on('message', (bytes, isBinary) => {
    if (isBinary) throw new Error('a notification is a text frame')
    told.take(JSON.parse(bytes.toString()))
  })
  await once(client, 'open')
  return { client, ...told }
}

/** A connection that asks for an upgrade by hand, and does only what it is told to. */
export async function rawUpgrade(t: Scope, url: string, target: string, protocol = 'websocket'): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  t.after(async () => void socket.destroy())
  socket.on('error', () => {})
  await once(socket, 'connect')
  socket.write(
    `GET ${target} HTTP/1.1\r\nHost: ${hostname}\r\nConnection: Upgrade\r\nUpgrade: ${protocol}\r\n` +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
  )
  return socket
}

function listener() {
  const told: Updated[] = []
  const callbacks: ((updated: Updated) => void)[] = []
  return {
    told,
    take(updated: Updated) {
      told.push(updated)
      for (const callback of callbacks) callback(updated)
    },
    onTold(callback: (updated: Updated) => void) {
      callbacks.push(callback)
    },
    upTo(position: number): Promise<readonly Updated[]> {
      return within(
        `the notification of position ${position}`,
        new Promise((resolve) => {
          const look = (): void => {
            if ((told.at(-1)?.position ?? 0) >= position) resolve(told)
          }
          callbacks.push(look)
          look()
        }),
      )
    },
  }
}

/** Carries connections to a server, until it is cut. */
export interface Line {
  /** Where it begins. */
  readonly url: string
  /** Leads to another server from now on; what is connected stays as it is. */
  aim(url: string): void
  /** Ends every connection, and takes no new one until it is mended. */
  cut(): Promise<void>
  mend(): Promise<void>
  /** Whether what the server sends is left lying. */
  stall(isStalled: boolean): void
  /** How many connections it carries. */
  readonly carried: number
}

export async function lineTo(t: Scope, url: string): Promise<Line> {
  let target = new URL(url)
  let isStalled = false
  const carried = new Map<Socket, Socket>()
  const line = createServer((near) => {
    const far = connect(Number(target.port), target.hostname)
    carried.set(near, far)
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.on('error', () => to.destroy())
      from.on('close', () => {
        to.destroy()
        carried.delete(near)
      })
      from.on('data', (bytes) => {
        if (!to.write(bytes)) from.pause()
      })
      to.on('drain', () => {
        if (!isStalled || from === near) from.resume()
      })
      from.on('end', () => to.end())
    }
    if (isStalled) far.pause()
  })
  const port = await freePort()
  const listen = async (): Promise<void> => {
    line.listen(port, '127.0.0.1')
    await once(line, 'listening')
  }
  const cut = (): Promise<void> => {
    const closed = new Promise<void>((resolve) => line.close(() => resolve()))
    for (const [near, far] of carried) {
      near.destroy()
      far.destroy()
    }
    return within('the end of a line', closed)
  }
  await listen()
  t.after(cut)
  return {
    url: `http://127.0.0.1:${port}`,
    aim(other) {
      target = new URL(other)
    },
    cut,
    mend: listen,
    stall(wanted) {
      isStalled = wanted
      for (const far of carried.values()) {
        if (wanted) far.pause()
        else far.resume()
      }
    },
    get carried() {
      return carried.size
    },
  }
}
