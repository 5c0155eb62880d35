import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { compareStore } from '../../src/cli/store.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { Random, SEED } from '../support/random.ts'
import { json, type RunningProgram, startProgram } from '../support/server.ts'

const KILLS = Number(process.env.EXPIRY_KILLS ?? 5)
const KEEP_MS = 3000
const BATCH = 40
const COLLECTIONS = {
  readings: { Time: 'time', Key: ['sensor', 'time'], Indexes: ['sensor,time'], Keep: `${KEEP_MS / 1000}s` },
}
const FLAGS = [
  '--Collections',
  JSON.stringify(COLLECTIONS),
  '--DataFile.Write',
  'never',
  '--Journal.SegmentBytes',
  '200000',
]

interface Reading {
  readonly id: number
  readonly time: number
}

/** Readings that were acknowledged, and those that the server did not have any more at some moment. */
class Acknowledged {
  readonly times = new Map<number, number>()
  readonly gone = new Set<number>()
  sent = 0

  /** Sends readings of now until the server does not answer any more. */
  async send(server: RunningProgram): Promise<void> {
    for (;;) {
      const items = Array.from({ length: BATCH }, (_, sensor) => ({ sensor, time: Date.now() }))
      this.sent++
      const ids = await server
        .fetch('/api/readings', json('POST', items))
        .then(async (response) => ((await response.json()) as { readonly ids: readonly number[] }).ids)
        .catch(() => undefined)
      if (!ids) return
      for (const [index, id] of ids.entries()) this.times.set(id, items[index]?.time as number)
      await sleep(1)
    }
  }

  async check(server: RunningProgram): Promise<void> {
    // Others may be acknowledged before the response arrives.
    const times = [...this.times]
    const response = await server.fetch('/api/readings?all=true')
    const now = Date.now()
    const present = new Map(((await response.json()) as readonly Reading[]).map((item) => [item.id, item]))
    for (const [id, time] of times) {
      const item = present.get(id)
      if (this.gone.has(id)) assert.equal(item, undefined, `${id} came back`)
      else if (item) assert.equal(item.time, time)
      else {
        assert.ok(time < now - KEEP_MS, `${id} was lost ${now - time} ms after its time`)
        this.gone.add(id)
      }
    }
  }
}

test('killed at any moment while readings expire: nothing acknowledged is lost, and nothing comes back', async (t) => {
  const random = new Random(SEED)
  const directory = await temporaryDirectory(t)
  const acknowledged = new Acknowledged()
  for (let done = 0; done < KILLS; done++) {
    const server = await startProgram(t, { directory, flags: FLAGS, data: { readings: [] } })
    await acknowledged.check(server)
    const sending = acknowledged.send(server)
    await sleep(random.integer(1500))
    await server.stop('SIGKILL')
    await sending
  }
  const server = await startProgram(t, { directory, flags: FLAGS })
  await acknowledged.check(server)
  const sending = acknowledged.send(server)
  const first = acknowledged.times.size
  await until('readings have expired', async () => {
    await acknowledged.check(server)
    return acknowledged.gone.size >= first
  })
  assert.equal(await server.stop(), 0)
  await sending
  assert.deepEqual(await compareStore(nodeFiles, join(directory, 'db.journal'), () => {}), [])
  t.diagnostic(
    `${KILLS} kills, ${acknowledged.times.size} acknowledged, ${acknowledged.gone.size} expired: 0 lost, 0 came back`,
  )
})
