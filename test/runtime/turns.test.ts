import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as nextTick } from 'node:timers/promises'
import { Refusal } from '../../src/runtime/errors.ts'
import { type Asker, Turns } from '../../src/runtime/turns.ts'

/** A clock that each item of a work advances by a millisecond, and turns of an event loop that go on when told to. */
class World {
  readonly #loop: (() => void)[] = []
  #time = 0
  readonly turns = new Turns({
    now: () => this.#time,
    later: (turn) => this.later(turn),
  })
  /** The names of the works, an entry for each item. */
  readonly items: string[] = []
  /** The names of the works in the order of their ends. */
  readonly ended: string[] = []
  /** The number of works that have begun and not ended. */
  running = 0

  async run(name: string, items: number, asker?: Asker, fault?: Error): Promise<string> {
    return this.turns.run(async (turn) => {
      this.running++
      try {
        turn.estimatedMs = items
        for (let item = 0; item < items; item++) {
          if (turn.isOver) await turn.next()
          this.items.push(name)
          this.#time++
        }
        if (fault) throw fault
        this.ended.push(name)
        return name
      } finally {
        this.running--
      }
    }, asker)
  }

  /** A work that takes some time and does not pause. */
  async runFor<Result>(ms: number, work: () => Result): Promise<Result> {
    return this.turns.runWhole(() => {
      this.#time += ms
      return work()
    })
  }

  /** Calls back in the next turn of the event loop. */
  later(callback: () => void): void {
    this.#loop.push(callback)
  }

  /** A turn of the event loop. False if nothing was waiting for it. */
  async turn(): Promise<boolean> {
    await nextTick()
    const callbacks = this.#loop.splice(0)
    for (const callback of callbacks) {
      callback()
      await nextTick()
    }
    return callbacks.length > 0
  }

  async end(): Promise<void> {
    while (await this.turn());
  }
}

/** How often consecutive entries differ. */
function changesOf(names: readonly string[]): number {
  return names.filter((name, index) => index > 0 && name !== names[index - 1]).length
}

test('works of the same length are done one after the other, in the order of their arrival', async () => {
  const world = new World()
  const names = Array.from({ length: 30 }, (_, index) => `work ${index}`)
  const all = Promise.all(names.map((name) => world.run(name, 50)))
  await world.end()
  assert.deepEqual(await all, names)
  assert.deepEqual(world.ended, names)
  // Each interrupts another when it begins, and later continues until its end.
  assert.ok(changesOf(world.items) < 3 * names.length, `${changesOf(world.items)} changes from one work to another`)
})

test('half of the turns go to the shortest of the works that wait, and half to the first that came', async () => {
  const world = new World()
  const all = Promise.all(['80', '20', '60', '40'].map((length) => world.run(length, Number(length))))
  await world.end()
  await all
  assert.deepEqual(world.ended, ['20', '40', '80', '60'])
})

test('a short work passes all longer ones, however many came before', async () => {
  const world = new World()
  const long = Promise.all(Array.from({ length: 20 }, (_, index) => world.run(`long ${index}`, 200)))
  for (let turn = 0; turn < 400; turn++) await world.turn()
  const before = world.ended.length
  assert.ok(before > 5)
  const short = world.run('short', 40)
  while (!world.ended.includes('short')) assert.ok(await world.turn())
  assert.ok(world.ended.length - before <= 2, `${world.ended.length - before} works ended until then`)
  await world.end()
  await Promise.all([long, short])
})

test('a long work is not passed for ever by shorter ones that come after it', async () => {
  const world = new World()
  const all = [world.run('long', 200)]
  // More come than there is time for.
  for (let index = 0; index < 200; index++) {
    all.push(world.run(`short ${index}`, 20))
    await world.turn()
  }
  assert.ok(world.ended.includes('long'), `${world.ended.length} works ended before the long one`)
  await world.end()
  await Promise.all(all)
})

