import type { Command } from '../commands/command.ts'
import type { CreateItems } from '../commands/create-items.ts'
import type { JsonObject } from '../json/value.ts'

export const READINGS = 'sensordatas'

/** One request of the past. */
export interface HomeWrite {
  /** Its time in milliseconds since 1970. */
  readonly ms: number
  readonly actor: string
  readonly command: Command | CreateItems | DeleteReadings
}

/** A DELETE of all readings of a sensor. */
interface DeleteReadings {
  readonly type: 'DeleteReadings'
  readonly mac: string
}

/** The actor that sends readings. */
export const HUB = 'hub'

/** A POST of a reading. */
export function creation(reading: JsonObject): Command {
  return { type: 'CreateItem', collection: READINGS, item: reading }
}
