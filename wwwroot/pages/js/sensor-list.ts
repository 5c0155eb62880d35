// The sensors, now and at a moment: the items of `sensors`. Where those have no readings, or there are none, the newest
// reading of each sensor in `sensordatas` is asked for.
import { computed, effect, type ReadonlySignal, signal } from '@preact/signals'
import { type LiveList, type Page, Problem } from '../../../src/client/index.ts'
import { client, epoch, health, now, onUpdated, role } from './app.ts'
import { DAY } from './counts.ts'
import { eventTimeField, type Item, macOf, measured, READINGS, SENSORS, timeOfReading } from './measures.ts'
import { calm, isPassing, resource } from './resource.ts'
import { withKept } from './sensor-settings.tsx'
import { showProblem } from './shell.tsx'
import { asOf, at, isMomentKnown } from './time.ts'

type Items = ReadonlyMap<string, Item>

const PAGE = 5000
/** So many are read at once, before all of them come by the connection. */
const FIRST = 60
const SHOWN_MS = 200
const REFRESH_MS = 2000
/** The pause between two reads is at least so many times as long as a read took. */
const REST_TIMES = 10
/** A sensor that is silent for longer is marked: longer than the first, and for longer than the second in any case. */
const SILENT_MS = [15 * 60_000, 60 * 60_000] as const
const SILENT_TIMES = 6

/** Counts the changes of a collection, so seldom that most of the time nothing is read. */
export function rereads(collection: string, leastMs: number) {
  const turn = signal(0)
  let isStale = false
  let next = 0
  onUpdated((updated) => {
    if (updated.collection === collection) isStale = true
  })
  setInterval(() => {
    if (!isStale || document.hidden || performance.now() < next) return
    isStale = false
    turn.value++
  }, 500)
  return {
    turn: turn as ReadonlySignal<number>,
    async timed<T>(read: () => Promise<T>): Promise<T> {
      const began = performance.now()
      try {
        return await read()
      } finally {
        next = performance.now() + Math.max(leastMs, REST_TIMES * (performance.now() - began))
      }
    },
  }
}

/** The names of the collections, with the number of items of each. */
const counts = resource(
  () => epoch.value,
  () => client.counts(),
)
const readings = rereads(READINGS, REFRESH_MS)
/** Whether there have been readings. */
export const hasReadings = computed(() => readings.turn.value > 0 || Object.hasOwn(counts.value.value ?? {}, READINGS))
/** Whether it is known which collections there are, and which fields have the ids and times. */
export const isKnown = computed(() => counts.value.value !== undefined && health.value !== undefined)

/** The items of `sensors`, by their ids. */
const live = signal<Items>()
/** The first of them, until all are read. */
const first = resource(
  () => live.value === undefined || undefined,
  () => client.collection<Item>(SENSORS).sort('order', 'name', 'mac').page(1, FIRST).get().catch(noneIfRefused),
)
const newest = resource(
  () => (live.value && lacksReadings(live.value) && hasReadings.value ? readings.turn.value : undefined),
  () => readings.timed(() => readNewest(undefined)),
)
const past = resource(
  () => asOf.value,
  async (position) => {
    const items = byId(await itemsAt(position))
    return withNewest(items, lacksReadings(items) ? await readNewest(position) : new Map())
  },
)
/** The sensors of the present, by their ids; undefined until they are read. */
export const today = calm(
  computed((): Items | undefined => {
    if (!health.value || role.value === null) return undefined
    const items = live.value ?? (first.value.value?.items.length ? byId(first.value.value.items) : undefined)
    if (!items) return undefined
    const isReading = hasReadings.value || !isKnown.value
    if (isReading && lacksReadings(items) && !newest.value.value && !newest.error.value) return undefined
    return withNewest(items, newest.value.value ?? new Map())
  }),
  SHOWN_MS,
)
let hasShownToday = false
/** Those that are shown: until those of a moment are read, those that were shown before. */
export const sensors = computed((): Items | undefined => {
  if (!isMomentKnown.value) return undefined
  hasShownToday ||= at.value === undefined
  // The present stays until the past is read, and is not shown before it.
  return at.value === undefined ? today.value : (past.value.value ?? (hasShownToday ? today.value : undefined))
})
/** Whether all sensors of the present are known, not the first of them alone. */
export const isWhole = computed(() => at.value !== undefined || live.value !== undefined)
/** How many there are, also while only the first ones are known. */
export const total = computed(() => (isWhole.value ? sensors.value?.size : first.value.value?.total))

let list: LiveList<Item> | undefined

