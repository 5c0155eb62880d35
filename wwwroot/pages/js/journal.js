// The page of the journal: all that happened, the newest first, and how the journal itself is.
import { address } from './address.js'
import { calmly, el, fill, find, setText } from './dom.js'
import { eventPanel } from './event-panel.js'
import { count, counted, time, visible } from './format.js'
import { healthCard } from './health.js'
import { allEvents, someEvents } from './journal-source.js'
import { moment } from './moment.js'
import { placeText, restoreDialog } from './restore.js'
import { server } from './server.js'
import { showProblem, startShell } from './shell.js'
import { VERBS } from './timeline.js'
import { virtualList } from './virtual-list.js'

const FILTERS = /** @type {const} */ (['collection', 'id', 'type', 'actor', 'since', 'until'])
const SIGNS = /** @type {Record<string, string>} */ ({
  ItemCreated: '+',
  ItemReplaced: '=',
  ItemPatched: '~',
  ItemDeleted: '−',
  CollectionCreated: '⊕',
  ObjectCreated: '+',
  ObjectDeleted: '−',
  CollectionRemoved: '⊖',
  CollectionOrdered: '↕',
  IdsReset: '↺',
})
const TODAY_MS = 20 * 3_600_000

/** @type {import('./journal-source.js').Source & { grow?: (to: number) => void, look?: () => Promise<void> } | undefined} */
let source
/** Of what is shown: the filter, the moment, the journal. */
let shown = ''

const list = virtualList(find('list'), {
  newRow,
  show: showRow,
  onView: (first, last) => source?.view(first, last),
})
const panel = eventPanel(find('event'), { go })
const health = healthCard(find('health'))
const form = /** @type {HTMLFormElement} */ (find('filter'))
const follow = calmly(followHead, 200)

/** @type {Element} */ const types = /** @type {HTMLSelectElement} */ (form.elements.namedItem('type'))
types.append(...Object.entries(VERBS).map(([type, verb]) => el('option', { value: type }, verb)))
// On a phone the list comes first.
find('filter-part').open = filterOf().size > 0 || matchMedia('(min-width: 48rem)').matches
form.addEventListener('change', apply)
form.addEventListener('submit', (event) => {
  event.preventDefault()
  apply()
})
form.addEventListener('reset', () => go(Object.fromEntries(FILTERS.map((name) => [name, undefined]))))
find('restore').addEventListener('click', () => restoreDialog(moment.at ?? server.head, [{ name: 'Everything' }]))
find('list').addEventListener('click', pick)
find('list').addEventListener('keydown', move)
server.addEventListener('head', follow)
void startShell(() => void show().catch(showProblem))

/** @param {Record<string, string | number | undefined>} changes to the address */
function go(changes) {
  address.set(changes, { isStep: true })
  void show().catch(showProblem)
}

function apply() {
  const values = new FormData(form)
  go(
    Object.fromEntries(
      FILTERS.map((name) => {
        const value = String(values.get(name) ?? '')
        const isTime = name === 'since' || name === 'until'
        return [name, isTime && value !== '' ? new Date(value).toISOString() : value]
      }),
    ),
  )
}

/** @returns {URLSearchParams} */
function filterOf() {
  return new URLSearchParams(FILTERS.flatMap((name) => (address.get(name) ? [[name, String(address.get(name))]] : [])))
}

async function show() {
  const isIn = server.access.role !== null
  find('parts').hidden = !isIn
  find('restore').hidden = !server.may('admin') || moment.at === undefined
  if (!isIn) {
    shown = ''
    return
  }
  showProblem()
  fillForm()
  health.read()
  const filter = filterOf()
  const wanted = JSON.stringify([filter.toString(), moment.at, server.journal])
  if (wanted !== shown) begin(filter)
  shown = wanted
  follow()
  const event = Number(address.get('event')) || undefined
  document.body.classList.toggle('with-event', event !== undefined)
  void panel.show(event, Number(address.get('with')) || undefined)
  list.refresh()
  const names = await server.client.collections()
  fill(
    find('collections'),
    names.map((/** @type {string} */ name) => el('option', { value: name })),
  )
}

