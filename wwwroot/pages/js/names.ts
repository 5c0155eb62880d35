// The sensors of readings: which field names them, what is measured, and their names, units and order.
import { computed } from '@preact/signals'
import { changes, client, health } from './app.ts'
import { type Item, macOf, measuresOf, READINGS, SENSORS, unitOf } from './measures.ts'
import { calm, resource } from './resource.ts'
import type { Names } from './words.ts'

/** Fields by which readings are commonly told apart; otherwise it is the first text in them. */
const GROUPS = ['mac', 'sensor', 'sensorId', 'device', 'deviceId', 'station', 'name']
const MOST_SENSORS = 60
const LIVE_MS = 3000
const calmChanges = calm(changes, LIVE_MS)
const MAC = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/i

/** The number of items of each collection, now. */
export const itemCounts = resource(
  () => calmChanges.value,
  () => client.counts(),
)

/** Undefined: there are none, or they are not read yet. */
export const sensors = resource(
  () => (typeof itemCounts.value.value?.[SENSORS] === 'number' ? SENSORS : undefined),
  async () => {
    const page = await client.collection(SENSORS).page(1, MOST_SENSORS).get()
    return new Map(page.items.map((item) => [String(macOf(item as Item)), item as Item]))
  },
)

export const names = computed((): Names => {
  const known = sensors.value.value
  return {
    groupOf: (collection, item) => {
      const time = timeFieldOf(collection)
      if (time === undefined && collection !== SENSORS) return undefined
      const group = item[groupFieldOf(item, time ?? 'timestamp') ?? '']
      return typeof group === 'string' && measuresOf(item).length > 0 ? group : undefined
    },
    nameOf: (group) => {
      const name = known?.get(group)?.name
      if (typeof name === 'string' && name !== '') return name
      return MAC.test(group) ? `Sensor ${group.slice(-5)}` : group
    },
    unitOf: (group, measure) => unitOf(known?.get(group), measure),
  }
})

/** The field of the event time of a collection; undefined if it has none. */
export function timeFieldOf(collection: string): string | undefined {
  return health.value?.eventTime?.[collection] ?? (collection === READINGS ? 'timestamp' : undefined)
}

/** The field that readings such as this one are grouped by. */
export function groupFieldOf(item: Item, time: string): string | undefined {
  const texts = Object.keys(item).filter((name) => typeof item[name] === 'string' && name !== time && name !== 'id')
  return GROUPS.find((name) => texts.includes(name)) ?? texts[0]
}
