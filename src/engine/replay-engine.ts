import type { Position } from '../events/event.ts'
import { PlayedJournal } from '../events/played-journal.ts'
import type { Segment } from '../events/segment.ts'
import { walk } from '../events/walk.ts'
import { parseUntil, upTo } from '../projections/journal-fold.ts'
import { Pace } from '../projections/pace.ts'
import type { Past } from '../projections/past.ts'
import { Views } from '../projections/views.ts'
import { Queries } from '../query/queries.ts'
import { Refusal } from '../runtime/errors.ts'
import { Turns } from '../runtime/turns.ts'
import type { Settings } from '../settings/settings.ts'
import type { EngineDependencies } from './dependencies.ts'
import { Engine, type EngineHealth } from './engine.ts'
import { Projections } from './projections.ts'
import { timesOf } from './rules.ts'
import { type TokenStorage, tokensInDirectory } from './token-storage.ts'

export interface Replay {
  /** A position or an ISO 8601 date-time. */
  readonly from: string
  /** The speed as a multiple of the recorded pace. */
  readonly speed: number
}

type ReplaySettings = Pick<Settings, 'journal' | 'limits' | 'collections'>

interface ReplayHealth extends EngineHealth {
  readonly replay: { readonly speed: number; readonly from: Position; readonly until: Position; readonly time: string }
}

const READ_ONLY = 'This server plays what was recorded: nothing can be written to it.'

/** The state at the first position of a replay, and the journal after it. */
interface Recording {
  readonly id: string
  readonly segments: readonly Segment[]
  readonly projections: Projections
  /** Position of the last event. */
  readonly end: Position
  /** The recorded time at which the replay begins, and that of the last event. */
  readonly beginMs: number
  readonly latestMs: number
}

/**
 * An engine whose present is the past: it begins with the state at `from`, and advances in recorded time. The journal
 * is verified and read, but not changed; a server may be writing to it, and later events are not replayed.
 */
export class ReplayEngine extends Engine {
  readonly journal: PlayedJournal
  readonly projections: Projections
  readonly past: Past
  readonly queries: Queries
  readonly handler = { handle: refuse, bulk: refuse, delete: refuse, restore: refuse, end: () => {} }
  readonly tokens: TokenStorage
  readonly retention = undefined
  readonly schemas = undefined
  readonly metrics = []
  override readonly readOnly = READ_ONLY
  override readonly reload = refuse
  override readonly snapshot = refuse
  readonly #speed: number
  readonly #dependencies: EngineDependencies
  readonly #latestMs: number
  readonly #from: Position
  readonly #pace: Pace
  #playing: Promise<void> | undefined

  private constructor(
    settings: ReplaySettings,
    speed: number,
    { id, segments, projections, end, beginMs, latestMs }: Recording,
    dependencies: EngineDependencies,
  ) {
    super()
    const { files, memory } = dependencies
    const { views } = projections
    this.journal = new PlayedJournal({
      files,
      id,
      segments,
      head: views.position,
      timeMs: beginMs,
      end,
      project: (batch) => views.put(batch),
    })
    projections.follow(this.journal)
    this.projections = projections
    this.past = projections.past(this.journal, memory)
    const { collections, limits } = settings
    this.queries = new Queries({ views, bytes: limits.indexBytes, collections, turns: new Turns({ memory }) })
    this.tokens = tokensInDirectory(files, settings.journal, true)
    this.#speed = speed
    this.#dependencies = dependencies
    this.#latestMs = latestMs
    this.#from = views.position
    this.#pace = new Pace(dependencies, beginMs, speed)
  }

  static async open(
    settings: ReplaySettings,
    { from, speed }: Replay,
    dependencies: EngineDependencies,
  ): Promise<ReplayEngine> {
    const recording = await readRecording(settings, from, dependencies)
    const engine = new ReplayEngine(settings, speed, recording, dependencies)
    const until = engine.journal.end
    dependencies.log.info({ from: engine.#from, until, speed }, 'a replay: what was recorded up to now is played')
    return engine
  }

  now(): Date {
    return new Date(Math.min(this.#pace.ms, presentMs(this.#dependencies, this.#latestMs)))
  }

  verify(): never {
    throw new Refusal('NotFound', 'This server has no journal of its own to check.')
  }

  health(): ReplayHealth {
    const { id, end } = this.journal
    return {
      status: 'ok',
      journal: { id, writable: false },
      replay: { speed: this.#speed, from: this.#from, until: end, time: this.now().toISOString() },
    }
  }

  protected async begin(): Promise<void> {
    this.#playing = this.#play()
  }

  protected untilServable(starting: Promise<void>): Promise<void> {
    return starting
  }

  protected async end(): Promise<void> {
    this.#pace.end()
    this.views.end()
    await this.journal.close()
    await this.#playing
  }

  async #play(): Promise<void> {
    const { log, failed } = this.#dependencies
    const { journal } = this
    try {
      await journal.play((time) => this.#pace.reach(time))
      if (journal.head === journal.end) {
        log.info({ position: journal.end }, 'the replay has reached its end, and stays there')
      }
    } catch (error) {
      if (!this.isClosing) failed(error)
    }
  }
}

async function refuse(): Promise<never> {
  throw new Refusal('MethodNotAllowed', READ_ONLY)
}

/** If the clock was set back, recorded times may be later than now. */
function presentMs({ now }: Pick<EngineDependencies, 'now'>, latestMs: number): number {
  return Math.max(now().getTime(), latestMs)
}

/** Verifies the journal, and folds it up to a position or an instant. */
async function readRecording(
  { journal: directory, collections }: ReplaySettings,
  from: string,
  dependencies: EngineDependencies,
): Promise<Recording> {
  const begin = parseUntil(from)
  if (!begin) {
    throw new Refusal('Invalid', `--from must be a position or an ISO 8601 date-time, not ${JSON.stringify(from)}.`)
  }
  const projections = new Projections(Views.temporary(undefined, { times: timesOf(collections) }))
  const { views } = projections
  let first: string | undefined
  let last: string | undefined
  let latestMs = Number.NEGATIVE_INFINITY
  const fold = upTo(begin, (recorded) => {
    views.replay(recorded)
    last = recorded.time
  })
  const { id, segments, next } = await walk(dependencies.files, directory, (recorded) => {
    first ??= recorded.time
    latestMs = Date.parse(recorded.time)
    fold(recorded)
  })
  views.replayed()
  if (id === undefined) throw new Refusal('NotFound', `There is no journal in ${directory}.`)
  if ('ms' in begin && begin.ms > presentMs(dependencies, latestMs)) {
    throw new Refusal('Invalid', `--from ${from} is in the future.`)
  }
  const end = next.position - 1
  if ('position' in begin && begin.position > end) {
    throw new Refusal('Invalid', `Position ${begin.position} is beyond the journal's end, ${end}.`)
  }
  // Before the first event there is no time to wait for.
  const beginsAt = last ?? first ?? dependencies.now().toISOString()
  const beginMs = 'ms' in begin && last !== undefined ? begin.ms : Date.parse(beginsAt)
  return { id, segments, projections, end, beginMs, latestMs }
}
