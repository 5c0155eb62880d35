import { Answered } from './commands/answered.ts'
import { CommandHandler } from './commands/handler.ts'
import type { Rules } from './commands/rules.ts'
import type { EngineSurroundings } from './engine.ts'
import { EventBus } from './events/bus.ts'
import type { DirectoryOptions } from './events/directory.ts'
import type { Journal, Recorded } from './events/journal.ts'
import { Checkpoints, type MarkedJournal } from './projections/checkpoint/checkpoints.ts'
import type { Kept } from './projections/checkpoint/kept.ts'
import { keptViews } from './projections/checkpoint/kept-views.ts'
import { History } from './projections/history.ts'
import { Past } from './projections/past.ts'
import type { Views } from './projections/views.ts'
import type { Settings } from './settings.ts'

/** A data file that follows the journal. */
export interface FollowingFile {
  /** What a checkpoint holds of it. */
  readonly kept: Kept
  /** A write that the journal held when it was opened. */
  replay(recorded: Recorded): void
  /** A write that became durable since, and that the views have. */
  changed(recorded: Recorded): void
}

export interface ProjectedOptions {
  readonly settings: Pick<Settings, 'journal' | 'checkpointEvents'>
  readonly surroundings: Pick<EngineSurroundings, 'files' | 'schedule' | 'log' | 'failed'>
  readonly views: Views
  readonly dataFile: FollowingFile
}

/**
 * What an engine makes of its journal, wherever that is kept, and the order in which each gets to see a write:
 * `opening` is for the journal that is opened, then `decide` for the one that is open, and `begin` when it is followed.
 */
export class Projected {
  readonly bus = new EventBus()
  readonly history: History
  readonly checkpoints: Checkpoints
  readonly #options: ProjectedOptions
  readonly #answered = new Answered()

  constructor(options: ProjectedOptions) {
    const { settings, surroundings, views, dataFile } = options
    const { files, schedule, log } = surroundings
    this.#options = options
    this.history = new History(views)
    this.checkpoints = new Checkpoints({
      files,
      directory: settings.journal,
      kept: { views: keptViews(views), history: this.history, dataFile: dataFile.kept, answered: this.#answered },
      every: settings.checkpointEvents,
      items: () => views.counts().items,
      schedule,
      log,
    })
  }

  /** From a checkpoint, and on with what the journal holds beyond it. */
  get opening(): Required<Pick<DirectoryOptions, 'resume' | 'replay'>> {
    const { views, dataFile } = this.#options
    return {
      resume: (whyNot) => this.checkpoints.load(whyNot),
      replay: (recorded) => {
        views.apply(recorded)
        this.history.apply(recorded)
        dataFile.replay(recorded)
        this.#answered.apply(recorded)
      },
    }
  }

  /** Decides for an open journal, whose writes are seen here in this order, and after that by whoever follows the bus. */
  decide(journal: Journal, rules: Rules, now: () => Date): CommandHandler {
    const { views, dataFile } = this.#options
    const handler = new CommandHandler({ journal, durable: views.any, rules, now, answered: this.#answered })
    this.bus.subscribe(
      (recorded) => views.apply(recorded),
      (recorded) => views.prepare(recorded),
    )
    this.bus.subscribe(
      (recorded) => this.history.apply(recorded),
      (recorded) => this.history.prepare(recorded),
    )
    this.bus.subscribe((recorded) => handler.settle(recorded))
    this.bus.subscribe((recorded) => dataFile.changed(recorded))
    this.bus.subscribe(() => this.checkpoints.changed())
    journal.follow((recorded) => this.bus.publish(recorded))
    return handler
  }

  past(journal: Journal): Past {
    return new Past(journal, this.#options.views, this.history)
  }

  /** Checkpoints are written from now on, and the one that it all began with is looked at again. */
  begin(journal: MarkedJournal): void {
    this.checkpoints.begin(journal)
    this.checkpoints.check().catch(this.#options.surroundings.failed)
  }
}
