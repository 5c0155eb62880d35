// A text area for JSON: says where it is not JSON as one types, and leads to the faults that the server found.
import { el, fill, setText } from './dom.js'
import { placeOf } from './json-place.js'

/**
 * @param {string} text
 * @param {string} label
 */
export function jsonEditor(text, label) {
  const area = el('textarea', {
    value: text,
    spellcheck: false,
    autocapitalize: 'off',
    'aria-label': label,
    'aria-describedby': 'editor-state',
    oninput: look,
  })
  const state = el('p.quiet', { id: 'editor-state', role: 'status' })
  const faults = el('ul.faults', { 'aria-label': 'Faults' })
  look()
  return {
    element: el('div.editor', null, area, state, faults),
    area,
    get text() {
      return area.value
    },
    get isJson() {
      return whyNot(area.value) === undefined
    },
    showFaults,
  }

  function look() {
    const why = whyNot(area.value)
    area.setAttribute('aria-invalid', String(why !== undefined))
    setText(state, why ?? '')
    state.classList.toggle('bad-text', why !== undefined)
    faults.replaceChildren()
  }

  /** @param {{ pointer: string, message: string }[]} found */
  function showFaults(found) {
    fill(
      faults,
      found.map(({ pointer, message }) =>
        el('li', null, el('button', { type: 'button', onclick: () => goTo(pointer) }, pointer || '/'), ` ${message}`),
      ),
    )
  }

  /** @param {string} pointer */
  function goTo(pointer) {
    const place = placeOf(area.value, pointer)
    area.focus()
    if (place) area.setSelectionRange(place.from, place.to)
  }
}

/** @param {string} text */
function whyNot(text) {
  try {
    JSON.parse(text)
    return undefined
  } catch (error) {
    return `Not JSON yet: ${/** @type {Error} */ (error).message}`
  }
}
