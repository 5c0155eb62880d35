import { connect, createServer, type Socket } from 'node:net'
import { once, within } from './deadline.ts'
import type { Scope } from './directory.ts'
import { freePort } from './ports.ts'

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
