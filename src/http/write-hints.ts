import { faultOfTime } from '../commands/event-times.ts'
import type { EventTimeRule, Rules } from '../commands/rules.ts'
import type { DomainEvent, ItemId } from '../events/event.ts'
import type { Journal } from '../events/journal.ts'
import { formatPath } from '../json/paths.ts'
import { type JsonObject, own } from '../json/value.ts'
import type { Fault } from '../runtime/errors.ts'
import type { Reply } from './exchange.ts'

export interface WriteHintsOptions {
  readonly idField: string
  /** The event times, by collection. */
  readonly times: Rules['times']
  readonly now: () => Date
  readonly journal: Pick<Journal, 'timeMs'>
}

const HEADER = 'Recollect-Hint'

/** Adds a sentence to the hints of a response. */
export function addHint(reply: Reply, hint: string): void {
  const at = reply.headers.indexOf(HEADER)
  reply.set(HEADER, at < 0 ? ascii(hint) : `${reply.headers[at + 1]} ${ascii(hint)}`)
}

/** As a header may hold it. */
function ascii(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Characters of an id that a hint shows. */
const MOST_SHOWN = 64

/** Tells a client what a write did otherwise than it may expect: in one response, of one item or of a batch. */
export class WriteHints {
  readonly #idField: string
  readonly #time: EventTimeRule | undefined
  readonly #nowMs: number
  #replaced = 0
  /** The first replaced id as it was sent, and its replacement. */
  #firstReplaced: readonly [string, string] = ['', '']
  #written = 0
  #untimed = 0
  /** Why the first of the items has no valid event time. */
  #firstUntimed: Fault | undefined

  constructor({ idField, times, now, journal }: WriteHintsOptions, collection: string) {
    this.#idField = idField
    this.#time = times.get(collection)
    this.#nowMs = Math.max(now().getTime(), journal.timeMs)
  }

  /** A new item got this id. */
  created(sent: JsonObject, id: ItemId): void {
    const wanted = own(sent, this.#idField) ?? null
    if (wanted === null || (typeof wanted !== 'object' && String(wanted) === String(id))) return
    if (this.#replaced++ === 0) this.#firstReplaced = [shortened(JSON.stringify(wanted)), JSON.stringify(id)]
  }

  written(event: DomainEvent | undefined): void {
    if (event && 'item' in event) this.timed(event.item.value)
  }

  /** An item whose event time counts. */
  timed(item: JsonObject): void {
    if (!this.#time) return
    this.#written++
    const fault = faultOfTime(item, this.#time, this.#nowMs)
    if (!fault) return
    this.#untimed++
    this.#firstUntimed ??= fault
  }

  tell(reply: Reply): void {
    if (this.#replaced > 0) {
      const [sent, id] = this.#firstReplaced
      const one = `The id ${sent} was replaced by ${id}.`
      const many = `${this.#replaced} ids were replaced, the first, ${sent}, by ${id}.`
      addHint(reply, `${this.#replaced === 1 ? one : many} With Api.ClientIdsOnPost POST keeps the ids of clients.`)
    }
    if (this.#time && this.#firstUntimed) {
      const which = this.#written === 1 ? 'The item has' : `${this.#untimed} of ${this.#written} items have`
      const why = `"${formatPath(this.#time.path)}" ${this.#firstUntimed.message}`
      addHint(reply, `${which} no valid event time${this.#written === 1 ? '' : '; of the first'}: ${why}.`)
    }
  }
}

function shortened(text: string): string {
  return text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN)}...` : text
}
