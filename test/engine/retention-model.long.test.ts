import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { compareStore } from '../../src/cli/store.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { Random, SEED } from '../support/random.ts'
import { DAY_MS, HOUR_MS, type House, house, json, READINGS } from '../support/retention.ts'

const STEPS = Number(process.env.RETENTION_STEPS ?? 400)
const KEEP_MS = 2 * DAY_MS
const COLLECTIONS = { readings: { ...READINGS, Keep: '2d' } }
/** Times at which everything is read, to be compared with the past later. */
const REMEMBERED = 25

interface Reading {
  readonly id: number
  readonly sensor: string
  readonly time: string
  readonly value: number
}

interface Moment {
  readonly position: number
  readonly items: string
}

/** Readings as a naive list, and what they were at some moments. */
class Model {
  readonly random = new Random(SEED)
  readonly present = new Map<number, Reading>()
  readonly moments: Moment[] = []
  expired = 0
  rejected = 0

  horizon(server: House): number {
    return server.clock.ms - KEEP_MS
  }

  /** Sends some readings: most of now, some late, some that have expired already. */
  async send(server: House): Promise<void> {
    const { random } = this
    server.clock.ms += random.integer(HOUR_MS)
    const items = Array.from({ length: 1 + random.integer(20) }, () => {
      const lateMs = random.chance(0.2) ? random.integer(3 * DAY_MS) : random.integer(60_000)
      const time = new Date(server.clock.ms - lateMs).toISOString()
      return { sensor: `s${random.integer(5)}`, time, value: random.integer(1000) }
    })
    const response = await server.fetch('/api/readings', {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Prefer: 'handling=lenient, return=representation' },
      body: JSON.stringify(items),
    })
    const results = (await response.json()) as {
      readonly results: readonly { readonly status: string; readonly id?: number }[]
    }
    for (const [index, result] of results.results.entries()) {
      if (result.status === 'created')
        this.present.set(result.id as number, { id: result.id as number, ...(items[index] as Omit<Reading, 'id'>) })
      else if (result.status === 'rejected') this.rejected++
    }
  }

  async change(server: House): Promise<void> {
    const { random } = this
    const ids = [...this.present.keys()]
    if (ids.length === 0) return
    const id = random.pick(ids)
    const before = this.present.get(id) as Reading
    if (random.chance(0.3)) {
      const { status } = await server.fetch(`/api/readings/${id}`, { method: 'DELETE' })
      assert.ok(status === 204 || status === 404, `DELETE ${status}`)
      this.present.delete(id)
      return
    }
    const value = random.integer(1000)
    const { status } = await server.fetch(`/api/readings/${id}`, {
      method: 'PATCH',
      headers: { 'Content-Type': 'application/merge-patch+json' },
      body: JSON.stringify({ value }),
    })
    if (status === 204) this.present.set(id, { ...before, value })
    else assert.equal(status, 404)
  }

  /** Waits until nothing is older than an hour and the horizon, and compares everything. */
  async check(server: House): Promise<void> {
    let items: readonly Reading[] = []
    await until('what is older has expired', async () => {
      items = (await json(server, '/api/readings?limit=10000')) as readonly Reading[]
      return items.every(({ time }) => Date.parse(time) >= this.horizon(server) - HOUR_MS)
    })
    const found = new Map(items.map((item) => [item.id, item]))
    for (const [id, item] of this.present) {
      if (!found.has(id)) {
        assert.ok(Date.parse(item.time) < this.horizon(server), `${id} of ${item.time} has expired`)
        this.present.delete(id)
        this.expired++
      } else assert.deepEqual(found.get(id), item)
    }
    assert.equal(found.size, this.present.size, 'nothing came back')
  }

  async remember(server: House): Promise<void> {
    const response = await server.fetch('/api/readings?limit=10000')
    this.moments.push({ position: Number(response.headers.get('journal-position')), items: await response.text() })
  }

  async checkPast(server: House): Promise<void> {
    const { position, items } = this.random.pick(this.moments)
    const response = await server.fetch(`/api/readings?limit=10000&asOf=${position}`)
    assert.equal(await response.text(), items, `asOf ${position}`)
  }
}

test('random late, corrected, deleted and duplicate readings that expire equal a naive model, now and at any position', async (t) => {
  const model = new Model()
  const directory = await temporaryDirectory(t)
  let server = await house(t, { collections: COLLECTIONS, directory })
  for (let step = 1; step <= STEPS; step++) {
    await model.send(server)
    for (let count = model.random.integer(3); count > 0; count--) await model.change(server)
    if (step % 10 === 0) await model.check(server)
    if (step % Math.ceil(STEPS / REMEMBERED) === 0) await model.remember(server)
    if (model.moments.length > 0 && step % 5 === 0) await model.checkPast(server)
    if (!model.random.chance(0.02)) continue
    await server.stop()
    // A store that is built from the journal has no times of blocks, and has not seen the rule.
    if (model.random.chance(0.3)) rmSync(join(directory, 'db.journal', 'store'), { recursive: true })
    server = await house(t, { collections: COLLECTIONS, directory, clock: server.clock })
  }
  await model.check(server)
  await server.stop()
  assert.deepEqual(await compareStore(nodeFiles, join(directory, 'db.journal'), () => {}), [])
  t.diagnostic(`${model.expired} expired, ${model.rejected} rejected, ${model.present.size} left`)
  assert.ok(model.expired > 100 && model.rejected > 10)
})
