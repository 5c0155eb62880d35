import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { Random, SEED } from '../support/random.ts'
import { json, startServer } from '../support/server.ts'

const ROUNDS = Number(process.env.DATA_FILE_KILLS ?? 4)
const KEYS = Array.from({ length: 8 }, (_, index) => `k${index}`)

interface Item {
  readonly id: string
  readonly n: number
}
type Data = Readonly<Record<'sent' | 'edited' | 'ballast', readonly Item[]>>

/** Big enough that a kill often comes while the file is written. */
const ballast = Array.from({ length: 4000 }, (_, n) => ({ id: `b${n}`, n, text: 'x'.repeat(200) }))
const FIRST = { edited: [{ id: 'e', n: 0 }], sent: KEYS.map((id) => ({ id, n: 0 })), ballast }

test('killed at any moment while the file is written, it merges exactly the edits that were made', async (t) => {
  const random = new Random(SEED)
  const directory = await temporaryDirectory(t)
  const acknowledged = new Map(KEYS.map((id) => [id, 0]))
  const sent = new Map(acknowledged)
  let edited = 0
  let edits = 0
  let n = 0
  for (let round = 0; round <= ROUNDS; round++) {
    const server = await startServer(t, { directory, data: FIRST })
    const get = async <T>(path: string) => (await (await server.fetch(path)).json()) as T
    await until('it has merged the edit', async () => (await server.fetch('/api/edited')).status === 200)
    const byHand = await get<{ type: string; id?: string; item?: Item }[]>('/events?actor=data-file&collection=edited')
    assert.equal(byHand.length, 2 + edits, `round ${round}`)
    assert.deepEqual(await get('/api/edited'), [{ id: 'e', n: edited }])
    const touched = await get<unknown[]>('/events?actor=data-file&collection=sent&limit=1000')
    assert.equal(touched.length, 1 + KEYS.length, 'an edit that nobody made')
    for (const { id, n: now } of await get<Item[]>('/api/sent')) {
      assert.ok(now >= (acknowledged.get(id) ?? 0) && now <= (sent.get(id) ?? 0), `round ${round}: ${id} is ${now}`)
    }

    const writing = KEYS.map(async (id) => {
      for (;;) {
        sent.set(id, ++n)
        const value = n
        const response = await server.fetch(`/api/sent/${id}`, json('PUT', { n: value })).catch(() => undefined)
        if (response === undefined) return
        assert.equal(response.status, 204)
        acknowledged.set(id, value)
      }
    })
    await sleep(100 + random.integer(900))
    await server.stop('SIGKILL')
    await Promise.all(writing)
    if (random.chance(0.5)) continue
    const data = JSON.parse(await readFile(server.file, 'utf8')) as Data
    edited = ++edits
    await writeFile(server.file, JSON.stringify({ ...data, edited: [{ id: 'e', n: edited }] }))
  }
})
