// A value as a tree. Long arrays and texts are shown in part, until one asks for the rest.
import { el } from './dom.js'
import { counted, kindOf, visible } from './format.js'

const MEMBERS = 100
const CHARACTERS = 2000
/** Trees are open so deep to begin with. */
const OPEN_DEPTH = 2

/** @param {unknown} value */
export function jsonView(value) {
  return el('div.json', null, node(value, 0))
}

/**
 * @param {unknown} value
 * @param {number} depth
 * @param {string} [key] under which it stands
 * @returns {Node}
 */
function node(value, depth, key) {
  const name = key === undefined ? '' : el('span.key', null, `${visible(key)}: `)
  if (typeof value !== 'object' || value === null) return el('span', null, name, scalar(value))
  const isArray = Array.isArray(value)
  const members = Object.entries(value)
  if (members.length === 0) return el('span', null, name, el('span.nested', null, isArray ? '[]' : '{}'))
  const list = el('ul')
  more(0)
  if (depth === 0) return list
  const what = isArray ? `[${counted(members.length, 'element')}]` : `{${counted(members.length, 'member')}}`
  return el('details', { open: depth < OPEN_DEPTH }, el('summary', null, name, el('span.nested', null, what)), list)

  /** @param {number} from */
  function more(from) {
    for (const [key, member] of members.slice(from, from + MEMBERS)) {
      list.append(el('li', null, node(member, depth + 1, key)))
    }
    const left = members.length - from - MEMBERS
    if (left <= 0) return
    const button = el('button.plain', { type: 'button', onclick: () => go() }, `${counted(left, 'more', 'more')}…`)
    const item = el('li', null, button)
    const go = () => {
      item.remove()
      more(from + MEMBERS)
    }
    list.append(item)
  }
}

/**
 * @param {unknown} value
 * @returns {Node}
 */
export function scalar(value) {
  if (typeof value !== 'string') return el(`span.${classOf(value)}`, null, String(value))
  if (value.length <= CHARACTERS) return el('span.string', null, `"${visible(value)}"`)
  const text = el('span.string', null, `"${visible(value.slice(0, CHARACTERS))}…`)
  const left = value.length - CHARACTERS
  const all = () => {
    text.textContent = `"${visible(value)}"`
    button.remove()
  }
  const button = el('button.plain', { type: 'button', onclick: all }, `${counted(left, 'more character')}…`)
  return el('span', null, text, ' ', button)
}

/** @param {unknown} value */
export function classOf(value) {
  const kind = kindOf(value)
  return kind === 'number' ? 'value-number' : kind
}
