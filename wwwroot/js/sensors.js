// @ts-check
// Shows the latest reading of each sensor. The server says over Socket.IO which items changed; those alone are read
// again, the changes of a moment in one request. What comes from the server becomes text, never markup.

const COLLECTION = 'sensors'
const ADDRESS = `/api/${COLLECTION}`
/** Changes are gathered for this long before they are read. */
const GATHER_MS = 250
const RETRY_MS = 2000
/** A page has 512 items when nothing else is asked for; a request line must stay short. */
const KEYS_PER_REQUEST = 100

/** @typedef {{ element: HTMLLIElement, position: number, show: (item: any) => void }} Card */

/** @type {Map<string, Card>} */
const cards = new Map()
/** @type {Set<string>} */
const changed = new Set()
let everything = false
let isReading = false
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer
let position = 0

/** @param {string} id */
const find = (id) => /** @type {HTMLElement} */ (document.getElementById(id))
const calm = matchMedia('(prefers-reduced-motion: reduce)')

connect()
readAgain()

function connect() {
  const io = /** @type {any} */ (globalThis).io
  if (!io) return showConnection('lost', 'No live updates')
  const socket = io({ transports: ['websocket', 'polling'], tryAllTransports: true })
  socket.on('connect', () => {
    showConnection('live', 'Live')
    // Nobody told us what happened while there was no connection, and it may be another history.
    for (const card of cards.values()) card.position = 0
    readAgain()
  })
  socket.on('disconnect', () => showConnection('lost', 'Disconnected, trying again…'))
  socket.on('connect_error', () => showConnection('lost', 'Disconnected, trying again…'))
  socket.on('updated', (/** @type {any} */ updated) => {
    if (updated.collection !== COLLECTION) return
    const key = String(updated.itemId)
    // A deletion moves all that follow to other pages.
    if (updated.itemId === null || (updated.method === 'DELETE' && isReading)) return readAgain()
    if ((cards.get(key)?.position ?? 0) >= updated.position) return
    changed.add(key)
    schedule(GATHER_MS)
  })
}

function readAgain() {
  everything = true
  clearTimeout(timer)
  timer = undefined
  schedule(0)
}

/** @param {number} delay */
function schedule(delay) {
  if (!isReading && timer === undefined) timer = setTimeout(read, delay)
}

async function read() {
  timer = undefined
  isReading = true
  const keys = everything ? undefined : [...changed]
  everything = false
  changed.clear()
  let delay = GATHER_MS
  try {
    if (keys) await readChanged(keys)
    else await readAll()
    showSummary()
  } catch {
    everything = true
    delay = RETRY_MS
    find('summary').textContent = 'The readings cannot be read, trying again…'
  }
  isReading = false
  if (everything || changed.size > 0) schedule(delay)
}

async function readAll() {
  const names = await (await ask('/api')).json()
  const isThere = names.includes(COLLECTION)
  if (!isThere) showCollections(names)
  /** @type {Set<string>} */
  const seen = new Set()
  let path = isThere ? ADDRESS : undefined
  while (path) {
    const answer = await ask(path)
    for (const item of await answer.json()) {
      seen.add(String(item.id))
      showItem(item, positionOf(answer))
    }
    path = /<([^>]*)>; rel="next"/.exec(answer.headers.get('Link') ?? '')?.[1]
  }
  for (const key of cards.keys()) if (!seen.has(key)) remove(key)
  find('sensors').replaceChildren(...[...seen].flatMap((key) => cards.get(key)?.element ?? []))
  find('missing').hidden = isThere
}

/** @param {string[]} keys */
async function readChanged(keys) {
  for (let from = 0; from < keys.length; from += KEYS_PER_REQUEST) {
    const some = keys.slice(from, from + KEYS_PER_REQUEST)
    const answer = await ask(`${ADDRESS}?${new URLSearchParams(some.map((key) => ['id', key]))}`)
    const gone = new Set(some)
    for (const item of await answer.json()) {
      gone.delete(String(item.id))
      showItem(item, positionOf(answer))
    }
    for (const key of gone) remove(key)
  }
}

/** @param {string} path */
async function ask(path) {
  const answer = await fetch(path, { cache: 'no-cache', headers: { Accept: 'application/json' } })
  if (!answer.ok) throw new Error(`${path} is answered with ${answer.status}`)
  position = positionOf(answer)
  return answer
}

/** @param {Response} answer */
function positionOf(answer) {
  return Number(answer.headers.get('Journal-Position'))
}

/** @param {string} key */
function remove(key) {
  cards.get(key)?.element.remove()
  cards.delete(key)
}

/**
 * @param {any} item
 * @param {number} at the position that the item was read at
 */
function showItem(item, at) {
  const key = String(item.id)
  let card = cards.get(key)
  if (!card) {
    card = createCard()
    cards.set(key, card)
    find('sensors').append(card.element)
  }
  card.position = at
  card.show(item)
}

/** @returns {Card} */
function createCard() {
  const element = document.createElement('li')
  const heading = element.appendChild(document.createElement('h2'))
  const time = element.appendChild(document.createElement('time'))
  const list = element.appendChild(document.createElement('dl'))
  /** @type {Map<string, HTMLElement>} */
  let values = new Map()
  return { element, position: 0, show }

  /** @param {any} item */
  function show({ id, mac, timestamp, data, ...rest }) {
    setText(heading, textOf(mac ?? id))
    setText(time, timestamp === undefined ? '' : textOf(timestamp).replace(/^([-\d]{10})T([:\d]{8}).*$/, '$1 $2'))
    const isObject = typeof data === 'object' && data !== null && !Array.isArray(data)
    const measured = isObject ? data : data === undefined ? {} : { data }
    const fields = new Map([...Object.entries(measured), ...Object.entries(rest)])
    if (JSON.stringify([...fields.keys()]) !== JSON.stringify([...values.keys()])) {
      values = new Map()
      list.replaceChildren()
      for (const name of fields.keys()) {
        const term = list.appendChild(document.createElement('dt'))
        term.textContent = name.replaceAll('_', ' ')
        values.set(name, list.appendChild(document.createElement('dd')))
      }
    }
    for (const [name, value] of fields) setText(/** @type {HTMLElement} */ (values.get(name)), textOf(value))
  }
}

/** @param {unknown} value */
function textOf(value) {
  if (value === null) return '–'
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}

/**
 * @param {HTMLElement} element
 * @param {string} text
 */
function setText(element, text) {
  const before = element.textContent
  if (before === text) return
  element.textContent = text
  if (before !== '' && element.tagName === 'DD' && !calm.matches) {
    const background = getComputedStyle(element).getPropertyValue('--accent')
    element.animate([{ backgroundColor: `color-mix(in srgb, ${background} 20%, transparent)` }, {}], 900)
  }
}

/** @param {string[]} names */
function showCollections(names) {
  const links = names.map((name) => {
    const entry = document.createElement('li')
    const link = entry.appendChild(document.createElement('a'))
    link.href = `/api/${encodeURIComponent(name)}`
    link.textContent = name
    return entry
  })
  find('collections').replaceChildren(...links)
}

function showSummary() {
  const isThere = find('missing').hidden
  find('empty').hidden = !isThere || cards.size > 0
  const count = `${cards.size} ${cards.size === 1 ? 'sensor' : 'sensors'}`
  find('summary').textContent = `${count}, position ${position}`
}

/**
 * @param {'connecting' | 'live' | 'lost'} state
 * @param {string} text
 */
function showConnection(state, text) {
  const element = find('connection')
  element.dataset.state = state
  setText(element, text)
}
