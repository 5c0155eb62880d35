// What changed from one value to another, told by where and from what to what.
import { el } from './dom.js'
import { short, visible } from './format.js'

/**
 * @typedef {{ path: (string | number)[], before?: unknown, after?: unknown }} Difference `before` is missing where
 *   something was added, `after` where it was removed
 */

const SHOWN = 200
const CHARACTERS = 400

/**
 * @param {unknown} before undefined: nothing
 * @param {unknown} after undefined: nothing
 * @param {(string | number)[]} [path]
 * @returns {Difference[]}
 */
export function differences(before, after, path = []) {
  if (before === after) return []
  if (isBranch(before) && isBranch(after) && Array.isArray(before) === Array.isArray(after)) {
    const keys =
      Array.isArray(before) && Array.isArray(after)
        ? Array.from({ length: Math.max(before.length, after.length) }, (_, index) => index)
        : [...new Set([...Object.keys(before), ...Object.keys(after)])]
    return keys.flatMap((key) => differences(member(before, key), member(after, key), [...path, key]))
  }
  if (before === undefined) return [{ path, after }]
  if (after === undefined) return [{ path, before }]
  return [{ path, before, after }]
}

/**
 * @param {unknown} before
 * @param {unknown} after
 */
export function diffView(before, after) {
  const all = differences(before ?? nothing(after), after ?? nothing(before))
  if (all.length === 0) return el('p.quiet', null, 'Nothing differs: it was written as it was.')
  const rows = all.slice(0, SHOWN).map(({ path, ...change }) => {
    const kind = 'before' in change ? ('after' in change ? 'changed' : 'removed') : 'added'
    const sign = { changed: '~', removed: '−', added: '+' }[kind]
    return el(
      'tr',
      null,
      el('td.sign', null, el('span', { 'aria-hidden': 'true' }, sign), el('span.hidden-text', null, kind)),
      el('th', { scope: 'row' }, visible(path.join('.')) || '(all of it)'),
      el(
        'td',
        null,
        'before' in change && el('del', null, written(change.before)),
        kind === 'changed' && ' → ',
        'after' in change && el('ins', null, written(change.after)),
      ),
    )
  })
  const left = all.length - rows.length
  return el(
    'div',
    null,
    el('table.diff', null, el('caption.hidden-text', null, 'What changed'), el('tbody', null, rows)),
    left > 0 && el('p.quiet', null, `and ${left} more`),
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
