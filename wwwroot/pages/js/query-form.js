// The form above a table: a search, filters one by one, and the whole query as the API takes it.
import { el, fill } from './dom.js'
import { visible } from './format.js'
import {
  filterName,
  filterText,
  isFilter,
  OPERATORS,
  parse,
  valueIn,
  withoutPaging,
  withValue,
  write,
} from './query.js'

/**
 * @param {HTMLFormElement} form
 * @param {(query: string) => void} onQuery
 */
export function queryForm(form, onQuery) {
  let query = ''
  /** The search in the query that was shown last. */
  let searched = ''
  const search = el('input', { type: 'search', placeholder: 'Search all values', 'aria-label': 'Search all values' })
  const text = el('input.mono', {
    type: 'text',
    'aria-label': 'Query',
    placeholder: 'data.temperature_gt=22&sort=-id',
    spellcheck: false,
    autocapitalize: 'off',
  })
  const fields = el('datalist', { id: 'fields' })
  const field = el('input', { 'aria-label': 'Field', placeholder: 'field', spellcheck: false })
  field.setAttribute('list', 'fields')
  const operator = el(
    'select',
    { 'aria-label': 'Operator', onchange: placeholder },
    OPERATORS.map(([value, name]) => el('option', { value }, name)),
  )
  const value = el('input', { 'aria-label': 'Value', placeholder: 'value', spellcheck: false })
  const chips = el('ul.chips', { 'aria-label': 'Filters' })
  const builder = el('div.row.filter', { hidden: true }, field, operator, value, el('button', null, 'Add'))
  const opener = el('button', { type: 'button', 'aria-expanded': 'false', onclick: open }, 'Filter')
  fill(form, el('div.row', null, search, el('div.row.whole', null, text), opener), builder, chips, fields)
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    apply()
  })
  search.addEventListener('search', apply)
  text.addEventListener('change', apply)

  return {
    /** @param {string} now */
    show(now) {
      query = now
      const parameters = parse(now)
      if (document.activeElement !== text) text.value = now
      const before = searched
      searched = valueIn(parameters, 'q') ?? ''
      // Text that was typed, and not sent yet, stays.
      if (document.activeElement !== search && searched !== before) search.value = searched
      drawChips(parameters)
    },
    /** @param {readonly string[]} names */
    know(names) {
      fill(
        fields,
        names.map((name) => el('option', { value: name })),
      )
    },
  }

  function open() {
    builder.hidden = !builder.hidden
    opener.setAttribute('aria-expanded', String(!builder.hidden))
    if (!builder.hidden) field.focus()
  }

  function placeholder() {
    value.placeholder = { in: 'a,b,c', exists: 'true or false' }[/** @type {'in'} */ (operator.value)] ?? 'value'
  }

  function apply() {
    let parameters = text.value === query ? parse(query) : parse(text.value)
    if (text.value === query) parameters = withValue(parameters, 'q', search.value.trim() || undefined)
    if (field.value.trim() !== '') {
      const filled = operator.value === 'exists' && value.value === '' ? 'true' : value.value
      parameters.push([filterName(field.value.trim(), operator.value), filled])
      field.value = ''
      value.value = ''
    }
    const now = write(parameters)
    if (now === write(parse(query))) return
    onQuery(text.value === query ? write(withoutPage(parameters)) : now)
  }

  /** @param {import('./query.js').Parameters} parameters */
  function drawChips(parameters) {
    const filters = parameters.filter(([name]) => isFilter(name))
    chips.hidden = filters.length === 0
    fill(
      chips,
      filters.map((filter) => {
        const sentence = visible(filterText(...filter))
        const remove = () => onQuery(write(withoutPage(parameters.filter((one) => one !== filter))))
        return el(
          'li',
          null,
          el('span', null, sentence),
          el('button.plain', { type: 'button', 'aria-label': `Remove the filter ${sentence}`, onclick: remove }, '✕'),
        )
      }),
    )
  }
}

/**
 * Another filter makes other pages.
 * @param {import('./query.js').Parameters} parameters
 */
function withoutPage(parameters) {
  const size = valueIn(parameters, 'pageSize')
  return withValue(withoutPaging(parameters), 'pageSize', size)
}