for (const [what, items] of [
  ['works of the same tick', 20],
  ['short works of the same tick', 3],
] as const) {
  test(`${what} block the event loop for a turn, however many there are`, async () => {
    const world = new World()
    const all = Promise.all(Array.from({ length: 100 }, (_, index) => world.run(`${index}`, items)))
    await nextTick()
    assert.ok(world.items.length < 20, `${world.items.length} items before the first turn of the event loop`)
    for (let turn = 0; turn < 50; turn++) {
      const before = world.items.length
      await world.turn()
      assert.ok(world.items.length - before < 20, `${world.items.length - before} items in a turn of the event loop`)
    }
    await world.end()
    await all
  })
}

test('short work is done at once even during long works', async () => {
  const world = new World()
  const long = Promise.all(Array.from({ length: 20 }, (_, index) => world.run(`${index}`, 500)))
  for (let turn = 0; turn < 50; turn++) await world.turn()
  assert.equal(await world.run('short', 1), 'short')
  await world.end()
  await long
})

test('short work is done soon even after many long works of the same tick', async () => {
  const world = new World()
  const long = Promise.all(Array.from({ length: 30 }, (_, index) => world.run(`${index}`, 500)))
  const short = world.run('short', 1)
  while (!world.ended.includes('short')) assert.ok(await world.turn())
  assert.ok(world.items.length < 200, `${world.items.length} items of ${30 * 500}`)
  await world.end()
  await Promise.all([long, short])
})

test('a failing work rejects, and the others continue', async () => {
  const world = new World()
  const others = Promise.all(Array.from({ length: 20 }, (_, index) => world.run(`${index}`, 20)))
  const failed = assert.rejects(world.run('failing', 20, undefined, new Error('broken')), /broken/)
  await world.end()
  await failed
  assert.equal((await others).length, 20)
  assert.equal(world.running, 0)
})

test('work that fails at once takes its time, so that others are served in between', async () => {
  const world = new World()
  const failed: number[] = []
  for (let index = 0; index < 3; index++) {
    const work = (): never => {
      throw new Error('failed')
    }
    void world.runFor(10, work).catch(() => failed.push(index))
  }
  await nextTick()
  assert.deepEqual(failed, [0])
  await world.turn()
  assert.deepEqual(failed, [0, 1])
  await world.end()
  assert.deepEqual(failed, [0, 1, 2])
})

test('works begin in the order of their arrival, also when one comes as soon as there is time', async () => {
  const world = new World()
  const begun: string[] = []
  const begin = (name: string): void => void world.runFor(10, () => begun.push(name))
  begin('first')
  world.later(() => begin('last'))
  begin('second')
  await world.end()
  assert.deepEqual(begun, ['first', 'second', 'last'])
})

test('an abandoned work is stopped, or not begun, and the others continue', async () => {
  const world = new World()
  let isGone = false
  const gone = Array.from({ length: 20 }, () => world.run('gone', 1000, { isGone: () => isGone }))
  const others = Promise.all(Array.from({ length: 3 }, (_, index) => world.run(`${index}`, 20)))
  const refused = Promise.all(gone.map((one) => assert.rejects(one, { code: 'Invalid', message: /went away/ })))
  await world.turn()
  isGone = true
  await world.end()
  await refused
  assert.equal((await others).length, 3)
  assert.equal(world.running, 0)
  assert.ok(world.items.length < 1000, `${world.items.length} items of ${20 * 1000}`)
})

test('a time limit counts the time that a work runs, and not the time that it waits', async () => {
  const world = new World()
  const limit = { seconds: 2, refusal: () => new Refusal('Unavailable', 'two seconds') }
  const asker = { isGone: () => false, limit }
  const refused = assert.rejects(world.run('over', 5000, asker), { code: 'Unavailable', message: 'two seconds' })
  // Together they take longer than the limit of each.
  const others = Promise.all(Array.from({ length: 5 }, (_, index) => world.run(`within ${index}`, 1500, asker)))
  await world.end()
  await refused
  assert.equal((await others).length, 5)
  const items = world.items.filter((name) => name === 'over').length
  assert.ok(items >= 2000 && items < 2010, `${items} items`)
})
