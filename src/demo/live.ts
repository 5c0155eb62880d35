import type { Command } from '../commands/command.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Schedule } from '../runtime/turns.ts'
import { creation, HUB } from './home-write.ts'
import { type Present, readingOf, SENSORS, SILENT } from './readings.ts'

const INTERVAL_MS = 1000
/** One hour of readings. */
const COUNT = 3600

export interface LiveReadings {
  /** The end of the home's past, whose curves continue. */
  readonly present: Present
  readonly now: () => Date
  readonly schedule: Schedule
  /** Writes as a client does. */
  readonly write: (command: Command, actor: string) => Promise<unknown>
  /** Called after the last reading. */
  readonly ended: () => void
}

/** Writes a reading each second for an hour: the sensors take turns, and the silent one stays silent. */
export function continueReadings({ present, now, schedule, write, ended }: LiveReadings): void {
  const speaking = SENSORS.filter(({ name }) => name !== SILENT)
  let count = 0
  const next = async (): Promise<void> => {
    const sensor = speaking[count % speaking.length] as (typeof SENSORS)[number]
    // A reading that the server cannot take is lost, like that of a client.
    await write(creation(readingOf(sensor, now().getTime(), present)), HUB).catch((error) => {
      if (!(error instanceof Refusal)) throw error
    })
    count++
    if (count < COUNT) schedule(next, INTERVAL_MS)
    else ended()
  }
  schedule(next, INTERVAL_MS)
}
