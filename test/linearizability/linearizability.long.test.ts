import assert from 'node:assert/strict'
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http'
import { test } from 'node:test'
import type { CollectionState } from '../../src/collections/collection.ts'
import { Item, isItem } from '../../src/collections/item.ts'
import { Overlay } from '../../src/collections/overlay.ts'
import { type Command, matches } from '../../src/commands/command.ts'
import type { Outcome } from '../../src/commands/handler.ts'
import type { Engine } from '../../src/engine/engine.ts'
import { type DomainEvent, isItemEvent, type Position } from '../../src/events/event.ts'
import { lastPosition, type Origin, type Recorded } from '../../src/events/journal.ts'
import { tagOf } from '../../src/json/tag.ts'
import { Refusal } from '../../src/runtime/errors.ts'
import { within } from '../support/deadline.ts'
import { eventsOf, RULES } from '../support/decider.ts'
import type { Scope } from '../support/directory.ts'
import { Random, SEED } from '../support/random.ts'
import { type RunningProgram, startProgram } from '../support/server.ts'
import { check, describe, type Violation } from './checker.ts'
import { planOf, type Service, work } from './clients.ts'
import type { Answer, Request } from './history.ts'
import { COLLECTION, type Doors, type DoorsOf, engineDoors, SimulatedService, turns } from './simulated-service.ts'

/** A mistake that a service like this one could make; what each means is said where it is made. */
type Mistake =
  | 'none'
  | 'answers early'
  | 'reads the accepted'
  | 'reads the past'
  | 'compares with the durable'
  | 'patches the durable'
  | 'creates above the durable'
  | 'refuses early'
  | 'forgets a write'
  | 'refuses what it keeps'
  | 'forgets keys'

function faultyDoors(mistake: Mistake): DoorsOf {
  if (mistake === 'forgets keys') {
    return (engine) => {
      const { read, write } = engineDoors(engine)
      return { read, write: (command, { actor, requestId }) => write(command, { actor, requestId }) }
    }
  }
  return (engine) => new FaultyDoors(engine, mistake)
}

const ONE_IN = 5

/** The command handler once more, short and slower, with one mistake. It knows no Idempotency-Keys. */
class FaultyDoors implements Doors {
  readonly #engine: Engine
  readonly #mistake: Mistake
  readonly #past = new Map<string, Item | undefined>()
  #overlay: Overlay
  /** The last append on its way, and with it all before. */
  #pending: Promise<unknown> = Promise.resolve()
  #writes = 0

  constructor(engine: Engine, mistake: Mistake) {
    this.#engine = engine
    this.#mistake = mistake
    this.#overlay = this.#nothingPending()
    for (const item of engine.views.find(COLLECTION)?.items() ?? []) this.#past.set(item.key, item)
    const apply = (recorded: Recorded): void => {
      this.#overlay.settle(lastPosition(recorded))
      const items = [...(engine.views.find(COLLECTION)?.items() ?? [])]
      setImmediate(() => {
        this.#past.clear()
        for (const item of items) this.#past.set(item.key, item)
      })
    }
    engine.bus.add({ sockets: { apply } })
  }

