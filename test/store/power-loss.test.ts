import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import type { PinnedCommit } from '../../src/store/lmdb.ts'
import { Store } from '../../src/store/store.ts'
import { StoreDirectory } from '../../src/store/store-directory.ts'
import { DEADLINE_MS } from '../support/deadline.ts'
import { type Directory, directoryUntilExit, temporaryDirectory } from '../support/directory.ts'
import { storeLeftIn } from '../support/engine.ts'
import { Medium, replace, type SimulatedSystem, simulateSystem } from '../support/medium.ts'
import { Random, SEED } from '../support/random.ts'

const LOSSES = Number(process.env.STORE_POWER_LOSSES ?? 30)
/** Keys that are written. */
const KEYS = 400
const COMMIT = Buffer.from('commit')
const START = Buffer.alloc(1)
const END = Buffer.from([0xff])
/** Losses of power until the work continues with the store of one of them. */
const LOSSES_OF_ONE = 10

type Rows = Map<string, Buffer>

/** A loss of power at some moment. */
interface Loss {
  readonly moment: string
  readonly left: Directory
  /** The last commit that was the recovery point before; -1 if none was. */
  readonly least: number
}

/** A store with random work on a simulated medium, which loses power at random moments of it. */
class World implements SimulatedSystem {
  readonly #random: Random
  /** A digest of the rows after each commit. */
  readonly #digests = new Map<number, string>([[0, digestOf(new Map())]])
  #rows: Rows = new Map()
  #commit = 0
  #lastCommit = 0
  #least = -1
  #advancing: Promise<void> = Promise.resolve()
  #losses: Loss[] = []
  #probability = 0.02
  #boot = 1
  /** The last process was killed early; another such kill is attributed to the store. */
  #isSuspect = false
  #path = ''
  #medium: Medium
  #directory: StoreDirectory
  #store: Store

  constructor(path: string, random: Random) {
    this.#random = random
    this.#path = path
    this.#medium = new Medium(path, random)
    this.#directory = new StoreDirectory(path)
    this.#store = this.#directory.open()
  }

