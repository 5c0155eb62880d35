/** A clock that is moved by hand. */
export function clock(begin = '2026-11-20T12:00:00.000Z') {
  let ms = Date.parse(begin)
  return {
    now: () => new Date(ms),
    elapsedMs: () => ms,
    pass: (passed: number) => {
      ms += passed
    },
  }
}
