import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { until } from '../support/deadline.ts'
import { agree, Follower } from '../support/follower.ts'
import { randomFilters, randomItem } from '../support/queries.ts'
import { Random, SEED } from '../support/random.ts'
import { send, sendJson } from '../support/requests.ts'
import { type RunningProgram, startProgram } from '../support/server.ts'

const CLIENTS = Number(process.env.LIST_CLIENTS ?? 20)
const KILLS = Number(process.env.LIST_KILLS ?? 1)
const WRITERS = 4
/** Each change is told to every client, so that more of these need fewer of those. */
const PAUSE_MS = CLIENTS > 100 ? 60 : 15
const COLLECTIONS = ['a', 'b', 'c']
const FLAGS = ['--Api.UpsertOnPut', 'true']

class Scene {
  server: RunningProgram
  isOver = false
  written = 0
  cuts = 0
  readonly #t: TestContext
  readonly #random: Random

  constructor(t: TestContext, server: RunningProgram, random: Random) {
    this.#t = t
    this.server = server
    this.#random = random
    t.after(() => {
      this.isOver = true
    })
  }

  /** Stays connected as well as it can, though it is cut off again and again, until the scene is over. */
  async live(follower: Follower): Promise<void> {
    while (!this.isOver) {
      try {
        await follower.connect(this.#t, this.server.url)
      } catch {
        await sleep(20)
        continue
      }
      await Promise.race([follower.closed, sleep(100 + this.#random.integer(3000))])
      if (this.isOver) return
      this.cuts++
      follower.cut()
    }
  }

  /** Until many clients have been cut off, and there was something to miss; then for some time more. */
  async goOn(moreMs: number): Promise<void> {
    const [cuts, written] = [this.cuts + CLIENTS / 2, this.written + 40]
    await until('cuts and writes', () => this.cuts >= cuts && this.written >= written)
    await sleep(moreMs)
  }

  /** Writes, whoever is listening or not. */
  async write(): Promise<void> {
    while (!this.isOver) {
      const random = this.#random
      const collection = `/api/${random.pick(COLLECTIONS)}`
      const item = `${collection}/${random.integer(40)}`
      const kind = random.integer(8)
      const { url } = this.server
      const sent =
        kind === 0
          ? send(url, 'DELETE', item)
          : kind === 1
            ? sendJson(url, 'POST', collection, randomItem(random))
            : kind === 2
              ? sendJson(url, 'PATCH', item, { n: random.integer(60) })
              : sendJson(url, 'PUT', item, randomItem(random))
      await sent.then(
        ({ status }) => {
          if (status < 300) this.written++
        },
        () => {},
      )
      await sleep(PAUSE_MS)
    }
  }
}

test('live lists stay right while clients are disconnected and the server is killed under load', async (t) => {
  const random = new Random(SEED)
  const data = { a: [{ id: 0, n: 1 }], b: [{ id: 0, n: 2 }], c: [] }
  const scene = new Scene(t, await startProgram(t, { data, flags: FLAGS }), random)
  const followers = Array.from({ length: CLIENTS }, () => {
    return new Follower({ collection: random.pick(COLLECTIONS), query: randomFilters(random) })
  })
  const living = followers.map((follower) => scene.live(follower))
  const writing = Array.from({ length: WRITERS }, () => scene.write())
  for (let kills = 0; kills < KILLS; kills++) {
    await scene.goOn(random.integer(1000))
    await scene.server.stop('SIGKILL')
    scene.server = await startProgram(t, { directory: scene.server.directory, flags: FLAGS })
  }
  await scene.goOn(0)
  scene.isOver = true
  await Promise.all([...writing, ...living])
  const context = `SEED=${SEED}`
  for (const follower of followers) {
    await follower.connect(t, scene.server.url)
    assert.equal(follower.resets, 0, `${context}: what was missed is known`)
  }
  for (const follower of followers) await agree(scene.server, follower, context)
  t.diagnostic(`${CLIENTS} clients cut off ${scene.cuts} times, ${KILLS} kills, ${scene.written} writes`)
})
