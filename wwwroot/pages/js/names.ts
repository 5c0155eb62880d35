// The sensors as all pages know them: the first ones, the field of a reading that names its sensor, names and units.
import { computed } from '@preact/signals'
import type { Page } from '../../../src/client/index.ts'
import { client, health } from './app.ts'
import { itemCounts } from './counts.ts'
import { type Item, macOf, measuresOf, READINGS, SENSORS, unitOf } from './measures.ts'
import { resource } from './resource.ts'
import type { Names } from './words.ts'

/** Fields by which readings are commonly told apart; otherwise it is the first text in them. */
const GROUPS = ['mac', 'sensor', 'sensorId', 'device', 'deviceId', 'station', 'name']
const FIRST = 60
const MAC = /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/i

/** Whether it is known which collections there are, and which fields have the ids and times. */
export const isKnown = computed(() => itemCounts.value.value !== undefined && health.value !== undefined)
/** Whether there have been readings. */
export const hasReadings = computed(() => Object.hasOwn(itemCounts.value.value ?? {}, READINGS))

/** The first sensors, in their order; undefined: there are none, or they are not read yet. */
export const firstSensors = resource(
  () => (typeof itemCounts.value.value?.[SENSORS] === 'number' ? SENSORS : undefined),
  async (collection): Promise<Page<Item>> => {
    const all = client.collection<Item>(collection)
    const page = await all.page(1, FIRST).get()
    if (page.total <= FIRST) return page
    // A strict server refuses to sort by a field that no item has.
    const fields = ['order', 'name', 'mac'].filter((name) => page.items.some((item) => Object.hasOwn(item, name)))
    return fields.length > 0
      ? all
          .sort(...fields)
          .page(1, FIRST)
          .get()
      : page
  },
)

/** The first sensors, by their mac. */
export const sensorsByMac = computed(() => itemsByMac(firstSensors.value.value))

export function itemsByMac(page: Page<Item> | undefined): ReadonlyMap<string, Item> {
  return new Map(page?.items.map((item) => [String(macOf(item)), item]))
}

export const names = computed((): Names => {
  const known = sensorsByMac.value
  return {
    groupOf: (collection, item) => {
      const time = timeFieldOf(collection)
      if (time === undefined && collection !== SENSORS) return undefined
      const group = item[groupFieldOf(item, time ?? 'timestamp') ?? '']
      return typeof group === 'string' && measuresOf(item).length > 0 ? group : undefined
    },
    nameOf: (group) => {
      const name = known.get(group)?.name
      if (typeof name === 'string' && name !== '') return name
      return MAC.test(group) ? `Sensor ${group.slice(-5)}` : group
    },
    unitOf: (group, measure) => unitOf(known.get(group), measure),
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

/** The name of a sensor as it is sorted: numbers have leading zeros, so that 2 is before 10. */
export function sortable(name: string): string {
  return MAC.test(name) ? name : name.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(12, '0'))
}
