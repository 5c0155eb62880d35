import { setImmediate } from 'node:timers/promises'
import type { Position } from '../events/event.ts'
import type { Journal } from '../events/journal.ts'
import { Corruption } from '../runtime/errors.ts'

/** Checks a journal; reports its progress to `rest` and awaits it. */
export type Verify = (rest: (checked: Position) => Promise<void>) => Promise<void>

/** A running check of the journal. */
export interface VerificationRun {
  /** Progress reports, and finally the result: one JSON text per line. */
  readonly lines: AsyncIterable<string>
  /** Called when the client is no longer interested. */
  stop(): void
}

/** How often to report progress. */
const TELL_MS = 100

/** Runs one check of the journal at a time; requests during a check join it. */
export class Verification {
  readonly #verify: Verify
  readonly #journal: Pick<Journal, 'head'>
  #check: SharedCheck | undefined

  constructor(verify: Verify, journal: Pick<Journal, 'head'>) {
    this.#verify = verify
    this.#journal = journal
  }

  begin(): VerificationRun {
    const check = this.#check ?? this.#start()
    check.readers++
    let isReading = true
    return {
      lines: told(check),
      stop: () => {
        if (isReading) check.readers--
        isReading = false
        if (check.readers === 0 && this.#check === check) this.#check = undefined
      },
    }
  }

  #start(): SharedCheck {
    const { head } = this.#journal
    const check: SharedCheck = { head, position: 0, readers: 0, result: Promise.resolve({}) }
    const over = () => {
      if (this.#check === check) this.#check = undefined
    }
    const verified = this.#verify(async (position) => {
      check.position = Math.min(position, check.head)
      await setImmediate()
      if (check.readers === 0) throw new Error('nobody wants to know any more')
    })
    check.result = resultOf(verified, check)
    check.result.then(over, over)
    this.#check = check
    return check
  }
}

interface SharedCheck {
  readonly head: Position
  /** Everything up to this position is verified. */
  position: Position
  readers: number
  result: Promise<object>
}

async function resultOf(verified: Promise<void>, check: SharedCheck): Promise<object> {
  try {
    await verified
    return { ok: true, position: check.head }
  } catch (error) {
    if (!(error instanceof Corruption)) throw error
    return { ok: false, position: check.position, problem: error.message }
  }
}

async function* told(check: SharedCheck): AsyncGenerator<string> {
  for (;;) {
    yield `${JSON.stringify({ position: check.position, of: check.head })}\n`
    const over = await Promise.race([check.result, new Promise<void>((resolve) => setTimeout(resolve, TELL_MS))])
    if (!over) continue
    yield `${JSON.stringify(over)}\n`
    return
  }
}
