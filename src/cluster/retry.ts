import { setTimeout as delay } from 'node:timers/promises'
import { errors } from '@nats-io/transport-node'
import type { Logger } from 'pino'
import { Corruption, JournalMismatch, Locked, Refusal } from '../runtime/errors.ts'

const PATIENCE_MS = 60_000
const RETRY_MS = 500

/**
 * Retries an operation that needs the NATS servers, which may still be starting or electing. Errors that waiting cannot
 * fix are thrown at once.
 */
export async function retryWhileUnavailable<T>(log: Logger, what: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS
  for (let tries = 0; ; tries++) {
    try {
      return await what()
    } catch (error) {
      const isFinal = [Corruption, JournalMismatch, Locked, errors.AuthorizationError].some(
        (final) => error instanceof final,
      )
      const { message } = error as Error
      if (isFinal || performance.now() > deadline) {
        throw isFinal && !(error instanceof errors.AuthorizationError)
          ? error
          : new Refusal('Unavailable', `The NATS servers cannot be used: ${message}.`)
      }
      if (tries === 0) log.warn(`the NATS servers cannot be used yet: ${message}`)
      await delay(RETRY_MS)
    }
  }
}
