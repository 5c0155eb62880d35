import assert from 'node:assert/strict'

/** Asserts that a log that began then has some of the messages, each at most once a minute. */
export function assertOnceAMinute(log: string, beganMs: number, ...messages: readonly string[]): void {
  const most = 1 + Math.floor((performance.now() - beganMs) / 60_000)
  const counts = messages.map((message) => log.split(`"${message}`).length - 1)
  assert.ok(Math.max(...counts) > 0 && Math.max(...counts) <= most, `${counts} of at most ${most}:\n${log}`)
}
