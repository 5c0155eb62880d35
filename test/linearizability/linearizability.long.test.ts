import assert from 'node:assert/strict'
import { test } from 'node:test'
import { tagOf } from '../../src/json/tag.ts'
import { Random, SEED } from '../support/random.ts'
import { check, describe, type Violation } from './checker.ts'
import { planOf, work } from './clients.ts'
import { faultyDoors, type Mistake } from './faulty-doors.ts'
import { ServerService } from './server-service.ts'
import { type DoorsOf, SimulatedService, turns } from './simulated-service.ts'

const HISTORIES = Number(process.env.LINEARIZABILITY_HISTORIES ?? 50)

interface Checked {
  readonly violation: Violation | undefined
  readonly statuses: readonly (number | undefined)[]
  readonly lives: number
}

/** One history of the engine on a simulated disk. */
async function checkSimulated(seed: number, doorsOf?: DoorsOf, keys = true): Promise<Checked> {
  const random = new Random(seed)
  const service = new SimulatedService(random, doorsOf)
  const plan = planOf(random, { keys, pause: (own) => turns(own.integer(4)) })
  const history = await work(service, random, plan)
  return {
    violation: check(history, () => undefined, tagOf),
    statuses: history.operations.map(({ answer }) => answer?.status),
    lives: service.lives,
  }
}

test('the engine is linearizable through full disks, crashes and power losses', async (t) => {
  const counts = new Map<number | undefined, number>()
  let lives = 0
  for (let seed = SEED; seed < SEED + HISTORIES; seed++) {
    const checked = await checkSimulated(seed)
    if (checked.violation) assert.fail(`SEED=${seed}: ${describe(checked.violation)}`)
    for (const status of checked.statuses) counts.set(status, (counts.get(status) ?? 0) + 1)
    lives += checked.lives
  }
  t.diagnostic(`${HISTORIES} histories, ${lives} starts, answers ${JSON.stringify([...counts])}`)
})

test('the server is linearizable over HTTP, through kills', async (t) => {
  const service = await ServerService.start(t, new Random(SEED))
  const answered = new Map<number, number>()
  for (let seed = SEED; seed < SEED + HISTORIES / 75; seed++) {
    const random = new Random(seed)
    const plan = planOf(random, { prefix: `${seed}-`, pause: (own) => turns(own.integer(4)) })
    service.killAfter(5 + random.integer(plan.operations - 5))
    const history = await work(service, random, plan)
    const violation = check(history, () => undefined, tagOf)
    if (violation) assert.fail(`SEED=${seed}: ${describe(violation)}`)
    for (const { answer } of history.operations) {
      if (answer) answered.set(answer.status, (answered.get(answer.status) ?? 0) + 1)
    }
  }
  t.diagnostic(`answers ${JSON.stringify([...answered])}`)
  assert.deepEqual(
    [...answered.keys()].filter((status) => status >= 500),
    [],
  )
})

/** The largest number of histories in which a mistake must be found. */
const ENOUGH = 300

const MISTAKES: Readonly<Record<Exclude<Mistake, 'none'>, string>> = {
  'answers early': 'answers before the write is durable, and loses it in a crash',
  'reads the accepted': 'lets readers see what is not durable, and is then lost',
  'reads the past': 'lets readers see what was before a write that was answered',
  'compares with the durable': 'compares If-Match with the durable item, not with the accepted one',
  'patches the durable': 'patches the durable item, and so loses the update that is being flushed',
  'creates above the durable': 'creates an item whose creation is being flushed a second time',
  'refuses early': 'refuses because of a write that is being flushed, and the flush fails',
  'forgets a write': 'answers a write that it never stores',
  'refuses what it keeps': 'says of a write which it has stored that nothing was stored',
  'forgets keys': 'takes a retry with the same Idempotency-Key for another request',
}

for (const [mistake, sentence] of Object.entries(MISTAKES) as [Mistake, string][]) {
  test(`a service that ${sentence} is detected`, async (t) => {
    for (let seed = SEED; seed < SEED + ENOUGH; seed++) {
      const { violation } = await checkSimulated(seed, faultyDoors(mistake), mistake === 'forgets keys')
      if (!violation) continue
      t.diagnostic(`by history ${seed - SEED + 1}`)
      return
    }
    assert.fail(`SEED=${SEED}: not found in ${ENOUGH} histories`)
  })
}

test('the unmodified service is not reported', async () => {
  for (let seed = SEED; seed < SEED + HISTORIES; seed++) {
    const { violation } = await checkSimulated(seed, faultyDoors('none'), false)
    if (violation) assert.fail(`SEED=${seed}: ${describe(violation)}`)
  }
})
