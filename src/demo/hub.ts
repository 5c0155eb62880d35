import { creation, type HomeWrite, HUB, READINGS } from './home-write.ts'
import { DAY_MS, DAYS, drawn, HOUR_MS, MINUTE_MS, type Present, readingOf, SENSORS, SILENT, UNITS } from './readings.ts'

const NAMING_MS = 40_000

/** The sensors get their names before their first readings. */
export function namesOf({ ms }: Present): readonly HomeWrite[] {
  return SENSORS.map(({ mac, name }, index) => {
    const item = { id: mac, mac, name, order: index + 1, units: UNITS }
    const command = { type: 'ReplaceItem', collection: 'sensors', key: mac, item } as const
    return { ms: ms - DAYS * DAY_MS + index * NAMING_MS, actor: 'joonas', command }
  })
}

/** The hub sent the readings of 40 minutes together until two days ago, and sends each one at once since. */
const BATCH_MS = 40 * MINUTE_MS
const READINGS_OF_BATCH = 2
const AT_ONCE_MS = 2 * DAY_MS
/** Less than the 15 minutes after which pages call a sensor silent. */
const INTERVAL_MS = 14 * MINUTE_MS

/** Hours before the present in which the bedroom has no readings. */
const GAP = { name: 'Bedroom', fromHours: 14, toHours: 9.5 }

const JITTER = 2000

export function* readingsOf(present: Present): Generator<HomeWrite> {
  const changed = present.ms - AT_ONCE_MS
  let sent = 0
  for (let ms = present.ms - DAYS * DAY_MS + BATCH_MS; ms <= changed; ms += BATCH_MS) {
    const items = SENSORS.flatMap((sensor) =>
      Array.from({ length: READINGS_OF_BATCH }, (_, index) => {
        const ago = ((READINGS_OF_BATCH - 1 - index) * BATCH_MS) / READINGS_OF_BATCH
        return { item: readingOf(sensor, jittered(ms - ago, sent++), present) }
      }),
    )
    const command = { type: 'CreateItems', collection: READINGS, items, isLenient: false } as const
    yield { ms, actor: HUB, command }
  }
  const speaking = SENSORS.filter(({ name }) => name !== SILENT)
  for (const [index, sensor] of speaking.entries()) {
    const last = present.ms - (index * INTERVAL_MS) / speaking.length
    for (let ms = last; ms > changed; ms -= INTERVAL_MS) {
      const hours = (present.ms - ms) / HOUR_MS
      const measured = jittered(ms, sent++)
      if (sensor.name === GAP.name && hours < GAP.fromHours && hours > GAP.toHours) continue
      yield { ms: measured + SENDING_MS, actor: HUB, command: creation(readingOf(sensor, measured, present)) }
    }
  }
}

/** From a measurement to its write. */
const SENDING_MS = 180
const MOST_EARLY_MS = 40_000

/** A time that is up to 40 seconds earlier. */
function jittered(ms: number, index: number): number {
  return Math.floor(ms - SENDING_MS - MOST_EARLY_MS * drawn(JITTER, index))
}
