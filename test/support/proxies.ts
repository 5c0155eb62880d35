import { createServer as createHttpServer, type IncomingMessage, request } from 'node:http'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { once } from './deadline.ts'
import type { Scope } from './directory.ts'

/** A way to a server that can be cut: then nothing comes through, and neither end is told. */
interface Proxy {
  readonly port: number
  cut(): void
  /** New connections come through again; what was cut stays cut. */
  heal(): void
  /** How many connections it has accepted. */
  readonly connections: () => number
}

export async function startProxy(t: Scope, targetPort: number): Promise<Proxy> {
  const sockets = new Set<Socket>()
  let isCut = false
  let connections = 0
  const server = createServer((near) => {
    connections++
    sockets.add(near)
    near.on('error', () => near.destroy())
    if (isCut) {
      near.pause()
      return
    }
    const far = connect(targetPort, '127.0.0.1')
    sockets.add(far)
    const end = (): void => {
      if (isCut) return
      near.destroy()
      far.destroy()
    }
    far.on('error', end)
    for (const [one, other] of [
      [near, far],
      [far, near],
    ] as const) {
      one.on('data', (bytes) => {
        if (!isCut) other.write(bytes)
      })
      one.on('close', end)
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return {
    port: (server.address() as AddressInfo).port,
    connections: () => connections,
    cut() {
      isCut = true
    },
    heal() {
      isCut = false
      for (const socket of sockets) socket.destroy()
      sockets.clear()
    },
  }
}

interface ReverseProxyOptions {
  /** The path below which it serves the target. */
  readonly prefix: string
  /** Whether it leaves the prefix out of what it asks the target for. */
  readonly strips: boolean
  /** Whether it passes WebSockets on; default: true. */
  readonly webSockets?: boolean
  /** Headers that it adds. */
  readonly headers?: Readonly<Record<string, string>>
}

/** An HTTP proxy that serves another server below a path. Returns the address with that path. */
export async function startReverseProxy(t: Scope, target: string, options: ReverseProxyOptions): Promise<string> {
  const { prefix, strips, webSockets = true, headers } = options
  const { hostname, port } = new URL(target)
  const sockets = new Set<Duplex>()
  const ask = (incoming: IncomingMessage) => {
    const { method, url = '', headers: sent } = incoming
    const path = strips ? url.slice(prefix.length) : url
    return request({ hostname, port, method, path, headers: { ...sent, ...headers } })
  }
  const server = createHttpServer((incoming, outgoing) => {
    if (!incoming.url?.startsWith(prefix)) {
      outgoing.writeHead(404).end('not below the prefix')
      return
    }
    const asked = ask(incoming)
    asked.on('response', (answer) => {
      outgoing.writeHead(answer.statusCode ?? 0, answer.rawHeaders)
      answer.pipe(outgoing)
    })
    asked.on('error', () => outgoing.destroy())
    outgoing.on('close', () => asked.destroy())
    incoming.pipe(asked)
  })
  server.on('upgrade', (incoming: IncomingMessage, near: Socket, first: Buffer) => {
    if (!webSockets) return void near.end('HTTP/1.1 404 Not Found\r\n\r\n')
    const asked = ask(incoming)
    near.on('error', () => near.destroy())
    asked.on('upgrade', (answer, far: Socket, early: Buffer) => {
      sockets.add(far)
      far.on('error', () => far.destroy())
      near.write(`HTTP/1.1 101 Switching Protocols\r\n${linesOf(answer.rawHeaders)}\r\n`)
      near.write(early)
      far.write(first)
      far.pipe(near).pipe(far)
      far.on('close', () => near.destroy())
      near.on('close', () => far.destroy())
    })
    asked.on('response', ({ statusCode, statusMessage }) => near.end(`HTTP/1.1 ${statusCode} ${statusMessage}\r\n\r\n`))
    asked.on('error', () => near.destroy())
    asked.end()
  })
  server.on('connection', (socket) => sockets.add(socket))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(async () => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}${prefix}`
}

function linesOf(rawHeaders: readonly string[]): string {
  let lines = ''
  for (let at = 0; at < rawHeaders.length; at += 2) lines += `${rawHeaders[at]}: ${rawHeaders[at + 1]}\r\n`
  return lines
}
