// How often the values of fields with few of them occur. A click filters by one.
import { computed, signal } from '@preact/signals'
import { parsePath } from '../../../src/json/paths.ts'
import type { JsonObject } from '../../../src/json/value.ts'
import { client } from './app.ts'
import { Button } from './controls.tsx'
import { count, short } from './format.ts'
import { ask, isGrouped, query, withoutPaging } from './query.ts'
import { calm, resource } from './resource.ts'
import { fields, idField, listOf, pathOfQuery, shownRows, touched, valueAt } from './rows.ts'

const FACETS = 4
const MOST_VALUES = 12
const LIVE_MS = 3000

const isOpen = signal(false)
const calmTouched = calm(touched, LIVE_MS)

/** Fields of the rows with few values, which occur several times, and those that are filtered by. */
const candidates = computed(() =>
  isGrouped(query.value)
    ? []
    : fields.value.filter((name) => query.value.has(filterName(name)) || hasFewValues(name)).slice(0, FACETS),
)

function hasFewValues(field: string): boolean {
  if (field === idField()) return false
  const path = parsePath(field)
  const values = (shownRows.value?.items ?? []).map((item) => valueAt(item, path) ?? null).filter((one) => one !== null)
  const different = new Set(values).size
  const areShort = values.every((value) => typeof value === 'string' || typeof value === 'boolean')
  return areShort && different > 0 && different <= MOST_VALUES && different * 2 <= values.length
}

/** With the operator it is no other parameter, whatever the field is called. */
function filterName(field: string): string {
  return `${field}_eq`
}

const facets = resource(
  () => {
    if (!isOpen.value || !shownRows.value) return undefined
    const { collection, question } = shownRows.value
    return { collection, question, names: candidates.value, turn: calmTouched.value }
  },
  ({ collection, names }) => Promise.all(names.map((name) => read(collection, name))),
)

/** The filters of the other fields apply. */
async function read(collection: string, field: string) {
  const grouping = withoutPaging(query.peek())
  for (const name of [filterName(field), 'sort', 'fields']) grouping.delete(name)
  grouping.set('aggregate', 'count')
  grouping.set('groupBy', field)
  grouping.set('sort', `-count,${field}`)
  grouping.set('pageSize', String(MOST_VALUES))
  const response = await client.request('GET', pathOfQuery(collection, grouping))
  const groups = (listOf(response) as readonly JsonObject[]).filter((row) => row[field] !== null)
  return { field, values: groups.map((row) => ({ text: String(row[field]), times: Number(row.count) })) }
}

export function Facets() {
  const onToggle = (event: Event): void => {
    isOpen.value = (event.currentTarget as HTMLDetailsElement).open
  }
  return (
    <details class="card facets" open={isOpen.value} onToggle={onToggle}>
      <summary>Values</summary>
      {candidates.value.length === 0 && <p class="quiet">No field has few values.</p>}
      {facets.value.value?.map(({ field, values }) => (
        <fieldset key={field} aria-label={`Values of ${field}`}>
          <p class="quiet break">{short(field, 60)}</p>
          {values.map(({ text, times }) => {
            const filter = [filterName(field), text] as const
            const isOn = query.value.has(...filter)
            const toggle = (): void => ask((next) => (isOn ? next.delete(...filter) : next.append(...filter)))
            return (
              <Button class="plain" key={text} aria-pressed={isOn} run={toggle}>
                <span class="break">{short(text, 60) || '""'}</span>
                <span class="number quiet push">{count(times)}</span>
              </Button>
            )
          })}
        </fieldset>
      ))}
    </details>
  )
}
