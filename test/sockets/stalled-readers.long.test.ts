import assert from 'node:assert/strict'
import { Agent, type IncomingMessage, request } from 'node:http'
import { type TestContext, test } from 'node:test'
import { WebSocket } from 'ws'
import { fetch, once, until, within } from '../support/deadline.ts'
import { agree, Follower } from '../support/follower.ts'
import { startProbed } from '../support/probe.ts'

const EVENTS = Number(process.env.STALLED_EVENTS ?? 3000)
/** The memory that all stalled readers together may use. */
const MOST_BYTES = 10 * 1024 * 1024
const WRITERS = 16
const KEYS = 20
/** Long ids, so that what is told of each event is long, and the kernel's buffers are soon full. */
const ID_LENGTH = 1300
const PARTS = 6

class Writer {
  readonly #url: URL
  readonly #agent = new Agent({ keepAlive: true, maxSockets: WRITERS })
  #count = 0

  constructor(t: TestContext, url: string) {
    this.#url = new URL(url)
    t.after(() => this.#agent.destroy())
  }

  /** Writes so many events, and gives the most memory that was in use on the way. */
  async write(events: number, memory: () => Promise<number>): Promise<number> {
    let most = 0
    for (let part = 0; part < PARTS; part++) {
      let left = Math.ceil(events / PARTS)
      const writer = async (): Promise<void> => {
        while (left-- > 0) await this.#put()
      }
      await Promise.all(Array.from({ length: WRITERS }, writer))
      most = Math.max(most, await memory())
    }
    return most
  }

  #put(): Promise<void> {
    const n = this.#count++
    const id = String(n % KEYS).padStart(ID_LENGTH, 'x')
    const { hostname, port } = this.#url
    const options = { agent: this.#agent, hostname, port, method: 'PUT', path: `/api/a/${id}` }
    return within(
      'the response to a PUT',
      new Promise((resolve, reject) => {
        const headers = { 'Content-Type': 'application/json' }
        const sending = request({ ...options, headers }, (answer) => {
          assert.ok((answer.statusCode ?? 500) < 300, `status ${answer.statusCode}`)
          answer.resume().on('end', resolve)
        })
        sending.on('error', reject).end(JSON.stringify({ n }))
      }),
    )
  }
}

/** A stream of events that is read only when it is told so. */
async function openStream(t: TestContext, url: string, path: string, accept: string) {
  const asked = request(`${url}${path}`, { headers: { Accept: accept } }).end()
  t.after(() => asked.destroy())
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  const positions: number[] = []
  let text = ''
  answer.setEncoding('utf8').on('data', (more: string) => {
    text += more
    const lines = text.split('\n')
    text = lines.pop() ?? ''
    for (const line of lines) {
      const json = line.replace(/^data: /, '')
      if (json.startsWith('{')) positions.push((JSON.parse(json) as { position: number }).position)
    }
  })
  return { answer, positions }
}

test('readers that stop reading need no memory; they catch up, or are disconnected', async (t) => {
  const probed = await startProbed(t, {
    data: { a: [] },
    flags: ['--Api.UpsertOnPut', 'true', '--Limits.StallSeconds', '3600'],
  })
  const { url, memory } = probed
  const server = { fetch: (path: string) => fetch(url + path) }
  const writer = new Writer(t, url)
  await writer.write(1000, memory)

  const before = await memory()
  const without = (await writer.write(EVENTS, memory)) - before

  const streams = await Promise.all([
    openStream(t, url, '/events?from=1', 'text/event-stream'),
    openStream(t, url, '/events?from=1&follow=true', 'application/x-ndjson'),
  ])
  const plain = new WebSocket(`${url.replace('http', 'ws')}/ws`)
  t.after(() => plain.terminate())
  await once(plain, 'open')
  // The server may reset the connection of a client that reads nothing.
  plain.on('error', () => {})
  const follower = new Follower({ collection: 'a' })
  await follower.connect(t, url)
  let isDisconnected = false
  void follower.closed.then(() => {
    isDisconnected = true
  })
  await until('the streams have begun', () => streams.every(({ positions }) => positions.length > 0))
  for (const { answer } of streams) answer.pause()
  plain.pause()
  // A client that has no socket any more, because it read no ping for 45 seconds, cannot name it.
  const { raw } = follower
  raw.pause()

  const stalled = await memory()
  const grown = (await writer.write(EVENTS, memory)) - stalled
  const cost = grown - without
  t.diagnostic(`${EVENTS} events: ${kib(without)} KiB without readers that stall, ${kib(grown)} KiB with them`)
  assert.ok(cost < MOST_BYTES, `they cost ${kib(cost)} KiB`)

  const head = Number((await server.fetch('/api')).headers.get('Journal-Position'))
  for (const { answer, positions } of streams) {
    answer.resume()
    await until('a stream has caught up', () => positions.at(-1) === head)
    assert.ok(
      positions.every((position, index) => position === index + 1),
      'it missed nothing',
    )
  }
  plain.resume()
  await until('the end of the plain connection', () => plain.readyState === WebSocket.CLOSED)
  raw.resume()
  await until('it was told that it lags, or disconnected', () => follower.lags > 0 || isDisconnected)
  await follower.connect(t, url)
  await agree(server, follower, 'after it has read again')
})

function kib(bytes: number): number {
  return Math.round(bytes / 1024)
}
