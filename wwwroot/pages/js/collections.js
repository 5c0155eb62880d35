// The page of all collections: what there is, how much of it, and how fast it changes; and the items of one, as a table.
import { address } from './address.js'
import { calmly, el, fill, find, setText } from './dom.js'
import { count, counted, visible } from './format.js'
import { itemPanel } from './item-panel.js'
import { itemTable } from './item-table.js'
import { moment, withQuery } from './moment.js'
import { GROUPING, PAGING, parse, sorting, valueIn, withoutPaging, withValue, write } from './query.js'
import { queryForm } from './query-form.js'
import { pathOf, server } from './server.js'
import { showProblem, startShell } from './shell.js'

const PAGE_SIZE = 50
const SIZES = [20, 50, 100, 500]
const LIVE_MS = 250
const COUNT_MS = 1000
/** Rates are of so long a time. */
const RATE_MS = 10_000

/** @type {Map<string, { element: HTMLElement, link: HTMLAnchorElement, total: HTMLElement, rate: HTMLElement }>} */
const lines = new Map()
/** When events came of late, by their collections. @type {Map<string, number[]>} */
const arrivals = new Map()
/** The names of single objects. @type {Set<string>} */
const objects = new Set()
/** Whose number is to be asked for. @type {Set<string>} */
const uncounted = new Set()
/** The moment that the names are those of. @type {string | undefined} */
let namesAt
let collection = ''
let shown = ''
/** Of the last query: what an earlier one is answered is not shown any more. */
let turn = 0

const form = queryForm(find('query'), (query) => go({ query }))
const table = itemTable({
  onSort: (field, isDown) => {
    const query = write(withValue(parse(address.get('query') ?? ''), 'sort', isDown ? `-${field}` : `${field}_asc`))
    go({ query })
  },
  onPick: (key) => go({ item: key }),
  addressOf: (key) => {
    const parameters = new URLSearchParams(location.search)
    parameters.set('item', key)
    return `?${parameters}`
  },
})
find('table').append(table.element)
const panel = itemPanel(find('item'), {
  onClose: () => go({ item: undefined }),
  onMade: (key) => go({ item: key }),
})
find('create').addEventListener('click', () => panel.create(collection))
for (const [ending, type] of /** @type {const} */ ([
  ['csv', 'text/csv'],
  ['ndjson', 'application/x-ndjson'],
])) {
  const button = find(`download-${ending}`)
  button.addEventListener('click', () => download(button, type, ending).catch(showProblem))
}

// One at a time: what a moment of the past looked like may take the server a while.
const showSoon = calmly(() => show().catch(showProblem), 50)
const readNames = calmly(
  () =>
    names()
      // It may be the first one, or the one that was shown may be gone.
      .then(() => (collection === shown ? undefined : items(false)))
      .catch(showProblem),
  LIVE_MS,
)
const readItems = calmly(() => items(true).catch(showProblem), LIVE_MS)
const countItems = calmly(() => counts().catch(showProblem), COUNT_MS)

server.addEventListener('access', showCreate)
server.addEventListener('updated', (event) => {
  const updated = /** @type {CustomEvent<import('./server.js').Updated>} */ (event).detail
  const times = arrivals.get(updated.collection) ?? []
  times.push(Date.now())
  arrivals.set(updated.collection, times)
  if (moment.at !== undefined) return
  if (updated.itemId === null) readNames()
  uncounted.add(updated.collection)
  countItems()
  if (updated.collection === collection) readItems()
  panel.heard(updated)
})
setInterval(rates, 1000)
void startShell(showSoon)

/** @param {Record<string, string | undefined>} changes to the address */
function go(changes) {
  address.set(changes, { isStep: true })
  showSoon()
}

function showCreate() {
  find('create').hidden = !server.may('writer') || moment.at !== undefined || objects.has(collection)
}

async function show() {
  showCreate()
  if (server.access.role === null) return clear()
  await names()
  await items(false)
}

