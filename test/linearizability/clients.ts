import { within } from '../support/deadline.ts'
import { Random } from '../support/random.ts'
import { type Answer, type Fields, History, type Request } from './history.ts'

/** The service under test, at any distance. */
export interface Service {
  /**
   * Undefined when nobody knows what came of it. A client that does not wait gives up at some time after it has
   * asked. While the service is down it waits.
   */
  ask(item: string, request: Request, waits: boolean): Promise<Answer | undefined>
  /** Ends the service, well or not, and starts it again. */
  restart(): Promise<void>
}

export interface Plan {
  readonly items: readonly string[]
  readonly clients: number
  readonly operations: number
  /** Whether some writes come with an Idempotency-Key. */
  readonly keys: boolean
  /** Lets so much else happen between two requests of a client. */
  readonly pause: (random: Random) => Promise<void>
}

export interface PlanOptions extends Pick<Plan, 'pause'> {
  /** A prefix of the names of items. */
  readonly prefix?: string
  readonly keys?: boolean
}

/** A cluster may be without a leader again and again. */
const HISTORY_DEADLINE_MS = 8 * 60_000

/** From three to six clients on one to three items, and some 30 to 60 requests. */
export function planOf(random: Random, { prefix = '', keys = true, pause }: PlanOptions): Plan {
  const items = ['a', 'b', 'c'].slice(0, 1 + random.integer(3)).map((name) => prefix + name)
  return { items, clients: 3 + random.integer(4), operations: 30 + random.integer(31), keys, pause }
}

/** Lets clients read and write at once, each waiting for its answer, and at the end reads what is left. */
export async function work(service: Service, random: Random, plan: Plan): Promise<History> {
  const { items, clients, operations, keys, pause } = plan
  const history = new History()
  /** The tags seen last, by whomever, so that clients contend for the same one. */
  const tags = new Map<string, string>()
  let asked = 0
  const client = async (number: number): Promise<void> => {
    const own = new Random(random.integer(2 ** 32))
    while (asked < operations) {
      const nth = ++asked
      await pause(own)
      const item = own.pick(items)
      const request = requestOf(own, number, nth, tags.get(item), keys ? `${item}-${nth}` : undefined)
      const waits = own.chance(0.95)
      const answer = await history.record(number, item, request, async () => {
        const first = await service.ask(item, request, waits)
        if (request.key === undefined || !waits || (first && own.chance(0.6))) return first
        // A retry with the same key is the same request: it is stored once, and then its answer is that of the first.
        await pause(own)
        const second = await service.ask(item, request, true)
        return second ?? (first && first.status < 300 ? first : undefined)
      })
      if (answer?.tag !== undefined) tags.set(item, answer.tag)
    }
  }
  const all = Promise.all(Array.from({ length: clients }, (_, index) => client(index + 1)))
  await within('the answers to the requests of a history', all, HISTORY_DEADLINE_MS)
  const read = (item: string) =>
    history.record(0, item, { method: 'GET' }, () => service.ask(item, { method: 'GET' }, true))
  for (const item of items) await read(item)
  await service.restart()
  for (const item of items) await read(item)
  return history
}

/** Nearly every body is another one, so that what a read returns says who wrote it. */
function requestOf(
  random: Random,
  client: number,
  nth: number,
  tag: string | undefined,
  newKey: string | undefined,
): Request {
  const n = random.chance(0.1) ? random.integer(2) : nth + 1
  const key = newKey !== undefined && random.chance(0.2) ? { key: newKey } : {}
  const ifMatch = tag !== undefined && random.chance(0.6) ? { ifMatch: tag } : {}
  const field = random.chance(0.3) ? 'n' : `by${client}`
  const patch: Fields = { [field]: random.chance(0.1) ? null : n }
  switch (random.integer(13)) {
    case 0:
    case 1:
    case 2:
    case 3:
      return { method: 'GET' }
    case 4:
      return { method: 'GET', ...(tag === undefined ? {} : { ifNoneMatch: tag }) }
    case 5:
    case 6:
    case 7:
      return { method: 'PUT', body: { n }, ...ifMatch, ...key }
    case 8:
      return { method: 'PUT', body: { n }, ifNoneMatch: '*', ...key }
    case 9:
    case 10:
      return { method: 'PATCH', body: patch, ...ifMatch, ...key }
    case 11:
      return { method: 'DELETE', ...ifMatch, ...key }
    default:
      return { method: 'POST', body: { n }, ...key }
  }
}
