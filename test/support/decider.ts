import assert from 'node:assert/strict'
import type { AcceptedState } from '../../src/collections/overlay.ts'
import { Overlay } from '../../src/collections/overlay.ts'
import type { Command } from '../../src/commands/command.ts'
import { decide, isEvents } from '../../src/commands/decide.ts'
import type { Rules } from '../../src/commands/rules.ts'
import type { DomainEvent, ItemId, Position } from '../../src/events/event.ts'
import { Document } from '../../src/json/document.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { viewsOf, type WithId } from './collections.ts'

export const RULES: Rules = {
  idField: 'id',
  upsertOnPut: false,
  clientIdsOnPost: false,
  itemBytes: 1024 * 1024,
  itemValues: 20_000,
  patchOperations: 1000,
  keyFields: new Map(),
  replacing: new Set(),
  expiry: new Map(),
  horizonMs: () => undefined,
  times: new Map(),
  nowMs: () => Date.parse('2026-01-01T00:00:00Z'),
  received: () => '2026-01-01T00:00:00.000Z',
  latest: new Map(),
  hasSchema: () => false,
  faultsOf: () => [],
}

export function accepted(events: readonly DomainEvent[]): AcceptedState {
  return new Overlay(viewsOf(events).any, events.length)
}

/** The events that a command makes. */
export function eventsOf(command: Command, accepted: AcceptedState, rules: Rules): readonly DomainEvent[] {
  const decision = decide(command, accepted, rules)
  assert.ok(isEvents(decision), 'nothing happened')
  return decision
}

/** Events of the collection "things"; revision and prior are those of an item's first event unless they are named. */
export const begun: DomainEvent = { type: 'CollectionCreated', collection: 'things' }

interface Stamp {
  readonly revision: number
  readonly prior: Position
}

const FIRST: Stamp = { revision: 1, prior: 0 }

export function created(item: WithId, stamp = FIRST): DomainEvent {
  return { type: 'ItemCreated', collection: 'things', id: item.id, ...stamp, item: Document.of(item) }
}

export function replaced(item: WithId, stamp: Stamp): DomainEvent {
  return { type: 'ItemReplaced', collection: 'things', id: item.id, ...stamp, item: Document.of(item) }
}

export function patched(item: WithId, stamp: Stamp): DomainEvent {
  return { type: 'ItemPatched', collection: 'things', id: item.id, ...stamp, item: Document.of(item) }
}

export function reset(nextId: number): DomainEvent {
  return { type: 'IdsReset', collection: 'things', nextId }
}

export function deleted(id: ItemId, stamp: Stamp): DomainEvent {
  return { type: 'ItemDeleted', collection: 'things', id, ...stamp }
}

/** The refusal with which a promise is rejected. */
export async function refusalOf(promise: Promise<unknown>): Promise<Refusal> {
  const error = await promise.then(
    () => undefined,
    (error: unknown) => error,
  )
  assert.ok(error instanceof Refusal, String(error))
  return error
}
