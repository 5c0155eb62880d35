import type { Item } from '../../src/collections/item.ts'
import type { Command } from '../../src/commands/command.ts'
import type { Outcome } from '../../src/commands/handler.ts'
import type { Engine } from '../../src/engine/engine.ts'
import type { Origin } from '../../src/events/journal.ts'
import type { Files, OpenFile } from '../../src/files/files.ts'
import { Refusal, type RefusalCode } from '../../src/runtime/errors.ts'
import { DATA_FILE, JOURNAL, openTestEngine, SETTINGS } from '../support/engine.ts'
import { Random } from '../support/random.ts'
import { type Fault, type Operation, SimulatedDisk } from '../support/simulated-files.ts'
import type { Service } from './clients.ts'
import type { Answer, Request } from './history.ts'

export const COLLECTION = 'things'

const STATUS: Readonly<Partial<Record<RefusalCode, number>>> = {
  NotFound: 404,
  Conflict: 409,
  PreconditionFailed: 412,
  Unavailable: 503,
  DiskFull: 507,
}

/** Where requests go in: the engine's own doors, or ones with a fault built in. */
export interface Doors {
  read(item: string): Item | undefined
  write(command: Command, origin: Origin): Promise<Outcome>
}

export type DoorsOf = (engine: Engine) => Doors

export const engineDoors: DoorsOf = ({ views, handler }) => ({
  read: (item) => views.find(COLLECTION)?.item(item),
  write: (command, origin) => handler.handle(command, origin),
})

/** The service from its start to its end, which may come at any moment. */
interface Life {
  readonly engine: Engine
  readonly doors: Doors
  readonly failures: readonly unknown[]
  readonly ended: Promise<void>
  readonly end: () => void
}

const LIVES = 4

/**
 * The engine on a simulated disk that is slow, at times full, and under a process that is killed, loses its power
 * or fails to sync. Whatever happens follows from the random numbers.
 */
export class SimulatedService implements Service {
  readonly #random: Random
  readonly #doorsOf: DoorsOf
  #disk = new SimulatedDisk()
  #life: Promise<Life>
  #lives = 0

  constructor(random: Random, doorsOf: DoorsOf = engineDoors) {
    this.#random = new Random(random.integer(2 ** 32))
    this.#doorsOf = doorsOf
    this.#disk.put(DATA_FILE, Buffer.from(JSON.stringify({ [COLLECTION]: [] })))
    this.#life = this.#live()
  }

  /** How often the service was started. */
  get lives(): number {
    return this.#lives
  }

  async ask(item: string, request: Request, waits: boolean): Promise<Answer | undefined> {
    const life = await this.#life
    if (request.method === 'GET') return readAnswer(life.doors.read(item), request)
    const answered = this.#write(life, item, request)
    if (waits) return Promise.race([answered, life.ended.then(() => undefined)])
    answered.catch(() => {})
    return undefined
  }

