import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Election, type Register, TAKEOVER_AFTER_MS } from '../../src/cluster/election.ts'
import { Random, SEED } from '../support/random.ts'

type Fate = 'well' | 'lost' | 'unheard' | 'late'

/** A register in memory; what happens to the next writes of somebody can be said. */
class SimulatedRegister {
  text: string | undefined
  revision = 0
  #late: (() => void)[] = []

  seenBy(fate: () => Fate): Register {
    return {
      get: async () => {
        if (fate() === 'lost') throw new Error('nobody answers')
        return this.text === undefined ? undefined : { text: this.text, revision: this.revision }
      },
      put: async (text, after) => {
        const write = (): number | undefined => {
          if (this.revision !== after) return undefined
          this.text = text
          this.revision++
          return this.revision
        }
        const what = fate()
        if (what === 'late') this.#late.push(write)
        if (what === 'lost' || what === 'late') throw new Error('nobody answers')
        const written = write()
        if (what === 'unheard') throw new Error('nobody answers')
        return written
      },
    }
  }

  arrive(): void {
    const late = this.#late
    this.#late = []
    for (const write of late) write()
  }
}

function node(register: SimulatedRegister, name: string, clock: { ms: number }, fate: () => Fate = () => 'well') {
  return new Election({ register: register.seenBy(fate), node: name, elapsedMs: () => clock.ms })
}

test('the first candidate is elected, and renews its lease as long as it lives', async () => {
  const register = new SimulatedRegister()
  const clock = { ms: 0 }
  const [a, b] = [node(register, 'a', clock), node(register, 'b', clock)]
  for (let second = 0; second < 30; second++) {
    await a.round()
    await b.round()
    assert.ok(a.isHeld && !b.isHeld)
    assert.deepEqual([a.leader, b.leader], ['a', 'a'])
    clock.ms += 1000
  }
})

test('an expired lease is taken over only after its holder has stopped relying on it', async () => {
  const register = new SimulatedRegister()
  const clock = { ms: 0 }
  const [a, b] = [node(register, 'a', clock), node(register, 'b', clock)]
  await a.round()
  await b.round()
  let heldUntil = 0
  while (!b.isHeld) {
    if (a.isHeld) heldUntil = clock.ms
    clock.ms += 500
    assert.ok(clock.ms < 100_000, 'the other node gets the lease')
    await b.round()
    assert.ok(!(a.isHeld && b.isHeld))
  }
  assert.equal(heldUntil, 3500)
  assert.equal(clock.ms, TAKEOVER_AFTER_MS)
  await a.round()
  assert.equal(a.leader, 'b')
  assert.equal(a.isHeld, false)
})

test('a released lease is available at once', async () => {
  const register = new SimulatedRegister()
  const clock = { ms: 0 }
  const [a, b] = [node(register, 'a', clock), node(register, 'b', clock)]
  await a.round()
  await b.round()
  await a.release()
  assert.ok(!a.isHeld)
  await b.round()
  assert.ok(b.isHeld)
})

test('a node that cannot lead releases its lease and takes none', async () => {
  const register = new SimulatedRegister()
  const clock = { ms: 0 }
  const [a, b] = [node(register, 'a', clock), node(register, 'b', clock)]
  await b.round(false)
  assert.equal(b.leader, undefined)
  await a.round()
  await b.round(false)
  assert.deepEqual([a.leader, b.leader], ['a', 'a'])
  await a.round(false)
  assert.ok(!a.isHeld)
  assert.equal(a.leader, undefined)
  clock.ms += 2 * TAKEOVER_AFTER_MS
  await b.round(false)
  assert.ok(!b.isHeld)
  await b.round()
  await a.round(false)
  assert.deepEqual([a.leader, b.leader], ['b', 'b'])
})

test('a renewal whose acknowledgement was lost still counts', async () => {
  const register = new SimulatedRegister()
  const clock = { ms: 0 }
  const fates: Fate[] = ['well', 'well', 'unheard']
  const a = node(register, 'a', clock, () => fates.shift() ?? 'well')
  await a.round()
  clock.ms += 1000
  await assert.rejects(a.round())
  for (let second = 0; second < 5; second++) {
    clock.ms += 1000
    await a.round()
    assert.equal(a.leader, 'a')
  }
  assert.ok(a.isHeld)
})

test('two nodes never lead at once, whatever messages are lost or late and however the clocks drift', async (t) => {
  const random = new Random(SEED)
  let held = 0
  for (let run = 0; run < 200; run++) {
    const register = new SimulatedRegister()
    const nodes = ['a', 'b', 'c'].map((name) => {
      const clock = { ms: random.integer(100_000) }
      const rate = 0.92 + random.next() * 0.16
      let isCut = false
      const fate = (): Fate => (isCut || random.chance(0.05) ? random.pick(['lost', 'late', 'unheard']) : 'well')
      const election = node(register, name, clock, fate)
      return { election, clock, rate, cut: (cut: boolean) => (isCut = cut), rests: 0 }
    })
    for (let step = 0; step < 300; step++) {
      for (const one of nodes) {
        one.clock.ms += 100 * one.rate
        if (random.chance(0.01)) one.cut(true)
        if (random.chance(0.03)) one.cut(false)
        if (random.chance(0.005)) one.rests = random.integer(100)
        if (one.rests > 0) one.rests--
        else if (random.chance(0.2)) await one.election.round().catch(() => {})
      }
      if (random.chance(0.05)) register.arrive()
      const holders = nodes.filter(({ election }) => election.isHeld)
      assert.ok(holders.length <= 1, `SEED=${SEED}, run ${run}, step ${step}`)
      held += holders.length
    }
  }
  t.diagnostic(`somebody held the lease ${Math.round((held / 60_000) * 100)} % of the time`)
  assert.ok(held > 20_000)
})
