// A value as a tree. Long arrays and texts are shown in part, until one asks for more; what is closed is made when it is
// opened, so that a tree of any size is there at once.
import { el } from './dom.js'
import { counted, kindOf, short, visible } from './format.js'

const MEMBERS = 100
const CHARACTERS = 2000
/** Of a long text, each time that one asks for more. */
const MORE_CHARACTERS = 20_000
const NAME_CHARACTERS = 400
/** Trees are open so deep to begin with, as long as there are no more members in all. */
const OPEN_DEPTH = 2
const OPEN_MEMBERS = 500

/** @param {unknown} value */
export function jsonView(value) {
  return el('div.json', null, node(value, 0, { left: OPEN_MEMBERS }))
}

/**
 * @param {any} value
 * @param {number} depth
 * @param {{ left: number }} budget of members that may be shown without being asked for
 * @param {string} [key] under which it stands
 * @returns {Node}
 */
function node(value, depth, budget, key) {
  const name = key === undefined ? '' : el('span.key', null, `${short(key, NAME_CHARACTERS)}: `)
  if (typeof value !== 'object' || value === null) return el('span', null, name, scalar(value))
  const names = Array.isArray(value) ? undefined : Object.keys(value)
  const length = names ? names.length : value.length
  if (length === 0) return el('span', null, name, el('span.nested', null, names ? '{}' : '[]'))
  const list = el('ul')
  if (depth === 0) {
    more(0)
    return list
  }
  const what = names ? `{${counted(length, 'member')}}` : `[${counted(length, 'element')}]`
  const open = depth < OPEN_DEPTH && budget.left > 0
  if (open) more(0)
  const onOpened = () => {
    if (list.childElementCount === 0) more(0)
  }
  const head = el('summary', null, name, el('span.nested', null, what))
  return el('details', { open, ontoggle: onOpened }, head, list)

  /** @param {number} from */
  function more(from) {
    const to = Math.min(from + MEMBERS, length)
    budget.left -= to - from
    for (let index = from; index < to; index++) {
      const key = names ? /** @type {string} */ (names[index]) : String(index)
      list.append(el('li', null, node(value[key], depth + 1, budget, key)))
    }
    const left = length - to
    if (left === 0) return
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
  let shown = CHARACTERS
  const label = () => `${counted(value.length - shown, 'more character')}…`
  const more = () => {
    shown = Math.min(shown + MORE_CHARACTERS, value.length)
    const isAll = shown === value.length
    text.textContent = `"${visible(value.slice(0, shown))}${isAll ? '"' : '…'}`
    if (isAll) button.remove()
    else button.textContent = label()
  }
  const button = el('button.plain', { type: 'button', onclick: more }, label())
  return el('span', null, text, ' ', button)
}

/** @param {unknown} value */
export function classOf(value) {
  const kind = kindOf(value)
  return kind === 'number' ? 'value-number' : kind
}