  read(key: string): Item | undefined {
    if (this.#makes('reads the past')) return this.#past.get(key)
    const seesAccepted = this.#makes('reads the accepted') || this.#makes('answers early')
    const item = (seesAccepted ? this.#overlay.collection(COLLECTION) : this.#durable()).get(key)
    return isItem(item) ? item : undefined
  }

  async write(command: Command, origin: Origin): Promise<Outcome> {
    let events: readonly DomainEvent[]
    try {
      events = this.#decided(command)
    } catch (error) {
      // Every refusal waits for all that is on its way, whether it rests on it or not.
      if (!this.#makes('refuses early')) await this.#pending
      throw error
    }
    if (this.#makes('forgets a write') && ++this.#writes % ONE_IN === 0) {
      return outcomeOf(events, this.#engine.journal.head)
    }
    const { actor, requestId } = origin
    const overlay = this.#overlay
    const expected = overlay.head + 1
    overlay.accept(events)
    const appended = this.#engine.journal.append({ expected, actor, requestId, events })
    this.#pending = appended
    appended.catch(() => {
      if (this.#overlay !== overlay) return
      this.#overlay = this.#nothingPending()
      this.#pending = Promise.resolve()
    })
    const outcome = outcomeOf(events, expected)
    if (this.#makes('answers early')) return outcome
    await appended
    if (this.#makes('refuses what it keeps') && ++this.#writes % ONE_IN === 0) {
      throw new Refusal('DiskFull', 'The disk is full, it says.')
    }
    return outcome
  }

  /** Returns without letting anybody else in: the next decision is made on this one. */
  #decided(command: Command): readonly DomainEvent[] {
    const accepted = this.#overlay.collection(COLLECTION)
    if (this.#makes('compares with the durable') && command.type !== 'CreateItem') {
      this.#compare(command, this.#durable())
      return this.#decide({ ...command, ifMatch: undefined, ifNoneMatch: undefined }, accepted)
    }
    const isBlind =
      (this.#makes('patches the durable') && command.type === 'PatchItem') ||
      (this.#makes('creates above the durable') && command.type === 'CreateItem')
    return this.#decide(command, isBlind ? this.#durable() : accepted)
  }

  #compare({ key, ifMatch, ifNoneMatch }: Exclude<Command, { type: 'CreateItem' }>, collection: CollectionState): void {
    const item = collection.get(key)
    const tag = isItem(item) ? item.tag : undefined
    const isMet = ifMatch === undefined || (tag !== undefined && matches(ifMatch, tag))
    if (!isMet || (ifNoneMatch !== undefined && tag !== undefined && matches(ifNoneMatch, tag))) {
      throw new Refusal('PreconditionFailed', 'The durable item differs.')
    }
  }

  #decide(command: Command, collection: CollectionState): readonly DomainEvent[] {
    const accepted = { head: this.#engine.journal.head, collection: () => collection }
    return eventsOf(command, accepted, { ...RULES, upsertOnPut: true, clientIdsOnPost: true })
  }

  #durable(): CollectionState {
    return this.#engine.views.any(COLLECTION) ?? this.#nothingPending().collection(COLLECTION)
  }

  #nothingPending(): Overlay {
    return new Overlay(this.#engine.views.any, this.#engine.journal.head)
  }

  #makes(mistake: Mistake): boolean {
    return this.#mistake === mistake
  }
}

function outcomeOf(events: readonly DomainEvent[], before: Position): Outcome {
  const event = events.at(-1)
  if (!event || !isItemEvent(event)) throw new Error('a command on an item ends in an event of the item')
  const position = before + events.length - 1
  const item = 'item' in event ? new Item(event.id, event.item, event.revision, position) : undefined
  return { position, event, item }
}

/** The server as a user runs it, over HTTP, killed with SIGKILL now and then while requests are on their way. */
class ServerService implements Service {
  readonly #scope: Scope
  readonly #random: Random
  readonly #agent = new Agent({ keepAlive: true })
  #server: Promise<RunningProgram>
  /** The number of requests until the next kill. */
  #left = Infinity

  private constructor(scope: Scope, random: Random, server: RunningProgram) {
    this.#scope = scope
    this.#random = random
    this.#server = Promise.resolve(server)
    scope.after(async () => this.#agent.destroy())
  }

  static async start(scope: Scope, random: Random): Promise<ServerService> {
    return new ServerService(scope, random, await start(scope))
  }

  /** Kills it after so many more requests. */
  killAfter(requests: number): void {
    this.#left = requests
  }

  async ask(item: string, request: Request, waits: boolean): Promise<Answer | undefined> {
    const server = await this.#server
    const aborted = new AbortController()
    const answered = this.#send(server, item, request, aborted.signal)
    if (--this.#left <= 0) {
      this.#left = Infinity
      // Some requests have arrived by then, some have not.
      void turns(this.#random.integer(20)).then(() => this.restart())
    }
    if (!waits) {
      await turns(this.#random.integer(20))
      aborted.abort()
    }
    return answered
  }

  async restart(): Promise<void> {
    const killed = this.#server
    this.#server = killed.then(async (server) => {
      await server.stop('SIGKILL')
      return start(this.#scope, server.directory)
    })
    await this.#server
  }

  /** Undefined when the connection ends before the answer does. */
  async #send(
    server: RunningProgram,
    item: string,
    request: Request,
    signal: AbortSignal,
  ): Promise<Answer | undefined> {
    const { method, body, ifMatch, ifNoneMatch, key } = request
    const isPost = method === 'POST'
    const path = `/api/${COLLECTION}${isPost ? '' : `/${item}`}`
    const text = body && JSON.stringify(isPost ? { id: item, ...body } : body)
    const headers = {
      ...(text === undefined ? {} : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }),
      ...(ifMatch === undefined ? {} : { 'If-Match': ifMatch }),
      ...(ifNoneMatch === undefined ? {} : { 'If-None-Match': ifNoneMatch }),
      ...(key === undefined ? {} : { 'Idempotency-Key': key }),
    }
    try {
      const response = await within(
        `the response to ${method} ${path}`,
        new Promise<IncomingMessage>((resolve, reject) => {
          httpRequest(server.url + path, { method, headers, signal, agent: this.#agent }, resolve)
            .on('error', reject)
            .end(text)
        }),
      )
      const chunks: Buffer[] = await within(`the end of the response to ${method} ${path}`, response.toArray())
      const { etag } = response.headers
      return {
        status: response.statusCode ?? 0,
        ...(etag === undefined ? {} : { tag: etag }),
        ...(method === 'GET' ? { text: Buffer.concat(chunks).toString() } : {}),
      }
    } catch {
      return undefined
    }
  }
}

function start(scope: Scope, directory?: string): Promise<RunningProgram> {
  return startProgram(scope, {
    ...(directory === undefined ? {} : { directory }),
    data: { [COLLECTION]: [] },
    flags: ['--Api.UpsertOnPut', 'true', '--Api.ClientIdsOnPost', 'true'],
  })
}

const HISTORIES = Number(process.env.LINEARIZABILITY_HISTORIES ?? 50)

interface Checked {
  readonly violation: Violation | undefined
  readonly statuses: readonly (number | undefined)[]
  readonly lives: number
}

/** One history of the engine on a simulated disk. */
async function checkSimulated(seed: number, doorsOf?: DoorsOf, keys = true): Promise<Checked> {
  const random = new Random(seed)
  const service = new SimulatedService(random, doorsOf)
  const plan = planOf(random, { keys, pause: (own) => turns(own.integer(4)) })
  const history = await work(service, random, plan)
  return {
    violation: check(history, () => undefined, tagOf),
    statuses: history.operations.map(({ answer }) => answer?.status),
    lives: service.lives,
  }
}

test('the engine is linearizable through full disks, crashes and power losses', async (t) => {
  const counts = new Map<number | undefined, number>()
  let lives = 0
  for (let seed = SEED; seed < SEED + HISTORIES; seed++) {
    const checked = await checkSimulated(seed)
    if (checked.violation) assert.fail(`SEED=${seed}: ${describe(checked.violation)}`)
    for (const status of checked.statuses) counts.set(status, (counts.get(status) ?? 0) + 1)
    lives += checked.lives
  }
  t.diagnostic(`${HISTORIES} histories, ${lives} starts, answers ${JSON.stringify([...counts])}`)
})

test('the server is linearizable over HTTP, through kills', async (t) => {
  const service = await ServerService.start(t, new Random(SEED))
  const answered = new Map<number, number>()
  for (let seed = SEED; seed < SEED + HISTORIES / 75; seed++) {
    const random = new Random(seed)
    const plan = planOf(random, { prefix: `${seed}-`, pause: (own) => turns(own.integer(4)) })
    service.killAfter(5 + random.integer(plan.operations - 5))
    const history = await work(service, random, plan)
    const violation = check(history, () => undefined, tagOf)
    if (violation) assert.fail(`SEED=${seed}: ${describe(violation)}`)
    for (const { answer } of history.operations) {
      if (answer) answered.set(answer.status, (answered.get(answer.status) ?? 0) + 1)
    }
  }
  t.diagnostic(`answers ${JSON.stringify([...answered])}`)
  assert.deepEqual(
    [...answered.keys()].filter((status) => status >= 500),
    [],
  )
})

/** The largest number of histories in which a mistake must be found. */
const ENOUGH = 300

const MISTAKES: Readonly<Record<Exclude<Mistake, 'none'>, string>> = {
  'answers early': 'answers before the write is durable, and loses it in a crash',
  'reads the accepted': 'lets readers see what is not durable, and is then lost',
  'reads the past': 'lets readers see what was before a write that was answered',
  'compares with the durable': 'compares If-Match with the durable item, not with the accepted one',
  'patches the durable': 'patches the durable item, and so loses the update that is being flushed',
  'creates above the durable': 'creates an item whose creation is being flushed a second time',
  'refuses early': 'refuses because of a write that is being flushed, and the flush fails',
  'forgets a write': 'answers a write that it never stores',
  'refuses what it keeps': 'says of a write which it has stored that nothing was stored',
  'forgets keys': 'takes a retry with the same Idempotency-Key for another request',
}

for (const [mistake, sentence] of Object.entries(MISTAKES) as [Mistake, string][]) {
  test(`a service that ${sentence} is detected`, async (t) => {
    for (let seed = SEED; seed < SEED + ENOUGH; seed++) {
      const { violation } = await checkSimulated(seed, faultyDoors(mistake), mistake === 'forgets keys')
      if (!violation) continue
      t.diagnostic(`by history ${seed - SEED + 1}`)
      return
    }
    assert.fail(`SEED=${SEED}: not found in ${ENOUGH} histories`)
  })
}

test('the unmodified service is not reported', async () => {
  for (let seed = SEED; seed < SEED + HISTORIES; seed++) {
    const { violation } = await checkSimulated(seed, faultyDoors('none'), false)
    if (violation) assert.fail(`SEED=${seed}: ${describe(violation)}`)
  }
})