function clear() {
  fill(find('names'))
  lines.clear()
  find('collection-part').hidden = true
  panel.close()
}

async function names() {
  const at = moment.query
  const { body } = await server.ask(withQuery('/api', at))
  namesAt = at
  const all = /** @type {string[]} */ (body)
  const wanted = address.get('collection')
  collection = wanted ?? all[0] ?? ''
  for (const name of lines.keys()) if (!all.includes(name)) lines.delete(name)
  for (const name of all) uncounted.add(name)
  fill(
    find('names'),
    all.map((name) => lineOf(name).element),
  )
  for (const [name, { link }] of lines) {
    if (name === collection) link.setAttribute('aria-current', 'true')
    else link.removeAttribute('aria-current')
    link.href = withQuery(
      '',
      `collection=${encodeURIComponent(name)}`,
      moment.at === undefined ? '' : `at=${moment.at}`,
    )
  }
  find('no-names').hidden = all.length > 0
  find('collection-part').hidden = all.length === 0 && !wanted
  countItems()
}

/** @param {string} name */
function lineOf(name) {
  const known = lines.get(name)
  if (known) return known
  const total = el('span.number.quiet')
  const rate = el('span.rate.number')
  const link = el('a', null, el('span.name', null, visible(name) || '""'), rate, total)
  link.addEventListener('click', (/** @type {MouseEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return
    event.preventDefault()
    go({ collection: name, query: undefined, item: undefined })
  })
  const line = { element: el('li', null, link), link, total, rate }
  lines.set(name, line)
  return line
}

async function counts() {
  const at = namesAt
  const wanted = [...uncounted].filter((name) => lines.has(name))
  uncounted.clear()
  for (const name of wanted) {
    // The names of this moment are still to come: then all are counted anew.
    if (at !== moment.query) return
    const { total, isList } = await server.ask(withQuery(pathOf(name), 'pageSize=1', at), { method: 'HEAD' })
    const line = lines.get(name)
    if (line && at === moment.query) {
      setText(line.total, isList ? count(total) : '{}')
      line.total.setAttribute('aria-label', isList ? counted(total, 'item') : 'single object')
    }
  }
}

function rates() {
  const since = Date.now() - RATE_MS
  for (const [name, times] of arrivals) {
    const recent = times.filter((time) => time > since)
    arrivals.set(name, recent)
    const line = lines.get(name)
    const rate = recent.length / (RATE_MS / 1000)
    if (line) setText(line.rate, rate === 0 ? '' : `${rate < 10 ? rate.toFixed(1) : count(Math.round(rate))}/s`)
  }
}

/**
 * All items of the query on all its pages.
 * @param {HTMLButtonElement} button
 * @param {string} type
 * @param {string} ending
 */
async function download(button, type, ending) {
  const query = parse(address.get('query') ?? '')
  // Of groups there are no more rows than a page may have.
  const areGroups = query.some(([name]) => GROUPING.includes(name))
  const wanted = areGroups ? query : [...query.filter(([name]) => !PAGING.includes(name)), ['all', 'true']]
  button.disabled = true
  try {
    await server.download(
      withQuery(pathOf(collection), write(/** @type {[string, string][]} */ (wanted)), moment.query),
      type,
      `${collection}.${ending}`,
    )
  } finally {
    button.disabled = false
  }
}

/** @param {boolean} isChange something changed that is to be seen */
async function items(isChange) {
  if (collection === '' || server.access.role === null) return
  const own = ++turn
  const query = address.get('query') ?? ''
  const key = address.get('item')
  const isOther = shown !== collection
  if (isOther) table.clear()
  shown = collection
  setText(find('collection'), visible(collection))
  form.show(query)
  void panel.show(collection, objects.has(collection) ? '' : key)
  const parameters = parse(query)
  const isPaged = parameters.some(([name]) => PAGING.includes(name))
  const answer = await server
    .ask(withQuery(pathOf(collection), query, isPaged ? '' : `pageSize=${PAGE_SIZE}`, moment.query))
    .catch((error) => {
      if (own === turn && error.status === 404) clearItems()
      throw error
    })
  if (own !== turn) return
  showProblem()
  if (answer.isList) objects.delete(collection)
  else objects.add(collection)
  showCreate()
  for (const id of ['query', 'table', 'pager']) find(id).hidden = !answer.isList
  find('collections').classList.toggle('of-object', !answer.isList)
  void panel.show(collection, answer.isList ? key : '')
  if (!answer.isList) return setText(find('total'), 'single object')
  table.show(answer.body, isChange && !isOther)
  table.pick(key)
  const sort = sorting(parameters)
  table.sorted(sort?.field ?? '', sort?.isDown ?? false)
  form.know(table.columns)
  setText(find('total'), counted(answer.total, 'item'))
  pager(parameters, answer.total, answer.body.length)
}

/** There is no such collection, or none any more, or not yet. */
function clearItems() {
  table.clear()
  setText(find('total'), '')
  fill(find('pager'))
  delete find('pager').dataset.state
}

/**
 * @param {import('./query.js').Parameters} parameters
 * @param {number} total
 * @param {number} length
 */
function pager(parameters, total, length) {
  /** @param {string[]} names of which a query has one */
  const number = (...names) => Number(names.map((name) => valueIn(parameters, name)).find(Boolean) ?? Number.NaN)
  const first = number('skip', 'offset', '_start')
  const size =
    number('pageSize', 'per_page', 'take', 'limit', '_per_page', '_limit') || number('_end') - (first || 0) || PAGE_SIZE
  const page = first >= 0 ? Math.floor(first / size) + 1 : number('page', '_page') || 1
  const pages = Math.max(1, Math.ceil(total / size))
  const from = first >= 0 ? first : (page - 1) * size
  /** @param {Record<string, number>} values */
  const turnTo = (values) => {
    // The other names for a page cannot be combined with these.
    let next = withoutPaging(parameters)
    for (const [name, value] of Object.entries(values)) next = withValue(next, name, String(value))
    go({ query: write(next) })
  }
  const place = find('pager')
  // Buttons that are drawn anew lose the focus.
  const state = JSON.stringify([parameters, total, length])
  if (place.dataset.state === state) return
  const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.turn
  place.dataset.state = state
  fill(
    place,
    step('first', '⟨⟨', 'First page', page > 1, () => turnTo({ page: 1, pageSize: size })),
    step('before', '⟨', 'Page before', page > 1, () => turnTo({ page: page - 1, pageSize: size })),
    el('span.number', null, length === 0 ? 'Nothing' : `${count(from + 1)}–${count(from + length)} of ${count(total)}`),
    step('next', '⟩', 'Next page', page < pages, () => turnTo({ page: page + 1, pageSize: size })),
    step('last', '⟩⟩', 'Last page', page < pages, () => turnTo({ page: pages, pageSize: size })),
    el(
      'select.push',
      {
        'aria-label': 'Items a page',
        onchange: (/** @type {any} */ event) => turnTo({ pageSize: Number(event.target.value), page: 1 }),
      },
      [...new Set([...SIZES, size])]
        .sort((a, b) => a - b)
        .map((one) => el('option', { value: String(one), selected: one === size }, `${one} a page`)),
    ),
  )
  if (focused) /** @type {HTMLElement | null} */ (place.querySelector(`[data-turn="${focused}"]`))?.focus()
}

/**
 * @param {string} name
 * @param {string} sign
 * @param {string} label
 * @param {boolean} isThere
 * @param {() => void} onclick
 */
function step(name, sign, label, isThere, onclick) {
  const button = el('button', { type: 'button', 'aria-label': label, disabled: !isThere, onclick }, sign)
  button.dataset.turn = name
  return button
}
