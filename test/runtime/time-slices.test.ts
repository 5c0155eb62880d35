import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Refusal } from '../../src/runtime/errors.ts'
import { Slices, type Steps } from '../../src/runtime/time-slices.ts'
import { turnsUntil } from '../support/deadline.ts'

/** A clock by which every step takes a millisecond, and turns of a loop that go on when they are told to. */
function simulated() {
  const turns: (() => void)[] = []
  let time = 0
  let going = 0
  let most = 0
  let steps = 0
  const slices = new Slices(
    () => time,
    (slice) => turns.push(slice),
  )
  function* work(name: number, length: number): Steps<number> {
    going++
    most = Math.max(most, going)
    try {
      for (let step = 0; step < length; step++) {
        time++
        steps++
        yield
      }
      return name
    } finally {
      going--
    }
  }
  return {
    slices,
    work,
    most: () => most,
    going: () => going,
    steps: () => steps,
    turn(): boolean {
      const slice = turns.shift()
      slice?.()
      return slice !== undefined
    },
  }
}

test('few of many concurrent works run at a time, and all complete', async () => {
  const { slices, work, most, going, turn } = simulated()
  const results = Promise.all(Array.from({ length: 100 }, (_, name) => slices.run(() => work(name, 20))))
  while (turn());
  assert.deepEqual(
    await results,
    Array.from({ length: 100 }, (_, name) => name),
  )
  assert.ok(most() <= 9, `${most()} went on at once`)
  assert.equal(going(), 0)
})

test('concurrent works block the event loop no longer than one slice, however many there are', () => {
  const { slices, work, steps } = simulated()
  for (let name = 0; name < 100; name++) void slices.run(() => work(name, 20))
  assert.ok(steps() < 20, `${steps()} ms were spent before others had a turn`)
})

test('short work is done at once even during long works', () => {
  const { slices, work, turn } = simulated()
  for (let name = 0; name < 20; name++) void slices.run(() => work(name, 50))
  turn()
  assert.equal(
    slices.run(() => work(7, 1)),
    7,
  )
})

test('short work is done soon, even after long works of the same tick', async () => {
  const { slices, work, steps, turn } = simulated()
  const long = Array.from({ length: 30 }, (_, name) => slices.run(() => work(name, 500)))
  let waited: number | undefined
  const short = Promise.resolve(slices.run(() => work(7, 1))).then(() => {
    waited = steps()
  })
  await turnsUntil('the short work', () => {
    turn()
    return waited !== undefined
  })
  await short
  assert.ok(Number(waited) < 200, `${waited} ms of ${30 * 500}`)
  await turnsUntil('the end of the long works', () => !turn())
  assert.equal((await Promise.all(long)).length, 30)
})

test('a failing work rejects, and the others continue', async () => {
  const { slices, work, turn } = simulated()
  function* failing(): Steps<number> {
    yield* work(0, 20)
    throw new Error('broken')
  }
  const others = Array.from({ length: 20 }, (_, name) => slices.run(() => work(name, 20)))
  const failed = assert.rejects(async () => slices.run(failing), /broken/)
  while (turn());
  await failed
  assert.equal((await Promise.all(others)).length, 20)
})

test('an aborted work is stopped, or not started, and the others continue', async () => {
  const { slices, work, going, steps, turn } = simulated()
  let isGone = false
  const asker = { isGone: () => isGone }
  const gone = Array.from({ length: 20 }, (_, name) => Promise.resolve(slices.run(() => work(name, 1000), asker)))
  const others = Array.from({ length: 3 }, (_, name) => slices.run(() => work(name, 20)))
  const refused = Promise.all(gone.map((one) => assert.rejects(one, { code: 'Invalid', message: /went away/ })))
  turn()
  isGone = true
  await turnsUntil('the end of the other works', () => !turn())
  await refused
  assert.equal((await Promise.all(others)).length, 3)
  assert.equal(going(), 0)
  assert.ok(steps() < 1000, `${steps()} steps of ${20 * 1000}`)
})

test('work beyond its time limit is aborted with the error of that limit', async () => {
  const world = simulated()
  const limit = { seconds: 2, refusal: () => new Refusal('Unavailable', 'two seconds') }
  const asked = world.slices.run(() => world.work(1, 5000), { isGone: () => false, limit })
  const refused = assert.rejects(Promise.resolve(asked), { code: 'Unavailable', message: 'two seconds' })
  while (world.turn());
  await refused
  assert.equal(world.going(), 0)
  assert.ok(world.steps() >= 2000 && world.steps() < 2010, `${world.steps()} steps`)
})
