// A choice of lines beside that of the chosen sensor: other sensors, and the time before.
import { Button } from './controls.tsx'
import { short } from './format.ts'
import { nameOf } from './measures.ts'
import { sensors } from './sensor-list.ts'
import { chosen, go, MOST_OTHERS, order, view } from './sensor-view.ts'

/** A search in the list leads to others. */
const MOST_OFFERED = 50

export function Compare() {
  const { others, withBefore, range } = view.value
  const shown = [chosen.value, ...others]
  const offered = order.value.filter((key) => !shown.includes(key)).slice(0, MOST_OFFERED)
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
        <Button
          key={key}
          class="chip"
          text={`${labelOf(key)} ✕`}
          label={`Without ${labelOf(key)}`}
          run={() => go({ others: others.filter((one) => one !== key) })}
        />
      ))}
      {others.length < MOST_OTHERS && offered.length > 0 && (
        <select
          aria-label="Compare with a sensor"
          value=""
          onChange={({ currentTarget }) => go({ others: [...others, currentTarget.value] })}
        >
          <option value="">Compare with…</option>
          {offered.map((key) => (
            <option key={key} value={key}>
              {labelOf(key)}
            </option>
          ))}
        </select>
      )}
    </div>
  )
}

function labelOf(key: string): string {
  return short(nameOf(sensors.value?.get(key) ?? { mac: key }), 24)
}
