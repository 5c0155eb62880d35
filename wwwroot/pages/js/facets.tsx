// How often the values of fields with few of them occur. A click filters by one.
import { computed, signal } from '@preact/signals'
import type { JsonObject } from '../../../src/json/value.ts'
import { client } from './app.ts'
import { Button } from './controls.tsx'
import { count, short } from './format.ts'
import { filterName, parse, place, withoutPaging } from './query.ts'
import { isFacetable, toggleFilter } from './query-bar.tsx'
import { calm, resource } from './resource.ts'
import { fields, idField, listOf, pathOfColumn, pathOfQuery, shownRows, touched, valueAt } from './rows.ts'

const FACETS = 4
const MOST_VALUES = 12
const LIVE_MS = 3000
const OPEN = 'recollect.facets'
const NATURAL = new Intl.Collator('en', { numeric: true })

interface Facet {
  readonly field: string
  readonly values: readonly { readonly text: string; readonly count: number }[]
}

const isOpen = signal(localStorage.getItem(OPEN) !== null)
const calmTouched = calm(touched, LIVE_MS)

/** Fields of the rows with few values, which occur several times. */
const candidates = computed(() => {
  const items = shownRows.value?.items ?? []
  if (!isFacetable()) return []
  const isFew = (name: string): boolean => {
    if (name === idField()) return false
    const path = pathOfColumn(name)
    const values = items.map((item) => valueAt(item, path)).filter((value) => value !== undefined && value !== null)
    const distinct = new Set(values).size
    return (
      values.every((value) => typeof value === 'string' || typeof value === 'boolean') &&
      distinct > 0 &&
      distinct <= MOST_VALUES &&
      distinct * 2 <= values.length
    )
  }
  const filtered = parse(place.value.query ?? '').map(([name]) => name)
  return fields.value.filter((name) => isFew(name) || filtered.includes(filterName(name))).slice(0, FACETS)
})

const facets = resource(
  () => {
    if (!isOpen.value || candidates.value.length === 0 || !shownRows.value) return undefined
    const { collection, question } = shownRows.value
    return { collection, question, names: candidates.value, turn: calmTouched.value }
  },
  ({ collection, names }) => Promise.all(names.map((name) => read(collection, name))),
)

/** The filters of the other fields apply. */
async function read(collection: string, field: string): Promise<Facet> {
  const own = filterName(field)
  const others = withoutPaging(parse(place.peek().query ?? '')).filter(
    ([name]) => name !== own && name !== 'sort' && name !== 'fields',
  )
  const grouping = [
    ...others,
    ['aggregate', 'count'],
    ['groupBy', field],
    ['sort', '-count'],
    ['pageSize', String(MOST_VALUES)],
  ] as const
  const response = await client.request('GET', pathOfQuery(collection, grouping))
  const values = (listOf(response) as readonly JsonObject[])
    .filter((row) => row[field] !== null)
    .map((row) => ({ text: String(row[field]), count: Number(row.count) }))
  return { field, values: values.sort((a, b) => b.count - a.count || NATURAL.compare(a.text, b.text)) }
}

export function Facets() {
  if (candidates.value.length === 0) return null
  const toggle = (event: Event): void => {
    isOpen.value = (event.currentTarget as HTMLDetailsElement).open
    if (isOpen.value) localStorage.setItem(OPEN, '1')
    else localStorage.removeItem(OPEN)
  }
  const parameters = parse(place.value.query ?? '')
  return (
    <details class="card facets" open={isOpen.value} onToggle={toggle}>
      <summary>Values</summary>
      {facets.value.value?.map(({ field, values }) => (
        <fieldset key={field} aria-label={`Values of ${field}`}>
          <p class="quiet break">{short(field, 60)}</p>
          {values.map(({ text, count: times }) => (
            <Button
              class="plain"
              key={text}
              aria-pressed={parameters.some(([name, value]) => name === filterName(field) && value === text)}
              run={() => toggleFilter(field, text)}
            >
              <span class="break">{short(text, 60) || '""'}</span>
              <span class="number quiet push">{count(times)}</span>
            </Button>
          ))}
        </fieldset>
      ))}
    </details>
  )
}
