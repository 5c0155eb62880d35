import type { Checkpoint } from '../events/checkpoint.ts'
import type { Damage } from '../events/damage.ts'
import type { RecordSource } from '../events/repair.ts'
import type { SegmentLog } from '../events/segment-log.ts'
import { Corruption, Ended, isOutOfDescriptors } from '../runtime/errors.ts'
import { LimitedLog, TEN_IN_TEN_SECONDS } from '../runtime/limited-log.ts'
import type { Schedule } from '../runtime/turns.ts'
import type { EngineDependencies } from './dependencies.ts'
import { type Metric, metric } from './metric.ts'

/** Delay before verifying again after there was no file descriptor for a segment. */
const RETRY_MS = 5000
/** Verifying takes a quarter of the time: it rests for this multiple of its duration. */
const REST_FACTOR = 3
/** How often damage is logged. */
const REPEAT_MS = 3_600_000
const DAMAGED = 'the journal is damaged; what needs the damaged events fails with 503'
/** Places in `/health`. */
const MOST_SHOWN = 10

interface JournalCheckOptions {
  readonly log: SegmentLog
  /** The journal's directory. */
  readonly directory: string
  readonly dependencies: EngineDependencies
  /** Another copy, from which damage is repaired; undefined if there is none. */
  readonly source: RecordSource | undefined
  /** Called when the journal is another one than the store was built from. */
  readonly doubt: (why: string) => void
}

/** The known damage of a journal, for `/health`. */
export interface JournalDamageStatus {
  /** Number of damaged places. */
  readonly places: number
  readonly first: readonly (Omit<Damage, 'path'> & { readonly segment: string })[]
  /** The command that replaces what is damaged. */
  readonly repair: string
}

/**
 * Verifies the journal in the background, and reports its damage, which does not stop what needs other events. Repairs it
 * if there is another copy.
 */
export class JournalCheck {
  readonly #options: JournalCheckOptions
  readonly #limitedLog: LimitedLog
  #timer: ReturnType<Schedule> | undefined
  #isEnding = false

  constructor(options: JournalCheckOptions) {
    this.#options = options
    const { log, dependencies } = options
    this.#limitedLog = new LimitedLog(dependencies.log, dependencies.elapsedMs)
    log.damage.found = (damage) => {
      this.#limitedLog.error(this.#facts(damage), DAMAGED, TEN_IN_TEN_SECONDS)
      this.#repeatLater()
    }
  }

  /** Verifies the part of the journal before the checkpoint of the store, which the start did not read. */
  begin(checkpoint: Checkpoint | undefined): void {
    if (checkpoint && !this.#isEnding) this.#verify(checkpoint).catch(this.#options.dependencies.failed)
  }

  end(): void {
    this.#isEnding = true
    this.#timer?.cancel()
  }

  /** Undefined without damage. */
  status(): JournalDamageStatus | undefined {
    const { log, directory } = this.#options
    const { list } = log.damage
    if (list.length === 0) return undefined
    return {
      places: list.length,
      first: list.slice(0, MOST_SHOWN).map(({ path: segment, ...place }) => ({ segment, ...place })),
      repair: repairCommand(directory),
    }
  }

  get metrics(): readonly Metric[] {
    const { damage } = this.#options.log
    return [
      metric('gauge', 'journal_damaged_places', 'Known damaged places of the journal.', () => [
        { value: damage.list.length },
      ]),
    ]
  }

  /** @param checkpoint default: the end of the journal */
  async #verify(checkpoint?: Checkpoint): Promise<void> {
    const { log, dependencies, doubt } = this.#options
    const { schedule } = dependencies
    let began = performance.now()
    try {
      await log.verify(async () => {
        const restMs = REST_FACTOR * (performance.now() - began)
        await new Promise<void>((resolve) => schedule(resolve, restMs))
        if (this.#isEnding) throw new Ended()
        began = performance.now()
      }, checkpoint)
      const position = checkpoint && checkpoint.next.position - 1
      if (checkpoint) dependencies.log.debug({ position }, 'the journal up to the position of the store was verified')
      await this.#repair()
    } catch (error) {
      if (error instanceof Ended) return
      if (isOutOfDescriptors(error)) return void schedule(() => this.begin(checkpoint), RETRY_MS)
      if (error instanceof Corruption) doubt('the journal was found to be another one')
      throw error
    }
  }

  async #repair(): Promise<void> {
    const { log, source, dependencies } = this.#options
    const places = log.damage.list.length
    if (places === 0 || !source) return
    const problems = await log.repair(source)
    if (problems.length > 0) dependencies.log.error({ problems }, 'the journal could not be repaired')
    // The last segment is not repaired while it is written.
    const repaired = places - log.damage.list.length
    if (repaired > 0)
      dependencies.log.warn({ places: repaired, source: source.name }, 'the journal was damaged and is repaired')
  }

  #repeatLater(): void {
    if (this.#timer || this.#isEnding) return
    const { dependencies } = this.#options
    this.#timer = dependencies.schedule(() => void this.#repeat().catch(dependencies.failed), REPEAT_MS)
  }

  /** Damage may be mended by now, as when a missing file is put back. */
  async #repeat(): Promise<void> {
    const { log, dependencies } = this.#options
    await this.#verify()
    this.#timer = undefined
    if (this.#isEnding) return
    const [first, ...others] = log.damage.list
    if (!first) return dependencies.log.info({}, 'the journal is whole again')
    dependencies.log.error({ ...this.#facts(first), others: others.length }, DAMAGED)
    this.#repeatLater()
  }

  #facts(damage: Damage): object {
    return { ...damage, repair: repairCommand(this.#options.directory) }
  }
}

function repairCommand(directory: string): string {
  return `recollect repair --journal ${directory} --from <backup or copy>`
}
