// Which moment the page shows: now, or the one right after an event.
import { address } from './address.js'
import { server } from './server.js'

/** Times of events that were asked for lately. */
const KEPT_TIMES = 500
/** @type {Map<number, Promise<number>>} */
const times = new Map()
let journal = ''

class Moment extends EventTarget {
  /** The position of the last event that is shown; undefined: what comes is shown, too.
   * @type {number | undefined} */
  at

  /** What a query needs to be answered as it was. */
  get query() {
    return this.at === undefined ? '' : `asOf=${this.at}`
  }

  /** @param {number | undefined} at */
  show(at) {
    if (at === this.at) return
    this.at = at
    address.set({ at })
    this.dispatchEvent(new Event('change'))
  }

  /** What the page's address says: a position, or a time. */
  async fromAddress() {
    const asked = address.get('at')
    if (asked === undefined) return this.show(undefined)
    this.show(/^\d+$/.test(asked) ? Number(asked) : await positionAt(asked))
  }
}

export const moment = new Moment()

/**
 * When the event at a position happened, in milliseconds since 1970.
 * @param {number} position
 * @returns {Promise<number>}
 */
export function timeOf(position) {
  if (journal !== server.journal) times.clear()
  journal = server.journal
  const known = times.get(position)
  if (known) return known
  const asked = server.ask(`/events/${position}`).then(({ body }) => Date.parse(body.time))
  times.set(position, asked)
  asked.catch(() => times.delete(position))
  const [oldest] = times.keys()
  if (times.size > KEPT_TIMES && oldest !== undefined) times.delete(oldest)
  return asked
}

/**
 * The position of the last event up to a time.
 * @param {string} time ISO 8601
 */
export async function positionAt(time) {
  const { position } = await server.ask(`/api?asOf=${encodeURIComponent(time)}`)
  return position
}

/**
 * A path with parameters, those that are empty left out.
 * @param {string} path
 * @param {...(string | undefined)} queries
 */
export function withQuery(path, ...queries) {
  const all = queries.filter(Boolean)
  return all.length > 0 ? `${path}?${all.join('&')}` : path
}
