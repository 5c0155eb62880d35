// The query: one field for a search or the API's own parameters, which become chips, and what the server says about it.
import { useEffect, useRef, useState } from 'preact/hooks'
import { Button } from './controls.tsx'
import { counted, visible } from './format.ts'
import {
  filterName,
  go,
  isGrouped,
  OPERATORS,
  type Parameter,
  type Parameters,
  parameterText,
  parse,
  place,
  rowName,
  withFirstPage,
  withoutPaging,
  withParameters,
  write,
} from './query.ts'
import { fields, rows, shownRows } from './rows.ts'

/** A search that takes longer is seen to be running. */
const SLOW_MS = 300
const SUGGESTED = 40

function show(parameters: Parameters): void {
  go({ query: write(parameters) || undefined })
}

export function QueryBar() {
  const input = useRef<HTMLInputElement>(null)
  const [text, setText] = useState('')
  /** The chip whose text is in the field. */
  const [edited, edit] = useState<Parameter>()
  const parameters = parse(place.value.query ?? '')
  const chips = withoutPaging(parameters).filter((one) => one !== edited)
  const apply = (event: Event): void => {
    event.preventDefault()
    const typed = parse(text)
    if (typed.length === 0 && !edited) return
    const others = edited ? parameters.filter((one) => write([one]) !== write([edited])) : parameters
    show(withParameters(withFirstPage(others), typed))
    setText('')
    edit(undefined)
  }
  const begin = (one: Parameter): void => {
    edit(one)
    setText(one[0] === 'q' && !one[1].includes('=') ? one[1] : write([one]))
    input.current?.focus()
  }
  const remove = (one: Parameter): void => {
    show(withFirstPage(parameters.filter((other) => write([other]) !== write([one]))))
    input.current?.focus()
  }
  const onKeyDown = (event: KeyboardEvent): void => {
    const last = chips.at(-1)
    if (event.key === 'Escape') {
      setText('')
      edit(undefined)
    } else if (event.key === 'Backspace' && text === '' && last) {
      event.preventDefault()
      begin(last)
    }
  }
  return (
    <form id="query" class="query" onSubmit={apply}>
      <div class="query-field">
        {chips.length > 0 && (
          <ul class="chips" aria-label="Filters">
            {chips.map((one) => {
              const sentence = visible(parameterText(one))
              return (
                <li key={write([one])}>
                  <Button text={sentence} class="plain" title="Change" run={() => begin(one)} />
                  <Button text="✕" class="plain" label={`Remove the filter ${sentence}`} run={() => remove(one)} />
                </li>
              )
            })}
          </ul>
        )}
        <input
          ref={input}
          value={text}
          aria-label="Query"
          placeholder="Search, or filter as data.temperature_gt=22&sort=-id"
          list="suggestions"
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
          enterkeyhint="search"
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={onKeyDown}
        />
      </div>
      <datalist id="suggestions">
        {suggestions(text).map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <State />
    </form>
  )
}

/** Fields that begin as the text, then their operators. */
function suggestions(text: string): readonly string[] {
  if (text === '' || text.includes('=')) return []
  const field = fields.value.find((name) => name === text || `${name}_` === text)
  if (field !== undefined) return Object.keys(OPERATORS).map((one) => `${field}_${one}=`)
  return fields.value.filter((name) => name.startsWith(text)).slice(0, SUGGESTED)
}

/** How many rows there are, whether they are being read, and the server's hint. */
function State() {
  const [isSlow, setSlow] = useState(false)
  const isReading = rows.isReading.value
  useEffect(() => {
    const timer = isReading ? setTimeout(() => setSlow(true), SLOW_MS) : undefined
    if (!isReading) setSlow(false)
    return () => clearTimeout(timer)
  }, [isReading])
  const loaded = shownRows.value
  return (
    <p class="query-state" role="status">
      <span id="total" class="number">
        {isSlow ? 'Searching…' : loaded ? counted(loaded.total, rowName(loaded.parameters)) : ''}
      </span>{' '}
      {loaded?.hint && <span class="warn-text break">{visible(loaded.hint)}</span>}
    </p>
  )
}

/** Whether rows can be filtered by the values of a field. */
export const isFacetable = (): boolean => !isGrouped(parse(place.value.query ?? ''))

/** Adds a filter, or removes it. */
export function toggleFilter(field: string, value: string): void {
  const parameters = parse(place.value.query ?? '')
  const name = filterName(field)
  const isThere = parameters.some(([one, other]) => one === name && other === value)
  const others = parameters.filter(([one, other]) => one !== name || other !== value)
  show(withFirstPage(isThere ? others : [...others, [name, value]]))
}
