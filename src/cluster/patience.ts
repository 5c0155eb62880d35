import { setTimeout as delay } from 'node:timers/promises'
import { errors } from '@nats-io/transport-node'
import type { Logger } from 'pino'
import { Corruption, JournalMismatch, Locked, Refusal } from '../errors.ts'

const PATIENCE_MS = 60_000
const RETRY_MS = 500

/**
 * Tries again what needs the NATS servers: when all machines start at once they may not be there yet, or not agree
 * yet on who leads. What no waiting mends is thrown at once.
 */
export async function patiently<T>(log: Logger, what: () => Promise<T>): Promise<T> {
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
