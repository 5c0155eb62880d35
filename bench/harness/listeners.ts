import { once } from 'node:events'
import type { Socket } from 'node:net'
import { WebSocket } from 'ws'

/** Many clients of one server, who only count what they are told: the counting must not be what is measured. */
export interface Listeners {
  /** How many messages came to all of them together. */
  readonly count: number
  /** Calls back with each arrival, with how many came in it; one listener at a time. */
  onArrival(callback: ((messages: number) => void) | undefined): void
  /** Resolves when so many have come altogether. */
  until(count: number, atMostMs?: number): Promise<void>
  close(): void
}

const AT_ONCE = 50
const PING = 0x32

/** `/ws`, or Socket.IO by WebSocket alone. */
export async function listeners(url: string, count: number, kind: 'ws' | 'socket.io'): Promise<Listeners> {
  const address = url.replace('http', 'ws') + (kind === 'ws' ? '/ws' : '/socket.io/?EIO=4&transport=websocket')
  const clients: WebSocket[] = []
  const all = new Counted()
  for (let from = 0; from < count; from += AT_ONCE) {
    const few = Array.from(
      { length: Math.min(AT_ONCE, count - from) },
      () => new WebSocket(address, { perMessageDeflate: false }),
    )
    await Promise.all(few.map((client) => (kind === 'ws' ? once(client, 'open') : joined(client))))
    for (const client of few) all.take(client)
    clients.push(...few)
  }
  return Object.assign(all, {
    close() {
      for (const client of clients) client.terminate()
    },
  })
}

/** Engine.IO says hello, the client asks for the default namespace, and gets it. */
async function joined(client: WebSocket): Promise<void> {
  client.once('message', () => client.send('40'))
  await new Promise<void>((resolve, reject) => {
    client.on('message', (bytes) => {
      if (bytes.toString().startsWith('40')) resolve()
    })
    client.once('error', reject)
    client.once('close', () => reject(new Error('the server closed a socket that was to listen')))
  })
}

class Counted {
  count = 0
  #callback: ((messages: number) => void) | undefined

  /** From here on nobody but us reads the socket: of each frame only its head. */
  take(client: WebSocket): void {
    const { _socket: socket } = client as unknown as { readonly _socket: Socket }
    socket.removeAllListeners('data')
    let rest: Buffer = Buffer.alloc(0)
    socket.on('data', (chunk: Buffer) => {
      const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
      let at = 0
      let messages = 0
      for (;;) {
        const size = frameSize(bytes, at)
        if (size === undefined || at + size > bytes.length) break
        if (size === 3 && bytes[at + 2] === PING) client.send('3')
        else messages++
        at += size
      }
      rest = bytes.subarray(at)
      this.count += messages
      this.#callback?.(messages)
    })
    socket.on('error', () => {})
  }

  onArrival(callback: ((messages: number) => void) | undefined): void {
    this.#callback = callback
  }

  until(count: number, atMostMs = 60_000): Promise<void> {
    const deadline = performance.now() + atMostMs
    return new Promise((resolve, reject) => {
      const look = (): void => {
        if (this.count >= count) resolve()
        else if (performance.now() > deadline) reject(new Error(`${this.count} of ${count} messages came`))
        else setTimeout(look, 1)
      }
      look()
    })
  }
}

/** The length of the whole frame at an offset (RFC 6455 §5.2), which a server never masks; undefined while its head is incomplete. */
function frameSize(bytes: Buffer, at: number): number | undefined {
  if (at + 2 > bytes.length) return undefined
  const length = (bytes[at + 1] as number) & 127
  if (length < 126) return 2 + length
  if (length === 126) return at + 4 > bytes.length ? undefined : 4 + bytes.readUInt16BE(at + 2)
  return at + 10 > bytes.length ? undefined : 10 + Number(bytes.readBigUInt64BE(at + 2))
}
