// The sensors of their page, now and at a moment: the items of `sensors`. Where those have no readings, or there are
// none, the newest reading of each sensor in `sensordatas` is asked for.
import { computed, effect, signal } from '@preact/signals'
import { type LiveList, Problem } from '../../../src/client/index.ts'
import { client, epoch, health, role } from './app.ts'
import { DAY, itemCounts } from './counts.ts'
import { edge } from './curves.ts'
import { following } from './following.ts'
import { eventTimeField, type Item, macOf, measured, READINGS, SENSORS, timeOfReading } from './measures.ts'
import { firstSensors, hasReadings, isKnown } from './names.ts'
import { calm, resource } from './resource.ts'
import { showProblem } from './shell.tsx'
import { asOf, at } from './time.ts'

type Items = ReadonlyMap<string, Item>

const PAGE = 5000
const SHOWN_MS = 200
const REFRESH_MS = 2000

/** Becomes another number each second. */
export const second = signal(0)
setInterval(() => {
  if (!document.hidden) second.value++
}, 1000)

/** All items of `sensors`, by their ids, once they are read. */
const live = signal<Items>()
/** The items of the present, at first some of them. */
const items = computed((): Items | undefined => {
  if (live.value || !isKnown.value) return live.value
  const isNone = !Object.hasOwn(itemCounts.value.value ?? {}, SENSORS)
  return isNone ? new Map() : firstSensors.value.value && byId(firstSensors.value.value.items)
})
const lacksValues = computed(() => items.value !== undefined && hasReadings.value && lacksReadings(items.value))
const newest = following(
  (collection) => collection === READINGS,
  REFRESH_MS,
  () => lacksValues.value || undefined,
  () => readNewest(undefined),
)
const present = computed((): Items | undefined => {
  if (!items.value || !isKnown.value || role.value === null) return undefined
  if (!lacksValues.value) return items.value
  return newest.value.value || newest.error.value ? withNewest(items.value, newest.value.value ?? new Map()) : undefined
})
/** The sensors of the present, by their ids; undefined until they are read. */
export const today = calm(present, SHOWN_MS)
const past = resource(
  () => asOf.value,
  async (position) => {
    const then = byId(await itemsAt(position))
    return lacksReadings(then) ? withNewest(then, await readNewest(position)) : then
  },
)

/** Those that are shown: until those of another moment are read, those that were shown before. */
export const sensors = signal<Items>()
effect(() => {
  const found = at.value ? past.value.value : today.value
  if (found || role.value === null) sensors.value = found
})
/** How many there are, also while only the first ones are known. */
export const total = computed(() =>
  at.value || live.value ? sensors.value?.size : (firstSensors.value.value?.total ?? sensors.value?.size),
)

for (const { error } of [newest, past, firstSensors]) effect(() => error.value && showProblem(error.value))

/** Keeps the sensors right from now on. The page has begun: only then the client knows the field of the ids. */
export function startSensors(): void {
  let list: LiveList<Item> | undefined
  effect(() => {
    void epoch.value
    if (role.value) list ??= follow()
    else {
      list?.close()
      list = undefined
      live.value = undefined
    }
  })

  function follow(): LiveList<Item> {
    const own = client.collection<Item>(SENSORS).live()
    own.onChange(() => {
      if (list === own) live.value = byId(own.items)
    })
    own.ready.catch((error: unknown) => {
      if (list !== own) return
      list = undefined
      showProblem(error)
    })
    return own
  }
}

async function itemsAt(position: number): Promise<readonly Item[]> {
  const found: Item[] = []
  try {
    for await (const item of client.collection<Item>(SENSORS).asOf(position).all()) found.push(item)
  } catch (error) {
    noneIfMissing(error)
  }
  return found
}

/** There is no such collection yet. */
function noneIfMissing(error: unknown): { items: readonly Item[]; total: number; position: undefined } {
  if (!(error instanceof Problem) || error.status !== 404) throw error
  return { items: [], total: 0, position: undefined }
}

async function readNewest(position: number | undefined): Promise<ReadonlyMap<string, Item>> {
  const found = new Map<string, Item>()
  let moment = position
  for (let page = 1; ; page++) {
    const all = client.collection<Item>(READINGS).page(page, PAGE)
    const answer = await (moment === undefined ? all : all.asOf(moment)).newestBy('mac').catch(noneIfMissing)
    for (const item of answer.items) if (typeof item.mac === 'string') found.set(item.mac, item)
    if (page * PAGE >= answer.total) return found
    moment ??= answer.position
  }
}

function lacksReadings(items: Items): boolean {
  if (eventTimeField() === undefined) return false
  return items.size === 0 || [...items.values()].some((item) => Object.keys(measured(item)).length === 0)
}

/** The items, with newer readings if there are any, and the sensors that are in the readings alone. */
function withNewest(items: Items, byMac: ReadonlyMap<string, Item>): Items {
  const shown = new Map<string, Item>()
  const macs = new Set<string>()
  for (const [key, item] of items) {
    const mac = String(macOf(item))
    macs.add(mac)
    shown.set(key, withReading(item, byMac.get(mac)))
  }
  for (const [mac, reading] of byMac) if (!macs.has(mac)) shown.set(mac, { ...reading, [idField()]: mac })
  return shown
}

/** The item of a sensor with its newest reading, if that is newer than what the item has. */
function withReading(item: Item, reading: Item | undefined): Item {
  if (reading === undefined) return item
  const isNewer = (timeOfReading(reading) ?? 0) > (timeOfReading(item) ?? Number.NEGATIVE_INFINITY)
  return isNewer ? { ...item, ...reading, [idField()]: item[idField()] ?? null } : { ...reading, ...item }
}

function byId(items: readonly Item[]): Items {
  return new Map(items.map((item) => [String(item[idField()]), item]))
}

export function idField(): string {
  return health.value?.idField ?? 'id'
}

/** Whether `sensors` has an item of its own for it. */
export function hasItem(key: string): boolean {
  return live.value?.has(key) ?? false
}

/** The newest reading of all, in milliseconds since 1970, -Infinity without readings, and whether it is older than a day. */
export const times = computed(() => {
  const later = (ms: number, item: Item): number => Math.max(ms, timeOfReading(item) ?? ms)
  const newest = [...(sensors.value?.values() ?? [])].reduce(later, -Infinity)
  return { newest, isOld: newest > -Infinity && edge() - newest > DAY }
})
