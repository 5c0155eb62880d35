// Who one is, for as long as the tab is open: what one signed in with is kept in the tab's own storage, and nowhere else.

/** Several servers may be below paths of one origin, and share its storage. */
const KEPT = `recollect.session ${new URL('../..', import.meta.url).pathname}`

/**
 * @typedef {{ scheme: 'token', token: string }
 *   | { scheme: 'basic', username: string, password: string }
 *   | { scheme: 'apikey', key: string }} Credentials
 */

/** @type {Credentials | undefined} */
let credentials = read()

/** @returns {Credentials | undefined} */
function read() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT) ?? 'null') ?? undefined
  } catch {
    return undefined
  }
}

export const session = {
  get credentials() {
    return credentials
  },

  /** @param {Credentials | undefined} made */
  use(made) {
    credentials = made
    try {
      if (made) sessionStorage.setItem(KEPT, JSON.stringify(made))
      else sessionStorage.removeItem(KEPT)
    } catch {
      // Without storage one is signed in until the next page.
    }
  },
}

/**
 * The header fields that a request needs.
 * @param {Credentials | undefined} who
 * @returns {Record<string, string>}
 */
export function headersOf(who) {
  switch (who?.scheme) {
    case 'token':
      return { Authorization: `Bearer ${who.token}` }
    case 'basic':
      return { Authorization: `Basic ${base64(`${who.username}:${who.password}`)}` }
    case 'apikey':
      return { 'X-API-KEY': who.key }
    default:
      return {}
  }
}

/**
 * What a socket is opened with.
 * @param {Credentials | undefined} who
 * @returns {Record<string, string>}
 */
export function authOf(who) {
  switch (who?.scheme) {
    case 'token':
      return { token: who.token }
    case 'basic':
      return { username: who.username, password: who.password }
    case 'apikey':
      return { apiKey: who.key }
    default:
      return {}
  }
}

/** @param {string} text */
function base64(text) {
  return btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(''))
}
