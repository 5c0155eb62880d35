/** Work in short steps: a generator that pauses after each. */
export type Steps<Result> = Generator<undefined, Result>

/** Runs all steps at once, for work that may block the event loop. */
export function atOnce<Result>(steps: Steps<Result>): Result {
  for (;;) {
    const step = steps.next()
    if (step.done) return step.value
  }
}
