// What changed from one value to another, told by where and from what to what.
import { el } from './dom.js'
import { short } from './format.js'

/**
 * @typedef {{ path: (string | number)[], before?: unknown, after?: unknown }} Difference `before` is missing where
 *   something was added, `after` where it was removed
 */

const SHOWN = 200
const CHARACTERS = 400

/**
 * The first differences: it is looked no further, as there may be a million.
 * @param {unknown} before undefined: nothing
 * @param {unknown} after undefined: nothing
 * @param {number} most
 * @returns {Difference[]}
 */
export function differences(before, after, most) {
  /** @type {Difference[]} */
  const found = []
  /** @type {(string | number)[]} */
  const path = []
  compare(before, after)
  return found

  /**
   * @param {any} before
   * @param {any} after
   */
  function compare(before, after) {
    if (before === after) return
    if (isBranch(before) && isBranch(after) && Array.isArray(before) === Array.isArray(after)) {
      if (Array.isArray(before) && Array.isArray(after)) {
        const length = Math.max(before.length, after.length)
        for (let index = 0; index < length; index++) if (!within(index, before[index], after[index])) return
        return
      }
      for (const name of Object.keys(before)) if (!within(name, member(before, name), member(after, name))) return
      for (const name of Object.keys(after)) {
        if (!Object.hasOwn(before, name) && !within(name, undefined, member(after, name))) return
      }
    } else if (before === undefined) found.push({ path: [...path], after })
    else if (after === undefined) found.push({ path: [...path], before })
    else found.push({ path: [...path], before, after })
  }

  /**
   * @param {string | number} key
   * @param {any} before
   * @param {any} after
   * @returns {boolean} whether there is room for more
   */
  function within(key, before, after) {
    path.push(key)
    compare(before, after)
    path.pop()
    return found.length < most
  }
}

/**
 * @param {unknown} before
 * @param {unknown} after
 */
export function diffView(before, after) {
  const all = differences(before ?? nothing(after), after ?? nothing(before), SHOWN + 1)
  if (all.length === 0) return el('p.quiet', null, 'No differences: the same content was written again.')
  const rows = all.slice(0, SHOWN).map(({ path, ...change }) => {
    const kind = 'before' in change ? ('after' in change ? 'changed' : 'removed') : 'added'
    const sign = { changed: '~', removed: '−', added: '+' }[kind]
    return el(
      'tr',
      null,
      el('td.sign', null, el('span', { 'aria-hidden': 'true' }, sign), el('span.hidden-text', null, kind)),
      el('th', { scope: 'row' }, short(path.join('.'), CHARACTERS) || '(all of it)'),
      el(
        'td',
        null,
        'before' in change && el('del', null, written(change.before)),
        kind === 'changed' && ' → ',
        'after' in change && el('ins', null, written(change.after)),
      ),
    )
  })
  return el(
    'div',
    null,
    el('table.diff', null, el('caption.hidden-text', null, 'What changed'), el('tbody', null, rows)),
    all.length > SHOWN && el('p.quiet', null, `These are the first ${SHOWN} differences; there are more.`),
  )
}

/**
 * An object that comes or goes does so member by member.
 * @param {unknown} other
 */
function nothing(other) {
  return isBranch(other) && !Array.isArray(other) ? {} : undefined
}

/** @param {unknown} value */
function written(value) {
  return typeof value === 'string' ? `"${short(value, CHARACTERS)}"` : short(value, CHARACTERS)
}

/**
 * @param {unknown} value
 * @returns {value is object}
 */
function isBranch(value) {
  return typeof value === 'object' && value !== null
}

/**
 * @param {any} value
 * @param {string | number} key
 */
function member(value, key) {
  return Object.hasOwn(value, key) ? value[key] : undefined
}
