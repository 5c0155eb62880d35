// The page of the sensors: a tile for each, and of the chosen one what it measured over time.
import '../css/base.css'
import '../css/shell.css'
import 'uplot/dist/uPlot.min.css'
import '../css/sensors.css'
import { render } from 'preact'
import { role } from './app.ts'
import { curlOf } from './base.ts'
import { edge } from './curves.ts'
import { count, counted, span as lasting } from './format.ts'
import { hasLowBattery } from './measures.ts'
import { Chart } from './sensor-chart.tsx'
import { Grid, isSilent } from './sensor-grid.tsx'
import { second, sensors, startSensors, times, total } from './sensor-list.ts'
import { go, order, SORTS, view } from './sensor-view.ts'
import { startShell } from './shell.tsx'
import { at } from './time.ts'

function Sensors() {
  const isIn = role.value !== null
  return (
    <>
      <div class="row sensors-head">
        <h1>Sensors</h1>
        {isIn && <Summary />}
      </div>
      {isIn && sensors.value?.size === 0 && <Empty />}
      {isIn && sensors.value?.size !== 0 && (
        <div class="sensors">
          <section class="list" aria-label="All sensors">
            <Controls />
            <Grid />
          </section>
          <Chart />
        </div>
      )}
    </>
  )
}

function Summary() {
  void second.value
  const shown = [...(sensors.value?.values() ?? [])]
  const [silent, low] = [shown.filter(isSilent).length, shown.filter(hasLowBattery).length]
  const all = counted(total.value ?? 0, 'sensor')
  const { isOld, newest } = times.value
  const parts = [
    view.value.q.trim() === '' ? all : `${count(order.value.length)} of ${all}`,
    isOld && `the last reading ${lasting((edge() - newest) / 1000)} ${at.value ? 'before' : 'ago'}`,
    silent > 0 && `${count(silent)} silent`,
    low > 0 && `${count(low)} with a low battery`,
  ]
  return (
    <p id="summary" class="quiet number">
      {sensors.value ? parts.filter(Boolean).join(', ') : 'Reading…'}
    </p>
  )
}

function Controls() {
  return (
    <form id="controls" class="row" onSubmit={(event) => event.preventDefault()}>
      <input
        type="search"
        placeholder="Name or address"
        aria-label="Search sensors"
        autocomplete="off"
        value={view.value.q}
        onInput={(event) => go({ q: event.currentTarget.value }, { isStep: false })}
      />
      <label class="row">
        Sort
        <select
          value={view.value.sort || 'order'}
          onChange={({ currentTarget: { value } }) => go({ sort: value === 'order' ? '' : value }, { isStep: false })}
        >
          {Object.entries(SORTS).map(([name, [label]]) => (
            <option key={name} value={name}>
              {label}
            </option>
          ))}
        </select>
      </label>
    </form>
  )
}

function Empty() {
  const first = { mac: 'F4:A5:74:89:16:57', timestamp: new Date(edge()).toISOString(), data: { temperature: 21.5 } }
  return (
    <div class="note">
      <p>No sensor has sent a reading yet. A first one creates its sensor:</p>
      <pre class="break">{curlOf('sensors', first)}</pre>
    </div>
  )
}

new ResizeObserver(([shell]) => {
  document.documentElement.style.setProperty('--shell', `${shell?.borderBoxSize[0]?.blockSize ?? 0}px`)
}).observe(document.getElementById('shell') as HTMLElement)
render(<Sensors />, document.getElementById('main') as HTMLElement)
void startShell().then(startSensors)