  async #write(life: Life, item: string, request: Request): Promise<Answer | undefined> {
    const { key } = request
    const origin = { actor: 'client', requestId: 'r', ...(key === undefined ? {} : { key, request: key }) }
    try {
      const { event, item: stored } = await life.doors.write(commandOf(item, request), origin)
      if (!stored) return { status: 204 }
      return { status: event?.type === 'ItemCreated' ? 201 : 204, tag: stored.tag }
    } catch (error) {
      const status = error instanceof Refusal && STATUS[error.code]
      if (!status) throw error
      if (status !== 503 || life.failures.length === 0) return { status }
      // It was to be stored when syncing failed: nobody knows what the disk holds of it.
      life.end()
      return undefined
    }
  }

  /** Ends it, in one of the ways in which a process ends. */
  async restart(): Promise<void> {
    const life = await this.#life
    if (this.#random.chance(0.3)) await Promise.race([life.engine.close(), life.ended])
    life.end()
    await this.#life
  }

  /** Opens the engine; an end while it opens is followed by another attempt. */
  async #live(): Promise<Life> {
    for (;;) {
      const random = new Random(this.#random.integer(2 ** 32))
      const faults = new Faults(random, ++this.#lives < LIVES)
      const files = this.#disk.files((operation, path) => faults.at(operation, path))
      const opening = openTestEngine(slow(files, random), {
        api: { ...SETTINGS.api, clientIdsOnPost: true },
        segmentBytes: 2048,
      })
      const opened = await Promise.race([opening, files.stopped])
      if (!opened) {
        this.#crash()
        continue
      }
      faults.begin()
      const { engine, failures } = opened
      let resolve = (): void => {}
      const ended = new Promise<void>((done) => {
        resolve = done
      })
      let isOver = false
      const end = (): void => {
        if (isOver) return
        isOver = true
        faults.stop()
        this.#crash()
        this.#life = this.#live()
        resolve()
      }
      void files.stopped.then(end)
      return { engine, failures, ended, end, doors: this.#doorsOf(engine) }
    }
  }

  #crash(): void {
    this.#disk = this.#random.chance(0.5) ? this.#disk.killed() : this.#disk.powerLost(this.#random)
  }
}

/** The faults in one life of the service. */
class Faults {
  readonly #random: Random
  /** The number of operations until the end. */
  #left: number
  readonly #endsBySync: boolean
  readonly #isTight: boolean
  #begun = false
  #stopped = false
  /** The number of writes that are still to be rejected for lack of space. */
  #full = 0

  constructor(random: Random, mayEnd: boolean) {
    this.#random = random
    this.#left = mayEnd && random.chance(0.8) ? 1 + random.integer(250) : Infinity
    this.#endsBySync = random.chance(0.25)
    this.#isTight = random.chance(0.5)
  }

  begin(): void {
    this.#begun = true
  }

  stop(): void {
    this.#stopped = true
  }

  at(operation: Operation, path: string): Fault | undefined {
    if (this.#stopped) return { type: 'stop' }
    if (--this.#left <= 0) {
      if (!this.#endsBySync || !this.#begun) return { type: 'stop' }
      if (operation === 'sync' && path.startsWith(JOURNAL)) return { type: 'error', code: 'EIO' }
    }
    if (!this.#begun || !this.#isTight || !path.startsWith(JOURNAL)) return undefined
    if (operation !== 'write' && !(operation === 'open' && path.endsWith('.tmp'))) return undefined
    if (this.#full === 0 && this.#random.chance(0.15)) this.#full = 1 + this.#random.integer(3)
    if (this.#full === 0) return undefined
    if (operation === 'write' && this.#random.chance(0.4))
      return { type: 'short', bytes: 1 + this.#random.integer(100) }
    this.#full--
    return { type: 'error', code: 'ENOSPC' }
  }
}

/** Lets others run a few times. */
export async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve))
}

/** The same files, whose writing takes a while before and after it happens. */
function slow(files: Files, random: Random): Files {
  const most = 1 + random.integer(5)
  const delayed = async <T>(work: () => Promise<T>): Promise<T> => {
    await turns(random.integer(most))
    const result = await work()
    await turns(random.integer(most))
    return result
  }
  return {
    ...files,
    open: async (path, how, mode) => {
      const file = await files.open(path, how, mode)
      return {
        ...file,
        write: (bytes, offset) => delayed(() => file.write(bytes, offset)),
        truncate: (size) => delayed(() => file.truncate(size)),
        sync: () => delayed(() => file.sync()),
      } satisfies OpenFile
    },
  }
}

function readAnswer(item: Item | undefined, { ifNoneMatch }: Request): Answer {
  if (!item) return { status: 404 }
  return item.tag === ifNoneMatch ? { status: 304, tag: item.tag } : { status: 200, tag: item.tag, text: item.text }
}

function commandOf(key: string, { method, body = {}, ifMatch, ifNoneMatch }: Request): Command {
  const conditions = {
    collection: COLLECTION,
    key,
    ifMatch: ifMatch === undefined ? undefined : [ifMatch],
    ifNoneMatch: ifNoneMatch === '*' ? ('*' as const) : undefined,
  }
  switch (method) {
    case 'PUT':
      return { type: 'ReplaceItem', ...conditions, item: body }
    case 'PATCH':
      return { type: 'PatchItem', ...conditions, patch: { type: 'merge', document: body } }
    case 'DELETE':
      return { type: 'DeleteItem', ...conditions }
    case 'POST':
      return { type: 'CreateItem', collection: COLLECTION, item: { id: key, ...body } }
    case 'GET':
      throw new Error('a read is no command')
    default:
      return method satisfies never
  }
}
