// Events by their places in a list, the newest first: read when they are looked at, and forgotten when many others were.
import { short } from './format.js'
import { server } from './server.js'

const BLOCK = 100
const KEPT_BLOCKS = 60
const AT_ONCE = 2
const RETRY_MS = 1000

/**
 * @typedef {{ position: number, type: string, collection: string, id: string | number | undefined, revision: number | undefined, time: string, actor: string, text: string }} Line
 * @typedef {{ count: number, at: (index: number) => Line | undefined, indexOf: (position: number) => number, view: (first: number, last: number) => void, isWhole: boolean }} Source
 */

/**
 * All events up to one: the position says where each of them is.
 * @param {number} top the position of the newest
 * @param {() => void} onRead is to show again what is in view, also when the server was too busy for it
 * @returns {Source & { grow: (to: number) => void }}
 */
export function allEvents(top, onRead) {
  /** @type {Map<number, Line[]>} */
  const blocks = new Map()
  /** @type {Set<number>} */
  const reading = new Set()
  /** @type {number[]} */
  let wanted = []
  /** Nothing is asked for a second after the server was too busy. */
  let isResting = false
  return {
    get count() {
      return top
    },
    at,
    indexOf: (position) => top - position,
    view,
    isWhole: true,
    /** Newer events have come. */
    grow(to) {
      top = to
    },
  }

  /** @param {number} index */
  function at(index) {
    const position = top - index
    return blocks.get(blockOf(position))?.[(position - 1) % BLOCK]
  }

  /**
   * @param {number} first
   * @param {number} last
   */
  function view(first, last) {
    wanted = []
    for (let block = blockOf(top - first); block >= Math.max(0, blockOf(top - last)); block--) {
      const known = blocks.get(block)
      const needed = Math.min(BLOCK, top - block * BLOCK)
      if (known) {
        // The latest ones looked at are the last to be forgotten.
        blocks.delete(block)
        blocks.set(block, known)
      }
      if ((known?.length ?? 0) < needed) wanted.push(block)
    }
    next()
  }

  function next() {
    const block = wanted.find((one) => !reading.has(one))
    if (block === undefined || isResting || reading.size >= AT_ONCE) return
    reading.add(block)
    server
      .ask(`/events?from=${block * BLOCK + 1}&limit=${BLOCK}`)
      .then(({ body }) => {
        blocks.set(block, body.map(lineOf))
        for (const oldest of blocks.keys()) {
          if (blocks.size <= KEPT_BLOCKS) break
          blocks.delete(oldest)
        }
        wanted = wanted.filter((one) => one !== block)
        onRead()
      })
      .catch((error) => {
        wanted = wanted.filter((one) => one !== block)
        if (isResting || ![0, 429, 503].includes(error.status)) return
        isResting = true
        setTimeout(() => {
          isResting = false
          onRead()
        }, RETRY_MS)
      })
      .finally(() => {
        reading.delete(block)
        next()
      })
    next()
  }
}

/** @param {number} position */
function blockOf(position) {
  return Math.floor((position - 1) / BLOCK)
}

/**
 * Those that match: as far as one has scrolled, and one line more while there are others.
 * @param {URLSearchParams} filter
 * @param {number | undefined} at the position of the newest that may be among them
 * @param {(more: number) => void} onRead with how many came before those that there were
 * @param {(error: unknown) => void} onError
 * @returns {Source & { look: () => Promise<void> }}
 */
export function someEvents(filter, at, onRead, onError) {
  /** @type {Line[]} */
  const lines = []
  /** @type {string | undefined} */
  let next = `?${new URLSearchParams([...filter, ['order', 'desc'], ['limit', String(BLOCK)], ...(at === undefined ? [] : [['from', String(at)]])])}`
  const beginning = next
  let isReading = false
  let hasRead = false
  /** @type {Source & { look: () => Promise<void> }} */
  const source = {
    get count() {
      return lines.length + (next && hasRead ? 1 : 0)
    },
    at: (index) => lines[index],
    indexOf: (position) => lines.findIndex((line) => line.position === position),
    view(_first, last) {
      if (last >= lines.length - 1) void read()
    },
    get isWhole() {
      return hasRead && !next
    },
    look,
  }
  void read()
  return source

  async function read() {
    if (isReading || !next) return
    isReading = true
    try {
      const answer = await server.ask(`/events${next}`)
      lines.push(...answer.body.map(lineOf))
      next = answer.next
      hasRead = true
      onRead(0)
    } catch (error) {
      onError(error)
    }
    isReading = false
  }

  /** Looks for new ones. */
  async function look() {
    if (!hasRead) return read()
    const { body } = await server.ask(`/events${beginning}`)
    const newest = lines[0]?.position ?? 0
    const more = body.map(lineOf).filter((/** @type {Line} */ line) => line.position > newest)
    if (more.length === 0) return
    // So many at once that some are missing in between: begin anew.
    if (more.length === BLOCK && lines.length > 0) {
      lines.length = 0
      next = beginning
      await read()
      return
    }
    lines.unshift(...more)
    onRead(more.length)
  }
}

/**
 * What a line shows of an event; the item itself, which may be large, is not kept.
 * @param {any} event
 * @returns {Line}
 */
function lineOf({ position, type, collection, id, revision, time, actor, item }) {
  const { id: _id, ...rest } = item ?? {}
  return { position, type, collection, id, revision, time, actor, text: item ? short(rest, 160) : '' }
}
