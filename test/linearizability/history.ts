/** The requests of clients and their responses, in order. */

export type Fields = Readonly<Record<string, string | number | null>>

/** A request on one item. A POST names the item by the id in its body. */
export interface Request {
  readonly method: 'GET' | 'PUT' | 'PATCH' | 'DELETE' | 'POST'
  /** Without the id. */
  readonly body?: Fields
  readonly ifMatch?: string
  readonly ifNoneMatch?: string
  /** The Idempotency-Key. */
  readonly key?: string
}

export interface Answer {
  readonly status: number
  readonly tag?: string
  readonly text?: string
}

/** One request on one item. Times are places in the history, not instants. */
export interface Operation {
  readonly client: number
  readonly item: string
  readonly request: Request
  readonly called: number
  /** Infinity when no answer came: it may have happened, may happen at any later time, or never. */
  readonly answered: number
  readonly answer: Answer | undefined
}

/**
 * The operations of one run. An operation that was answered before another was called came before it; of any two
 * others nobody can tell.
 */
export class History {
  readonly #operations: Operation[] = []
  #clock = 0

  get operations(): readonly Operation[] {
    return this.#operations
  }

  /** Notes a request, and its answer when there is one. */
  async record(
    client: number,
    item: string,
    request: Request,
    ask: () => Promise<Answer | undefined>,
  ): Promise<Answer | undefined> {
    const index = this.call(client, item, request)
    const answer = await ask()
    if (answer) this.answer(index, answer)
    return answer
  }

  /** Returns what `answer` knows the operation by. */
  call(client: number, item: string, request: Request): number {
    const called = ++this.#clock
    return this.#operations.push({ client, item, request, called, answered: Infinity, answer: undefined }) - 1
  }

  answer(index: number, answer: Answer): void {
    const operation = this.#operations[index]
    if (!operation) throw new Error(`there is no operation ${index}`)
    this.#operations[index] = { ...operation, answered: ++this.#clock, answer }
  }
}
