// The query: one field for a search or the API's own parameters, which become chips, and what the server says about it.
import { computed } from '@preact/signals'
import { useRef, useState } from 'preact/hooks'
import { Button } from './controls.tsx'
import { counted, visible } from './format.ts'
import { add, ask, OPERATORS, parameterText, parse, query, rowName, withoutPaging, write } from './query.ts'
import { settled } from './resource.ts'
import { fields, rows, shownRows } from './rows.ts'

/** A search that takes longer is seen to be running. */
const SLOW_MS = 300
const SAID_MS = 1000
const SUGGESTED = 40

/** How many rows there are, and whether they are being read. */
const isLong = settled(rows.isReading, SLOW_MS)
const total = computed(() => {
  if (isLong.value && rows.isReading.value) return 'Searching…'
  return shownRows.value ? counted(shownRows.value.total, rowName(shownRows.value.query)) : ''
})
const hint = computed(() => visible(shownRows.value?.hint ?? ''))
/** For screen readers: what lasts, not each number of a replay. */
const said = settled(
  computed(() => `${total.value} ${hint.value}`),
  SAID_MS,
)

export function QueryBar() {
  const input = useRef<HTMLInputElement>(null)
  const [text, setText] = useState('')
  /** The parameter whose text is in the field. */
  const [edited, setEdited] = useState<readonly [name: string, value: string]>()
  const chips = [...withoutPaging(query.value)].filter((one) => String(one) !== String(edited))
  const begin = (typed: string, changed?: typeof edited): void => {
    setText(typed)
    setEdited(changed)
    input.current?.focus()
  }
  const edit = (name: string, value: string): void => {
    const isSearch = name === 'q' && !value.includes('=')
    begin(isSearch ? value : write(new URLSearchParams({ [name]: value })), [name, value])
  }
  const apply = (event: Event): void => {
    event.preventDefault()
    const typed = parse(text)
    if (String(typed) === '' && !edited) return
    begin('')
    ask((next) => {
      if (edited) next.delete(...edited)
      add(next, typed)
    })
  }
  const remove = (name: string, value: string): void => {
    ask((next) => next.delete(name, value))
    input.current?.focus()
  }
  return (
    <form id="query" class="query" onSubmit={apply}>
      <div class="query-field">
        {chips.length > 0 && (
          <ul class="chips" aria-label="Filters">
            {chips.map(([name, value]) => {
              const sentence = visible(parameterText(name, value))
              return (
                <li key={`${name}=${value}`}>
                  <Button text={sentence} class="plain" title="Change" run={() => edit(name, value)} />
                  <Button
                    text="✕"
                    class="plain"
                    label={`Remove the filter ${sentence}`}
                    run={() => remove(name, value)}
                  />
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
          onKeyDown={({ key }) => key === 'Escape' && begin('')}
        />
      </div>
      <datalist id="suggestions">
        {suggestions(text).map((one) => (
          <option key={one} value={one} />
        ))}
      </datalist>
      <p class="query-state">
        <span id="total" class="number">
          {total}
        </span>{' '}
        <span class="warn-text break">{hint}</span>
        <span class="hidden-text" role="status">
          {said}
        </span>
      </p>
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
