/** A JSON list of so many readings. */
export function longListOf(count: number): string {
  return JSON.stringify(
    Array.from({ length: count }, (_, n) => ({ mac: 'F4:A5:74:89:16:57', data: { temperature: n } })),
  )
}
