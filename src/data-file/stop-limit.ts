/** How long a clean stop may take for the file. */
const STOP_MS = 5000

/** There is no time for the write before the process ends. */
export class LeftBehind extends Error {}

/** Limits the time for writing the file at a clean stop. */
export class StopLimit {
  readonly #elapsedMs: () => number
  /** Undefined until the server stops. */
  #stopByMs: number | undefined

  constructor(elapsedMs: () => number) {
    this.#elapsedMs = elapsedMs
  }

  begin(): void {
    this.#stopByMs = this.#elapsedMs() + STOP_MS
  }

  /** @throws {LeftBehind} if the server is stopping and does not have this much time left. */
  check(neededMs: number): void {
    if (this.#stopByMs === undefined || this.#elapsedMs() + neededMs <= this.#stopByMs) return
    if (neededMs === 0) throw new LeftBehind(`writing it was given up after ${STOP_MS / 1000} seconds`)
    const takes = Number.isFinite(neededMs) ? `about ${Math.ceil(neededMs / 1000)} seconds` : 'nobody knows how long'
    throw new LeftBehind(`writing it takes ${takes}`)
  }
}
