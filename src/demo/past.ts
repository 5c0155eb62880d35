import { keyOf } from '../collections/item.ts'
import { Overlay } from '../collections/overlay.ts'
import type { Command } from '../commands/command.ts'
import { decideBulk } from '../commands/create-items.ts'
import { decide, isEvents } from '../commands/decide.ts'
import type { Rules } from '../commands/rules.ts'
import type { DomainEvent, ItemId } from '../events/event.ts'
import type { Recorded } from '../events/journal.ts'
import type { JsonValue } from '../json/value.ts'
import type { List } from '../runtime/chunked-list.ts'
import { ENDLESS } from '../runtime/turns.ts'
import { type HomeWrite, READINGS } from './home-write.ts'
import { namesOf, readingsOf } from './hub.ts'
import { postsOf } from './posts.ts'
import { drawn, type Present } from './readings.ts'

/**
 * The past of a home as the writes of its journal, at most 10,000 events. Only the present makes a difference: for two
 * presents at the same time of the day, the pasts differ in their dates alone.
 * @param rules those of a server with the settings of a home
 */
export async function* pastOf(present: Present, rules: Rules): AsyncGenerator<Recorded> {
  const home = new Home(rules)
  const writes = [...namesOf(present), ...readingsOf(present), ...postsOf(present)].sort((a, b) => a.ms - b.ms)
  for (const [index, { ms, actor, command }] of writes.entries()) {
    const { position, events } = await home.write(command)
    yield { position, time: new Date(ms).toISOString(), actor, requestId: requestIdOf(index), events }
  }
}

/** Decides the writes as a server does. */
class Home {
  readonly #rules: Rules
  readonly #state: Overlay
  /** The ids of the readings, by the sensor's mac. */
  readonly #readings = new Map<JsonValue | undefined, ItemId[]>()

  constructor(rules: Rules) {
    this.#rules = rules
    this.#state = new Overlay(() => undefined, 0, rules.keyFields)
  }

  async write(command: HomeWrite['command']): Promise<Pick<Recorded, 'position' | 'events'>> {
    const position = this.#state.head + 1
    const events = await this.#decide(command)
    this.#state.accept(events)
    for (const event of events) {
      if (event.collection !== READINGS || event.type !== 'ItemCreated') continue
      const { mac } = event.item.value
      const ids = this.#readings.get(mac)
      if (ids) ids.push(event.id)
      else this.#readings.set(mac, [event.id])
    }
    return { position, events }
  }

  async #decide(command: HomeWrite['command']): Promise<List<DomainEvent>> {
    switch (command.type) {
      case 'CreateItems':
        return (await decideBulk(command, this.#state, this.#rules, ENDLESS)).events
      case 'DeleteReadings': {
        const ids = this.#readings.get(command.mac) ?? []
        return ids.flatMap((id) => this.#one({ type: 'DeleteItem', collection: READINGS, key: keyOf(id) }))
      }
      default:
        return this.#one(command)
    }
  }

  #one(command: Command): readonly DomainEvent[] {
    const decision = decide(command, this.#state, this.#rules)
    return isEvents(decision) ? decision : []
  }
}

const REQUESTS = 1000

/** A UUID of version 4 with fixed random digits. */
function requestIdOf(index: number): string {
  const digits = [0, 1, 2, 3].map((part) =>
    Math.floor(drawn(REQUESTS + part, index) * 2 ** 32)
      .toString(16)
      .padStart(8, '0'),
  )
  return digits.join('').replace(/^(.{8})(.{4}).(.{3}).(.{3})(.{12})$/, '$1-$2-4$3-8$4-$5')
}
