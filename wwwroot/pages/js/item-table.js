// Items of any shape as a table: a column for each field, nested ones by their path. Rows are kept by the items' keys,
// so that what one reads stays where it is, and what changed can be shown. Rows of an aggregate, or of selected fields,
// have no id: they are kept by their place, and cannot be opened.
import { el, flash, setText } from './dom.js'
import { kindOf, short } from './format.js'
import { classOf } from './json-view.js'
import { escaped } from './query.js'
import { server } from './server.js'

const COLUMNS = 40
/** Fields of an item that may become columns. */
const FIELDS = 1000
const DEPTH = 3
const CHARACTERS = 120

/**
 * @typedef {{ element: HTMLTableRowElement, cells: Map<string, HTMLTableCellElement>, values: Map<string, unknown>, link: HTMLAnchorElement | undefined }} Row
 */

/**
 * @param {{ onSort: (field: string, isDown: boolean) => void, onPick: (key: string) => void, addressOf: (key: string) => string }} options
 */
export function itemTable({ onSort, onPick, addressOf }) {
  const head = el('tr')
  const body = el('tbody')
  const element = el('table', null, el('thead', null, head), body)
  /** @type {string[]} */
  let columns = []
  /** @type {Map<string | number, Row>} */
  let rows = new Map()
  /** @type {string | undefined} */
  let picked

  body.addEventListener('click', (/** @type {MouseEvent} */ event) => {
    const target = /** @type {Element} */ (event.target)
    const row = /** @type {HTMLElement | null} */ (target.closest('tr'))
    if (row?.dataset.key === undefined || event.ctrlKey || event.metaKey || event.shiftKey) return
    if (String(getSelection())) return
    event.preventDefault()
    onPick(row.dataset.key)
  })

  return {
    element,
    get columns() {
      return columns
    },
    clear() {
      columns = []
      rows = new Map()
      body.replaceChildren()
      head.replaceChildren()
    },
    /** @param {string | undefined} key */
    pick(key) {
      rows.get(picked ?? '')?.element.removeAttribute('aria-current')
      picked = key
      if (key !== undefined) rows.get(key)?.element.setAttribute('aria-current', 'true')
    },
    show,
    sorted,
  }

  /**
   * @param {any[]} found items, or rows of an aggregate, or values
   * @param {boolean} isChange what differs is to be seen
   */
  function show(found, isChange) {
    const items = found.map((one) => (typeof one === 'object' && one !== null ? one : { value: one }))
    const flat = items.map((item) => flatten(item))
    const wanted = columnsOf(flat, columns)
    const isWider = wanted.length !== columns.length
    if (isWider) {
      columns = wanted
      head.replaceChildren(...columns.map((name) => heading(name)))
      rows = new Map()
    }
    /** @type {Map<string | number, Row>} */
    const next = new Map()
    items.forEach((item, index) => {
      const key = Object.hasOwn(item, server.idField) ? String(item[server.idField]) : index
      const values = /** @type {Map<string, unknown>} */ (flat[index])
      if (values.size >= FIELDS) addColumns(values, item, columns)
      const known = rows.get(key)
      const row = known ?? newRow(key)
      for (const name of columns) showCell(row, name, values.get(name), isChange && known !== undefined)
      row.values = values
      if (isChange && !known && !isWider) flash(row.element)
      next.set(key, row)
    })
    rows = next
    const elements = Array.from(next.values(), (row) => row.element)
    if (elements.length !== body.children.length || elements.some((one, index) => body.children[index] !== one)) {
      body.replaceChildren(...elements)
    }
    if (picked !== undefined) rows.get(picked)?.element.setAttribute('aria-current', 'true')
  }

  /**
   * @param {string} field
   * @param {boolean} isDown
   */
  function sorted(field, isDown) {
    columns.forEach((name, index) => {
      const cell = /** @type {Element} */ (head.children[index])
      const isIt = name === field
      if (isIt) cell.setAttribute('aria-sort', isDown ? 'descending' : 'ascending')
      else cell.removeAttribute('aria-sort')
    })
  }

  /** @param {string} name */
  function heading(name) {
    const sort = () => {
      const isUp = th.getAttribute('aria-sort') === 'ascending'
      onSort(name, isUp)
    }
    const th = el('th', { scope: 'col' }, el('button.plain', { type: 'button', onclick: sort }, short(name, 60)))
    return th
  }

  /**
   * @param {string | number} key
   * @returns {Row}
   */
  function newRow(key) {
    const element = /** @type {HTMLTableRowElement} */ (el('tr.fades'))
    if (typeof key === 'string') element.dataset.key = key
    const cells = new Map()
    for (const name of columns) {
      const cell = el(name === server.idField ? 'th' : 'td', name === server.idField ? { scope: 'row' } : null)
      cell.classList.add('fades')
      cells.set(name, cell)
      element.append(cell)
    }
    const link = typeof key === 'string' ? el('a', { href: addressOf(key) }) : el('span')
    cells.get(server.idField)?.append(link)
    return { element, cells, values: new Map(), link }
  }

  /**
   * @param {Row} row
   * @param {string} name
   * @param {unknown} value
   * @param {boolean} isChange
   */
  function showCell(row, name, value, isChange) {
    const cell = /** @type {HTMLTableCellElement} */ (row.cells.get(name))
    const text = short(value, CHARACTERS)
    if (name === server.idField) {
      if (row.link) setText(row.link, value === '' ? '""' : text)
      return
    }
    const isOther = cell.textContent !== text
    if (!isOther) return
    cell.textContent = text
    cell.className = `fades ${value === undefined ? '' : classOf(value)}${kindOf(value) === 'number' ? ' right' : ''}`
    if (isChange) flash(cell)
  }
}

/**
 * The fields of an item by their paths.
 * @param {any} item
 * @param {Map<string, unknown>} [into]
 * @param {string} [prefix]
 * @param {number} [depth]
 * @returns {Map<string, unknown>}
 */
function flatten(item, into = new Map(), prefix = '', depth = 1) {
  for (const name of Object.keys(item)) {
    if (into.size >= FIELDS) break
    const value = item[name]
    const isOpen = typeof value === 'object' && value !== null && !Array.isArray(value) && depth < DEPTH
    const count = isOpen ? Object.keys(value).length : 0
    if (count > 0 && count <= COLUMNS) flatten(value, into, `${prefix}${escaped(name)}.`, depth + 1)
    else into.set(prefix + escaped(name), value)
  }
  return into
}

/**
 * Of an item with more fields than were looked at, those that have a column because of other items.
 * @param {Map<string, unknown>} values
 * @param {any} item
 * @param {readonly string[]} columns
 */
function addColumns(values, item, columns) {
  for (const name of columns) if (!values.has(name) && Object.hasOwn(item, name)) values.set(name, item[name])
}

/**
 * Columns once shown stay, so that nothing moves under the eyes; new ones come after those that they follow in an item.
 * @param {Map<string, unknown>[]} items
 * @param {readonly string[]} before
 */
function columnsOf(items, before) {
  const columns =
    before.length > 0 ? [...before] : items.some((item) => item.has(server.idField)) ? [server.idField] : []
  const known = new Set(columns)
  for (const item of items) {
    let place = 0
    for (const name of item.keys()) {
      if (known.has(name)) place = columns.indexOf(name) + 1
      else if (columns.length < COLUMNS) {
        columns.splice(place++, 0, name)
        known.add(name)
      }
    }
  }
  return columns
}
