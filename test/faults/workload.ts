import assert from 'node:assert/strict'
import type { Command } from '../../src/commands/command.ts'
import type { Engine } from '../../src/engine/engine.ts'
import type { DomainEvent, Position } from '../../src/events/event.ts'
import { positioned } from '../../src/events/journal.ts'
import { Views } from '../../src/projections/views.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { snapshotOf } from '../support/collections.ts'
import type { Random } from '../support/random.ts'

/** An answer that a client got: this event is at this position, for ever. */
export interface Acknowledged {
  readonly position: Position
  readonly event: DomainEvent
}

export interface Run {
  readonly acknowledged: Acknowledged[]
  /** The codes of refusals. */
  readonly refused: string[]
}

/**
 * Writes on few items from several clients at once, each waiting for its answer before its next request. What the
 * run has noted so far stays valid when the process ends in the middle.
 */
export async function work(
  engine: Engine,
  random: Random,
  operations: number,
  clients: number,
  run: Run,
): Promise<void> {
  let left = operations
  const client = async (): Promise<void> => {
    while (left-- > 0) {
      try {
        const { position, event } = await engine.handler.handle(command(random), { actor: 'client', requestId: 'r' })
        if (event) run.acknowledged.push({ position, event })
      } catch (error) {
        if (!(error instanceof Refusal)) throw error
        run.refused.push(error.code)
      }
    }
  }
  await Promise.all(Array.from({ length: clients }, client))
}

export function newRun(): Run {
  return { acknowledged: [], refused: [] }
}

function command(random: Random): Command {
  const collection = random.pick(['a', 'b'])
  const key = String(random.integer(6))
  const item = { n: random.integer(1000), text: 'x'.repeat(random.integer(random.chance(0.1) ? 2000 : 60)) }
  switch (random.integer(5)) {
    case 0:
      return { type: 'CreateItem', collection, item }
    case 1:
      return { type: 'DeleteItem', collection, key }
    case 2:
      return { type: 'PatchItem', collection, key, patch: { type: 'merge', document: item } }
    default:
      return { type: 'ReplaceItem', collection, key, item }
  }
}

/** Every acknowledged event is there, unchanged; nothing is there that nobody sent; the views are the fold of it. */
export async function checkKept(engine: Engine, runs: readonly Run[], context: string): Promise<void> {
  const events = new Map<Position, DomainEvent>()
  const folded = Views.temporary()
  let imports = 0
  for await (const recorded of engine.journal.read(1)) {
    for (const [position, event] of positioned(recorded)) events.set(position, event)
    if (recorded.actor === 'data-file') imports++
    folded.replay(recorded)
  }
  folded.replayed()
  assert.deepEqual(
    [...events.keys()],
    Array.from({ length: engine.journal.head }, (_, index) => index + 1),
    context,
  )
  for (const { acknowledged } of runs) {
    for (const { position, event } of acknowledged) {
      assert.deepEqual(events.get(position), event, `${context}: position ${position} was acknowledged`)
    }
  }
  assert.ok(imports <= 1, `${context}: an edit of the data file that nobody made`)
  assert.deepEqual(snapshotOf(engine.views), snapshotOf(folded), context)
}
