// All that the pages ask of the server goes through here: requests, what it tells by itself, and how the connection is.
import { connect } from '../../client/index.js'
import { removeDrafts } from './drafts.js'
import { authOf, headersOf, session } from './session.js'

/** What the server refused, as it explains it (RFC 9457). */
export class Problem extends Error {
  /**
   * @param {number} status 0 when no answer came
   * @param {any} body
   */
  constructor(status, body) {
    super(
      body?.detail ?? body?.title ?? (status === 0 ? 'The server cannot be reached.' : `The response was ${status}.`),
    )
    this.status = status
    /** @type {{ pointer: string, message: string }[]} */
    this.errors = body?.errors ?? []
  }
}

/**
 * next: the query of the next page, with its `?`
 * @typedef {{ status: number, headers: Headers, body: any, position: number, total: number, isList: boolean, next: string | undefined }} Answer
 * accept: a status that is no error
 * @typedef {{ method?: string, body?: unknown, text?: string, type?: string, headers?: Record<string, string>, accept?: number }} Asked
 * @typedef {{ method: string, path: string, collection: string, itemId: string | number | null, position: number }} Updated
 * @typedef {'connecting' | 'live' | 'gone' | 'refused'} State
 * @typedef {{ schemes: string[], actor: string | null, role: 'reader' | 'writer' | 'admin' | null }} Access
 */

/** Where the server is, without a slash at the end: a proxy may have put it below a path that the server does not know. */
export const base = new URL('../..', import.meta.url).href.replace(/\/$/, '')

const GONE_MS = 1500
const RETRY_MS = 1000
const ROLES = ['reader', 'writer', 'admin']

class Server extends EventTarget {
  /** Keeps the connection, and lists that stay right. */
  client = connect(base, authOf(session.credentials))
  /** @type {State} */
  state = 'connecting'
  /** Of the last event that is known of. */
  head = 0
  /** The journal's UUID. */
  journal = ''
  /** Who one is to the server, and what one may.
   * @type {Access} */
  access = { schemes: [], actor: null, role: null }
  /** The field of the event time of each collection that has one.
   * @type {Readonly<Record<string, string>>} */
  eventTime = {}
  /** Changes that were made while there was no connection, the last time there was none.
   * @type {number | undefined} */
  caughtUp
  /** Whether the server is read-only for every role. */
  isReadOnly = false
  /** The field of an item that is its id. */
  idField = 'id'
  #isOpen = false
  /** The journal and its last position, as they were known when the connection was lost. Other requests may be answered
   * before it is back. Undefined: nothing was known.
   * @type {{ head: number, journal: string } | undefined} */
  #lost
  /** Whether the server could answer all requests when it was asked last. */
  #isAvailable = false

  /** Opens the connection. */
  async start() {
    await this.#retryHealth(() => true)
    this.client = connect(base, { ...authOf(session.credentials), idField: this.idField })
    if (this.access.role === null && this.access.schemes.length > 0) this.#is('refused')
    else this.#connect()
  }

  /** @param {string} role */
  may(role) {
    return !this.isReadOnly && this.access.role !== null && ROLES.indexOf(this.access.role) >= ROLES.indexOf(role)
  }

  /**
   * @param {string} path as the server knows it
   * @param {Asked} [asked]
   * @returns {Promise<Answer>}
   */
  async ask(path, asked) {
    const answer = await answerOf(await this.#fetch(path, asked))
    this.#know(answer.position)
    return answer
  }

  /**
   * Has the browser save what is answered.
   * @param {string} path
   * @param {string} type
   * @param {string} name of the file
   */
  async download(path, type, name) {
    const response = await this.#fetch(path, { headers: { Accept: type } })
    const link = document.createElement('a')
    link.href = URL.createObjectURL(await response.blob())
    link.download = name
    link.click()
    URL.revokeObjectURL(link.href)
  }

  /**
   * @param {string} path
   * @param {Asked} [asked]
   * @returns {Promise<Response>}
   */
  async #fetch(path, { method = 'GET', body, text, type = 'application/json', headers = {}, accept } = {}) {
    const sent = text ?? (body === undefined ? undefined : JSON.stringify(body))
    /** @type {Response} */
    let response
    try {
      response = await fetch(base + path, {
        method,
        // Without this a browser may answer a 401 with a dialog of its own.
        credentials: 'omit',
        cache: 'no-cache',
        headers: {
          Accept: 'application/json',
          ...headersOf(session.credentials),
          ...(sent !== undefined && { 'Content-Type': type }),
          ...headers,
        },
        ...(sent !== undefined && { body: sent }),
      })
    } catch {
      throw new Problem(0, undefined)
    }
    if (response.ok || response.status === accept) return response
    if (response.status === 401) this.#is('refused')
    throw new Problem(response.status, (await answerOf(response)).body)
  }