/** Keeps the sensors right from now on. The page has begun: only then the client knows the field of the ids. */
export function startSensors(): void {
  effect(() => {
    void epoch.value
    if (role.value === null || role.value === undefined) {
      list?.close()
      list = undefined
      live.value = undefined
    } else if (!list) follow()
  })
}

for (const { error } of [newest, past]) effect(() => error.value && showProblem(error.value))

function follow(): void {
  const own = client.collection<Item>(SENSORS).live()
  list = own
  own.onChange(({ entered, updated, left, wasReset }) => {
    if (list !== own) return
    if (!live.peek() || wasReset) {
      live.value = byId(own.items)
      return
    }
    const items = new Map(live.peek())
    for (const item of left) items.delete(idOf(item))
    for (const item of [...entered, ...updated.map((one) => one.item)]) items.set(idOf(item), item)
    live.value = items
  })
  own.ready.catch((error: unknown) => {
    if (list !== own) return
    list = undefined
    showProblem(error)
  })
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

/** One can do without the first ones, such as where the server refuses to sort by a field that no item has. */
function noneIfRefused(error: unknown): Pick<Page<Item>, 'items' | 'total'> {
  if (isPassing(error)) throw error
  return { items: [], total: 0 }
}

/** There is no such collection yet. */
function noneIfMissing(error: unknown): Pick<Page<Item>, 'items' | 'total'> {
  if (!(error instanceof Problem) || error.status !== 404) throw error
  return { items: [], total: 0 }
}

async function readNewest(position: number | undefined): Promise<ReadonlyMap<string, Item>> {
  const found = new Map<string, Item>()
  let moment = position
  for (let page = 1; ; page++) {
    const all = client.collection<Item>(READINGS).page(page, PAGE)
    const answer = await (moment === undefined ? all : all.asOf(moment)).newestBy('mac').catch(noneIfMissing)
    for (const item of answer.items) if (typeof item.mac === 'string') found.set(item.mac, item)
    if (page * PAGE >= answer.total) return found
    moment ??= 'position' in answer ? answer.position : undefined
  }
}

function lacksReadings(items: Items): boolean {
  if (eventTimeField() === undefined) return false
  for (const item of items.values()) if (Object.keys(measured(item)).length === 0) return true
  return items.size === 0
}

/** The items, with newer readings if there are any, and the sensors that are in the readings alone. */
function withNewest(items: Items, byMac: ReadonlyMap<string, Item>): Items {
  const shown = new Map<string, Item>()
  const macs = new Set<string>()
  for (const [key, item] of items) {
    const mac = String(macOf(item))
    macs.add(mac)
    shown.set(key, withKept(key, withReading(item, byMac.get(mac))))
  }
  for (const [mac, reading] of byMac) {
    if (!macs.has(mac)) shown.set(mac, withKept(mac, { ...reading, [idField()]: mac }))
  }
  return shown
}

/** The item of a sensor with its newest reading, if that is newer than what the item has. */
function withReading(item: Item, reading: Item | undefined): Item {
  if (reading === undefined) return item
  const isNewer = (timeOfReading(reading) ?? 0) > (timeOfReading(item) ?? Number.NEGATIVE_INFINITY)
  return isNewer ? { ...item, ...reading, [idField()]: item[idField()] ?? null } : { ...reading, ...item }
}

function byId(items: readonly Item[]): Items {
  return new Map(items.map((item) => [idOf(item), item]))
}

function idOf(item: Item): string {
  return String(item[idField()])
}

function idField(): string {
  return health.value?.idField ?? 'id'
}

/** Whether `sensors` has an item of its own for it. */
export function hasItem(key: string): boolean {
  return live.value?.has(key) ?? false
}

/** The time that ages are counted from, in milliseconds since 1970: the present, or the moment that is shown. */
export function edge(): number {
  return at.value?.ms ?? now()
}

/** Of the sensors that are shown: the newest reading, whether that is old, and since when the silent ones are silent. */
export const times = computed(() => {
  const all = [...(sensors.value?.values() ?? [])].flatMap((item) => timeOfReading(item) ?? []).sort((a, b) => b - a)
  const newestMs = all[0]
  const isOld = newestMs !== undefined && edge() - newestMs > DAY
  return { newest: newestMs, isOld, median: all[(all.length - 1) >> 1] }
})

/** Whether a sensor sends no more. Where all readings are old, those that are older than the others. */
export function isSilent(time: number | undefined): boolean {
  const { newest: newestMs, isOld, median } = times.value
  if (time === undefined || newestMs === undefined) return time === undefined
  const base = isOld ? newestMs : edge()
  // Where most sensors report seldom, that is no silence.
  const usual = SILENT_TIMES * (base - (median ?? base))
  return base - time > Math.min(SILENT_MS[1], Math.max(SILENT_MS[0], usual))
}
