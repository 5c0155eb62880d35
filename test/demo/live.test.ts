import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Command } from '../../src/commands/command.ts'
import { continueReadings } from '../../src/demo/live.ts'
import { readingOf, SENSORS } from '../../src/demo/readings.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { SimulatedClock } from '../support/clock.ts'

const PRESENT = { ms: Date.parse('2026-11-28T15:20:30.400Z'), zoneMinutes: 120 }

interface Written {
  readonly mac: string
  readonly timestamp: string
}

/** Lets an hour and a bit pass. `write` is called with each reading. */
async function anHour(write: (reading: Written) => Promise<unknown>): Promise<number> {
  const clock = new SimulatedClock()
  let ends = 0
  continueReadings({
    present: PRESENT,
    now: () => new Date(PRESENT.ms + clock.elapsedMs()),
    schedule: clock.schedule,
    write: (command: Command, actor: string) => {
      assert.equal(actor, 'hub')
      assert.ok(command.type === 'CreateItem' && command.collection === 'sensordatas')
      return write(command.item as unknown as Written)
    },
    ended: () => void ends++,
  })
  await clock.pass(3_700_000)
  assert.equal(clock.waiting, 0)
  return ends
}

test('the live readings are one a second for an hour, of each sensor but the silent one in turn', async () => {
  const written: Written[] = []
  const ends = await anHour(async (reading) => written.push(reading))
  assert.equal(ends, 1)
  assert.equal(written.length, 3600)
  const turn = SENSORS.map(({ mac }) => mac).slice(0, 5)
  for (const [index, reading] of written.entries()) {
    assert.equal(reading.mac, turn[index % 5])
    assert.equal(Date.parse(reading.timestamp), PRESENT.ms + 1000 * (index + 1))
  }
})

test('a live reading that the server cannot take is lost, and the next one follows', async () => {
  let asked = 0
  const ends = await anHour(async () => {
    asked++
    if (asked % 2 === 0) throw new Refusal('DiskFull', 'There is no room.')
  })
  assert.deepEqual([asked, ends], [3600, 1])
})

test('the curves continue from the past into the live readings', () => {
  for (const sensor of SENSORS) {
    const [before, after] = [-1000, 1000].map(
      (ms) => readingOf(sensor, PRESENT.ms + ms, PRESENT).data as { temperature: number },
    )
    assert.ok(before && after && Math.abs(before.temperature - after.temperature) < 0.1, sensor.name)
  }
})