/** @param {URLSearchParams} filter */
function begin(filter) {
  const isAll = filter.size === 0
  if (isAll) {
    const own = allEvents(moment.at ?? server.head, () => {
      if (source === own) list.refresh()
    })
    source = own
    list.resize(own.count)
  } else {
    const own = someEvents(
      filter,
      moment.at,
      (more) => {
        if (source !== own) return
        list.resize(own.count, more)
        list.refresh()
        summary()
      },
      showProblem,
    )
    source = own
    list.resize(0)
  }
  list.refresh()
  summary()
}

/** What comes is put in front; who looks at something else goes on to see that. */
async function followHead() {
  if (!source || moment.at !== undefined || server.access.role === null || document.hidden) return
  if (source.look) return source.look().catch(() => {})
  const more = server.head - source.count
  if (more > 0) {
    source.grow?.(server.head)
    list.resize(source.count, more)
    list.refresh()
    summary()
  }
}

function summary() {
  if (!source) return
  const { count: number, isWhole } = source
  setText(
    find('total'),
    isWhole ? counted(number, 'event') : number === 0 ? 'Reading…' : `${count(number - 1)} events and more`,
  )
  find('none').hidden = !(isWhole && number === 0)
}

function fillForm() {
  for (const name of FILTERS) {
    const field = /** @type {HTMLInputElement} */ (form.elements.namedItem(name))
    const value = address.get(name) ?? ''
    if (document.activeElement !== field) field.value = name === 'since' || name === 'until' ? local(value) : value
  }
}

/** @param {string} iso as a field of the form takes it, in the reader's own time zone */
function local(iso) {
  const date = new Date(iso)
  if (iso === '' || Number.isNaN(date.getTime())) return ''
  return new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}

/** @returns {HTMLElement} */
function newRow() {
  const parts = ['position', 'when', 'verb', 'place', 'actor', 'text'].map((name) => el(`span.${name}`))
  return el('li', { hidden: true }, el('a', { draggable: false, tabIndex: 0 }, parts))
}

/**
 * @param {HTMLElement} row
 * @param {number} index
 */
function showRow(row, index) {
  const link = /** @type {HTMLAnchorElement} */ (row.firstElementChild)
  const [position, when, verb, place, actor, text] = /** @type {any} */ (link.children)
  const line = source?.at(index)
  if (!line) {
    link.removeAttribute('href')
    link.removeAttribute('aria-current')
    row.className = ''
    // Where all are shown, the place says the position before the event is read.
    setText(position, source?.look || !source ? '' : count(source.count - index))
    for (const part of [when, verb, actor, text]) setText(part, '')
    setText(place, '…')
    return false
  }
  const ms = Date.parse(line.time)
  row.className = line.type
  link.href = `?${withEvent(line.position)}`
  if (String(line.position) === address.get('event')) link.setAttribute('aria-current', 'true')
  else link.removeAttribute('aria-current')
  setText(position, count(line.position))
  setText(when, Date.now() - ms < TODAY_MS ? time(ms, { withMs: true }) : `${line.time.slice(0, 10)} ${time(ms)}`)
  setText(verb, `${SIGNS[line.type] ?? ''} ${VERBS[line.type] ?? line.type}`)
  setText(place, placeText(line.collection, line.id))
  setText(actor, visible(line.actor))
  setText(text, line.text)
  return true
}

/** @param {number} position */
function withEvent(position) {
  const parameters = new URLSearchParams(location.search)
  parameters.delete('with')
  parameters.set('event', String(position))
  return parameters
}

/** @param {MouseEvent} event */
function pick(event) {
  const row = /** @type {HTMLElement | null} */ (/** @type {Element} */ (event.target).closest('li'))
  if (!row || event.ctrlKey || event.metaKey || event.shiftKey) return
  event.preventDefault()
  const line = source?.at(Number(row.dataset.index))
  if (line) go({ event: line.position, with: undefined })
}

/** @param {KeyboardEvent} event */
function move(event) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key]
  const row = /** @type {HTMLElement | null} */ (document.activeElement?.closest('#list li'))
  if (by === undefined || !row || !source) return
  event.preventDefault()
  const to = Math.max(0, Math.min(source.count - 1, Number(row.dataset.index) + by))
  list.reveal(to)
  const link = list.rowAt(to)?.firstElementChild
  if (link instanceof HTMLElement) link.focus({ preventScroll: true })
}
