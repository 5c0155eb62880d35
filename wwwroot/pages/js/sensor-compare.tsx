// What is drawn beside the chosen sensor: other sensors, and the time before.
import { signal } from '@preact/signals'
import { short } from './format.ts'
import { type Item, macOf, nameOf } from './measures.ts'
import { sensors } from './sensor-list.ts'
import { chosen, go, MOST_OTHERS, view } from './sensor-view.ts'

const MOST_OFFERED = 20
const typed = signal('')

export function Compare() {
  const { others, withBefore, range } = view.value
  const add = (event: Event): void => {
    const field = event.currentTarget as HTMLInputElement
    typed.value = field.value
    const key = offered().find((one) => labelOf(one) === field.value)
    if (key === undefined) return
    field.value = ''
    typed.value = ''
    go({ others: [...others, key] })
  }
  return (
    <div class="row compare">
      <label>
        <input
          type="checkbox"
          checked={withBefore}
          disabled={range === 'all'}
          onChange={() => go({ withBefore: !withBefore })}
        />{' '}
        The time before
      </label>
      {others.map((key) => (
        <button
          key={key}
          type="button"
          class="chip"
          aria-label={`Without ${labelOf(key)}`}
          onClick={() => go({ others: others.filter((one) => one !== key) })}
        >
          {short(sensors.value?.has(key) ? nameOf(sensors.value.get(key) as Item) : key, 24)} ✕
        </button>
      ))}
      {others.length < MOST_OTHERS && (sensors.value?.size ?? 0) > 1 && (
        <>
          <input
            list="others"
            placeholder="Compare with…"
            aria-label="Compare with a sensor"
            autocomplete="off"
            onInput={add}
          />
          <datalist id="others">
            {offered().map((key) => (
              <option key={key} value={labelOf(key)} />
            ))}
          </datalist>
        </>
      )}
    </div>
  )
}

/** Sensors that the typed text names. */
function offered(): readonly string[] {
  const found: string[] = []
  const wanted = typed.value.toLowerCase()
  for (const key of sensors.value?.keys() ?? []) {
    const isShown = key === chosen.value || view.value.others.includes(key)
    if (!isShown && labelOf(key).toLowerCase().includes(wanted)) found.push(key)
    if (found.length === MOST_OFFERED) break
  }
  return found
}

function labelOf(key: string): string {
  const item = sensors.value?.get(key)
  if (!item) return key
  const [name, mac] = [short(nameOf(item), 60), short(macOf(item), 60)]
  return name === mac ? name : `${name} (${mac})`
}