  /**
   * @param {import('./session.js').Credentials} credentials
   * @returns {Promise<boolean>} whether the server knows them
   */
  async signIn(credentials) {
    const before = session.credentials
    session.use(credentials)
    await this.#readHealth()
    if (this.access.role === null) {
      session.use(before)
      return false
    }
    this.#connect()
    this.dispatchEvent(new Event('again'))
    return true
  }

  async signOut() {
    if (session.credentials?.scheme === 'token') await this.ask('/logout', { method: 'POST' }).catch(() => {})
    session.use(undefined)
    removeDrafts()
    await this.#readHealth().catch(() => {})
    this.#is('refused')
    this.client.authenticate({})
    this.dispatchEvent(new Event('again'))
  }

  #connect() {
    this.#is('connecting')
    this.#lost = undefined
    this.client.authenticate(authOf(session.credentials))
    if (this.#isOpen) return
    this.#isOpen = true
    this.client.onState(({ state }) => {
      if (state === 'connected') void this.#connected()
      else if (state === 'refused') void this.#refused()
      else if (state === 'disconnected' && this.state === 'live') this.#is('gone')
      else if (state === 'disconnected') this.#mayBeGone()
    })
    this.client.onUpdated((updated) => {
      this.#know(updated.position)
      this.dispatchEvent(new CustomEvent('updated', { detail: updated }))
    })
  }

  /** Who signs in is disconnected for a moment, too. */
  #mayBeGone() {
    setTimeout(() => {
      if (this.state === 'connecting' && this.client.state === 'disconnected') this.#is('gone')
    }, GONE_MS)
  }

  async #connected() {
    const [before, wasAvailable, lost] = [this.head, this.#isAvailable, this.#lost]
    if (!(await this.#retryHealth(() => this.client.state === 'connected'))) return
    this.caughtUp = lost?.journal === this.journal ? this.head - lost.head : undefined
    this.#is('live')
    // What came between the page's first request and its connection was not told either.
    if (lost || !wasAvailable || this.head > before) this.dispatchEvent(new Event('again'))
  }

  async #refused() {
    if (await this.#retryHealth(() => this.client.state === 'refused')) this.#is('refused')
  }

  /** The state of the server, also while it takes no writes or is still starting, which it says by 503. */
  async health() {
    const { status, body } = await this.ask('/health', { accept: 503 })
    if (!body?.access) throw new Problem(status, body)
    return body
  }

  /**
   * Reads /health until the server answers it: a busy one responds with 503, a stopped one not at all.
   * @param {() => boolean} isWanted
   * @returns {Promise<boolean>} whether it was answered, and is still wanted
   */
  async #retryHealth(isWanted) {
    while (isWanted()) {
      try {
        await this.#readHealth()
        return isWanted()
      } catch (error) {
        if (error instanceof Problem && error.status === 0) this.#is('gone')
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS))
      }
    }
    return false
  }

  /** Reads what /health says of the client's identity, the settings and the journal. */
  async #readHealth() {
    const body = await this.health()
    this.#isAvailable = body.status !== 'unavailable'
    this.access = body.access
    this.isReadOnly = body.readOnly === true
    this.idField = body.idField
    this.eventTime = body.eventTime ?? {}
    if (body.journal.id !== this.journal) this.head = 0
    this.journal = body.journal.id
    this.#know(body.position)
    this.dispatchEvent(new Event('access'))
  }

  /** @param {number} position */
  #know(position) {
    if (!(position > this.head)) return
    this.head = position
    this.dispatchEvent(new Event('head'))
  }

  /** @param {State} state */
  #is(state) {
    if (state !== 'live') this.caughtUp = undefined
    if (state !== 'live' && this.state === 'live') this.#lost = { head: this.head, journal: this.journal }
    this.state = state
    this.dispatchEvent(new Event('state'))
  }
}

/**
 * @param {Response} response
 * @returns {Promise<Answer>}
 */
async function answerOf(response) {
  const { status, headers } = response
  const isJson = /json/.test(headers.get('Content-Type') ?? '')
  const isList = headers.has('X-Total-Count')
  const body = isJson && status !== 304 ? await response.json().catch(() => undefined) : undefined
  return {
    status,
    headers,
    // With Api.UseResultObject a page of a list is an object.
    body: isList && body && !Array.isArray(body) ? body.results : body,
    position: Number(headers.get('Journal-Position')),
    total: Number(headers.get('X-Total-Count')),
    isList,
    next: /<[^>?]*(\?[^>]*)>; rel="next"/.exec(headers.get('Link') ?? '')?.[1],
  }
}

/**
 * The address of a collection, an item, or what is within it; that of a single object has an empty id, or none.
 * @param {...(string | number)} segments
 */
export function pathOf(...segments) {
  const named = segments.filter((segment) => segment !== '')
  return `/api/${named.map((segment) => encodeURIComponent(segment)).join('/')}`
}

export const server = new Server()
