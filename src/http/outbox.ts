/** How long a response waits for further ones at most. */
const GATHER_MS = 1

/**
 * Sends responses together, once all received requests are processed. Sending each by itself would wake its reader
 * every time, which often costs more than the response: GETs take a sixth less with this, pages a fourth.
 */
export function outbox(now: () => number = () => performance.now()): (send: () => void) => void {
  let waiting: (() => void)[] = []
  /** When the first of them was added. */
  let since = 0
  const flush = (): void => {
    const sent = waiting
    waiting = []
    for (const send of sent) send()
  }
  return (send) => {
    if (waiting.push(send) === 1) {
      since = now()
      setImmediate(flush)
    } else if (now() - since > GATHER_MS) flush()
  }
}