  /** Works and loses power again and again, `losses` times in all. */
  async run(losses: number): Promise<void> {
    for (let left = losses; left > 0; ) {
      while (this.#losses.length < Math.min(left, LOSSES_OF_ONE)) await this.#step()
      left -= this.#losses.length
      // Checks write as well, and lose no power.
      this.#probability = 0
      await this.#end()
      const taken = this.#losses
      this.#losses = []
      for (const loss of taken) await this.#check(loss, loss === taken.at(-1))
      this.#probability = 0.02
    }
    await this.#end()
  }

  get medium(): Medium {
    return this.#medium
  }

  get boot(): string {
    return `boot ${this.#boot}`
  }

  readonly moment = (moment: string): void => {
    if (!this.#random.chance(this.#probability)) return
    const left = directoryUntilExit()
    this.#medium.lose(left.path)
    this.#losses.push({ moment, left, least: this.#least })
  }

  async #step(): Promise<void> {
    const random = this.#random
    const dice = random.next()
    if (dice < 0.8) this.#write()
    else if (dice < 0.9) await this.#advance()
    else if (dice < 0.95) this.#advancing = this.#advance()
    else if (dice < 0.97) await this.#compact()
    else if (dice < 0.985) await this.#closeAndOpen()
    else await this.#kill()
    this.moment('after a step')
    if (random.chance(0.3)) await new Promise<void>((resolve) => setTimeout(resolve, 0))
  }

  #write(): void {
    const random = this.#random
    const isGivenUp = random.chance(0.04)
    const rows = new Map(this.#rows)
    const changes = random.chance(0.06) ? 60 + random.integer(140) : 1 + random.integer(15)
    const removals = random.chance(0.1) ? 0.8 : 0.2
    try {
      this.#store.transaction(() => {
        for (let change = 0; change < changes; change++) {
          const number = random.integer(KEYS)
          const key = `k${number}${'x'.repeat(number % 23)}`
          if (random.chance(removals)) {
            this.#store.remove(Buffer.from(key))
            rows.delete(key)
          } else {
            const value = someValue(random)
            this.#store.set(Buffer.from(key), value)
            rows.set(key, value)
          }
        }
        this.#store.set(COMMIT, Buffer.from(String(this.#lastCommit + 1)))
        if (isGivenUp) throw new Error('given up')
      })
      this.#commit = ++this.#lastCommit
      this.#rows = rows
      this.#digests.set(this.#commit, digestOf(rows))
    } catch (error) {
      assert.equal((error as Error).message, 'given up')
    }
    this.#medium.look()
  }

  async #advance(): Promise<void> {
    const commit = this.#commit
    assert.equal(await this.#directory.advance(this.#store), true, `SEED=${SEED}`)
    this.#least = Math.max(this.#least, commit)
  }

  async #compact(): Promise<void> {
    const isGivenUp = this.#random.chance(0.2)
    await this.#directory.compactOpen(this.#store, async () => {
      for (let writes = this.#random.integer(4); writes > 0; writes--) this.#write()
      this.moment('during a compaction')
      return !isGivenUp
    })
  }

  async #closeAndOpen(): Promise<void> {
    const commit = this.#commit
    await this.#directory.close(this.#store)
    await this.#advancing
    this.#least = commit
    this.moment('when it is closed')
    this.#open('after it was closed')
  }

  /** The process is killed: what it wrote stays, synced or not. */
  async #kill(): Promise<void> {
    if (this.#isSuspect) await this.#directory.settle(this.#store)
    this.#isSuspect = !this.#isSuspect
    const { path } = storeLeftIn(this.#path)
    const medium = new Medium(path, this.#random, this.#medium)
    const least = this.#least
    await this.#end()
    this.#least = least
    this.#path = path
    this.#medium = medium
    this.#open('after a kill')
  }

  async #end(): Promise<void> {
    const probability = this.#probability
    this.#probability = 0
    await this.#directory.close(this.#store)
    await this.#advancing
    this.#probability = probability
  }

  /** Opens the store, and continues with the commit that it has. */
  #open(moment: string): void {
    this.#directory = new StoreDirectory(this.#path)
    this.#store = this.#directory.open()
    this.#medium.look()
    this.#rows = rowsOf(this.#store)
    this.#commit = commitOf(this.#store)
    const context = `SEED=${SEED}: opened ${moment}, ${this.#directory.whyNot ?? 'and used'}`
    if (this.#least >= 0) assert.equal(this.#directory.whyNot, undefined, context)
    assert.ok(this.#commit >= this.#least, `${context}: commit ${this.#commit}, and ${this.#least} was the point`)
    assert.equal(digestOf(this.#rows), this.#digests.get(this.#commit), `${context}: commit ${this.#commit}`)
  }

  async #check({ moment, left, least }: Loss, goesOn: boolean): Promise<void> {
    this.#path = left.path
    this.#medium = new Medium(left.path, this.#random)
    this.#least = least
    this.#boot++
    this.#open(moment)
    for (let writes = 0; writes < 20; writes++) this.#write()
    await this.#closeAndOpen()
    if (goesOn) return
    await this.#end()
    await left.remove()
  }
}

function someValue(random: Random): Buffer {
  const dice = random.next()
  const bytes = dice < 0.7 ? random.integer(700) : dice < 0.95 ? random.integer(5000) : random.integer(20_000)
  return Buffer.alloc(50 + bytes, `${random.integer(1e9)}-`)
}

function rowsOf(store: Store): Rows {
  const rows = store.rows(START, END).filter(({ key }) => !key.equals(COMMIT))
  return new Map(rows.map(({ key, value }) => [key.toString(), Buffer.from(value)]))
}

function commitOf(store: Store): number {
  return Number(store.newest(COMMIT)?.toString() ?? 0)
}

function digestOf(rows: Rows): string {
  const hash = createHash('sha1')
  for (const key of [...rows.keys()].sort()) hash.update(`${key}\0`).update(rows.get(key) as Buffer)
  return hash.digest('hex')
}

/** Faults that a process with the environment variable STORE_FAULT has, to prove that they are found. */
const FAULTS: Readonly<Record<string, (t: TestContext) => void>> = {
  'the commit of the point is not pinned': (t) => {
    const { pinNewest } = Store.prototype
    replace(t, Store.prototype, 'pinNewest', function (this: Store): PinnedCommit | undefined {
      const pin = pinNewest.call(this)
      pin?.release()
      return pin
    })
  },
  'the point is written before the database was synced': (t) => {
    replace(t, Store.prototype, 'sync', async () => {})
  },
  'the commit of the point is released before the next point is written': (t) => {
    const { pinNewest } = Store.prototype
    let before: PinnedCommit | undefined
    replace(t, Store.prototype, 'pinNewest', function (this: Store): PinnedCommit | undefined {
      before?.release()
      before = pinNewest.call(this)
      return before
    })
  },
}

test('a power loss at any moment, with any part of what was not synced, leaves the store at its recovery point', async (t) => {
  const random = new Random(SEED)
  const world = new World(await temporaryDirectory(t), random)
  await simulateSystem(t, world)
  FAULTS[process.env.STORE_FAULT ?? '']?.(t)
  await world.run(LOSSES)
})

for (const fault of process.env.STORE_FAULT === undefined ? Object.keys(FAULTS) : []) {
  test(`the simulated medium finds it when ${fault}`, () => {
    const { NODE_TEST_CONTEXT: _, ...env } = process.env
    const program = [...process.execArgv, process.argv[1] as string]
    const options = { env: { ...env, STORE_FAULT: fault, STORE_POWER_LOSSES: '200' }, encoding: 'utf8' } as const
    const { status, signal, stdout } = spawnSync(process.execPath, program, { ...options, timeout: DEADLINE_MS })
    // LMDB may crash where pages are mixed.
    assert.ok(status === 1 || signal === 'SIGSEGV' || signal === 'SIGBUS' || signal === 'SIGABRT', stdout)
  })
}
