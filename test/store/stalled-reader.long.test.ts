import assert from 'node:assert/strict'
import { statSync } from 'node:fs'
import { Agent, type IncomingMessage, request } from 'node:http'
import { join } from 'node:path'
import { test } from 'node:test'
import { once, within } from '../support/deadline.ts'
import { ofOneServer, type RunningProgram, startProgram } from '../support/server.ts'

const ITEMS = 2500
const BYTES = 12_000
const ROUNDS = 6
const WRITERS = 16
const FLAGS = ['--Limits.StallSeconds', '600', '--Journal.SegmentBytes', '16000000']

/** Asks for something large, and reads nothing of the answer yet. */
async function ask(url: string, path: string): Promise<IncomingMessage> {
  const asked = request(url + path, { agent: false, headers: { Accept: 'application/json' } }).end()
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  assert.equal(answer.statusCode, 200)
  return answer.pause()
}

async function read(answer: IncomingMessage): Promise<string> {
  return Buffer.concat(await within('the end of a response', answer.toArray())).toString()
}

async function changeAll(server: RunningProgram, agent: Agent, n: number): Promise<void> {
  const keys = Array.from({ length: ITEMS }, (_, key) => key)
  const body = JSON.stringify({ n, text: 'x'.repeat(BYTES) })
  const headers = { 'Content-Type': 'application/json' }
  const writer = async (): Promise<void> => {
    for (let key = keys.pop(); key !== undefined; key = keys.pop()) {
      const asked = request(`${server.url}/api/a/${key}`, { agent, method: 'PUT', headers }).end(body)
      const [answer] = (await once(asked, 'response')) as [IncomingMessage]
      assert.equal(answer.statusCode, 204)
      answer.resume()
      await once(answer, 'end')
    }
  }
  await Promise.all(Array.from({ length: WRITERS }, writer))
}

test('clients that do not read large responses do not make the store grow while all items change repeatedly', {
  skip: ofOneServer('it is about the store of one process'),
}, async (t) => {
  const a = Array.from({ length: ITEMS }, (_, id) => ({ id, n: 0, text: 'x'.repeat(BYTES) }))
  const server = await startProgram(t, { flags: FLAGS, data: { a } })
  const agent = new Agent({ keepAlive: true })
  t.after(() => agent.destroy())
  const bytes = (): number => statSync(join(server.directory, 'db.journal/store/store.mdb')).size
  await changeAll(server, agent, 1)
  const stalled = [
    await ask(server.url, `/api/a?take=${ITEMS}`),
    await ask(server.url, `/api/a?take=${ITEMS}&sort=-id`),
    await ask(server.url, `/events?from=1&limit=${ITEMS}`),
  ]
  const sizes: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    await changeAll(server, agent, 2 + round)
    sizes.push(bytes())
  }
  const [half, end] = [sizes[ROUNDS / 2 - 1] as number, sizes.at(-1) as number]
  t.diagnostic(`MiB of the store after each round: ${sizes.map((size) => Math.round(size / 2 ** 20)).join(', ')}`)
  // If the store kept what was replaced, it would grow by three times all items in three rounds. What it may keep at a time,
  // as for a data file that is being written, is all items at most.
  assert.ok(end - half < ITEMS * BYTES, `${half} bytes after half of the rounds, ${end} after all`)
  const [page, sorted, events] = await Promise.all(stalled.map(read))
  for (const text of [page, sorted]) {
    const items = JSON.parse(text as string) as { n: number }[]
    assert.equal(items.length, ITEMS)
    assert.ok(items.every(({ n }) => n === 1))
  }
  assert.ok((JSON.parse(events as string) as unknown[]).length > 0)
  assert.equal(await server.stop(), 0, server.stderr())
})
