import type { Origin } from '../events/journal.ts'
import { Refusal } from '../runtime/errors.ts'
import { type CompletedRequest, type IdempotencyKeys, scopedKeyOf } from './idempotency-keys.ts'

interface PendingRequest {
  readonly request: string
  readonly outcome: Promise<unknown>
}

/** Executes each request with an Idempotency-Key once. */
export class IdempotentRequests {
  readonly #completed: Pick<IdempotencyKeys, 'find'> | undefined
  readonly #now: () => Date
  readonly #pending = new Map<string, PendingRequest>()

  constructor(completed: Pick<IdempotencyKeys, 'find'> | undefined, now: () => Date) {
    this.#completed = completed
    this.#now = now
  }

  /** `repeat` returns the outcome of an earlier execution. */
  run<T>(origin: Origin, execute: () => Promise<T>, repeat: (first: CompletedRequest) => Promise<T>): Promise<T> {
    if (origin.key === undefined) return execute()
    const key = scopedKeyOf(origin)
    const pending = this.#pending.get(key)
    // The same request has an outcome of the same type.
    if (pending) return conflictOf(origin, pending) ?? (pending.outcome as Promise<T>)
    const completed = this.#completed?.find(origin, this.#now())
    if (completed) return conflictOf(origin, completed) ?? repeat(completed)
    const outcome = execute()
    this.#pending.set(key, { request: origin.request ?? '', outcome })
    const done = () => this.#pending.delete(key)
    outcome.then(done, done)
    return outcome
  }
}

function conflictOf(origin: Origin, first: { readonly request: string }): Promise<never> | undefined {
  if (origin.request === first.request) return undefined
  return Promise.reject(
    new Refusal('Unprocessable', 'This Idempotency-Key was used with another request; a new request needs a new key.'),
  )
}
