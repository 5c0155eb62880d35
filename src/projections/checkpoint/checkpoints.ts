import type { Logger } from 'pino'
import { Corruption } from '../../errors.ts'
import type { Position } from '../../events/event.ts'
import { checkUpTo, type Mark } from '../../events/mark.ts'
import { directoryOf, type Files, isOutOfSpace, writeNew } from '../../files/files.ts'
import type { Schedule } from '../data-file/writing.ts'
import { encodeCheckpoint, type NamedPiece, readCheckpoint } from './file.ts'
import type { Kept } from './kept.ts'

export interface CheckpointsOptions {
  readonly files: Files
  /** The journal's. */
  readonly directory: string
  /** Under the names by which the checkpoint knows them. */
  readonly kept: Readonly<Record<string, Kept>>
  /** Written after so many events; 0 for never. */
  readonly every: number
  /** How many items a checkpoint would hold now. */
  readonly items: () => number
  readonly schedule: Schedule
  readonly log: Logger
}

/** What checkpoints need of the journal once it is open. */
export interface MarkedJournal {
  readonly head: Position
  readonly writable: boolean
  mark(): Mark | undefined
}

export interface CheckpointStatus {
  readonly state: 'none' | 'written' | 'failing'
  /** The state after which event a start could begin with. */
  readonly position: Position
  readonly detail?: string
}

const NAME = /^\d{20}\.checkpoint$/
/** The one before the newest is there for the case that the newest is damaged. */
const KEPT = 2
const RETRY_MS = 30_000
/** Writing takes at most a tenth of the time. */
const REST_FACTOR = 9

/** Lets a start begin with a state that was written down. Never authority: without any, the state is the same. */
export class Checkpoints {
  readonly #options: CheckpointsOptions
  #journal: MarkedJournal | undefined
  /** Of the newest checkpoint on disk. */
  #position: Position = 0
  #loaded: Mark | undefined
  #trouble: string | undefined
  #timer: ReturnType<Schedule> | undefined
  #writing: Promise<void> | undefined
  #notBefore = 0
  #checking: Promise<void> | undefined
  #closed = false

  constructor(options: CheckpointsOptions) {
    this.#options = options
  }

  get status(): CheckpointStatus {
    const position = this.#position
    if (this.#trouble !== undefined) return { state: 'failing', position, detail: this.#trouble }
    return { state: position > 0 ? 'written' : 'none', position }
  }

  /**
   * Restores what is kept from the newest checkpoint that is whole and fits the journal, and says where that goes on.
   * A checkpoint that is not, is passed over with a line in the log.
   */
  async load(whyNot: (mark: Mark) => Promise<string | undefined>): Promise<Mark | undefined> {
    const { files, directory, kept, log } = this.#options
    for (const name of (await this.#names()).reverse()) {
      const path = `${directory}/${name}`
      let why: string | undefined
      try {
        const mark = await readCheckpoint(
          files,
          path,
          async (found) => {
            why = await whyNot(found)
            return why === undefined
          },
          ({ of, ...piece }) => {
            const one = Object.hasOwn(kept, of) ? kept[of] : undefined
            if (!one) throw new Corruption(`it holds something unknown, ${JSON.stringify(of)}`)
            one.restore(piece)
          },
        )
        if (mark) {
          this.#loaded = mark
          this.#position = mark.next.position - 1
          return mark
        }
      } catch (error) {
        why = (error as Error).message
      }
      for (const one of Object.values(kept)) one.clear()
      log.warn(`The checkpoint ${path} is passed over: ${why}.`)
    }
    return undefined
  }

  /** From now on checkpoints are written. */
  begin(journal: MarkedJournal): void {
    this.#journal = journal
    this.changed()
  }

  /**
   * Checks what was not read as the start went on from a checkpoint, at most a quarter of the time. Rejects with what is
   * wrong; then no start is to begin with the checkpoints any more, and they are removed.
   */
  check(): Promise<void> {
    this.#checking ??= this.#check()
    return this.#checking
  }

  async #check(): Promise<void> {
    const { files, directory, schedule, log } = this.#options
    const mark = this.#loaded
    if (!mark) return
    let began = performance.now()
    try {
      await checkUpTo(files, directory, mark, async () => {
        const restMs = 3 * (performance.now() - began)
        await new Promise<void>((resolve) => schedule(resolve, restMs))
        if (this.#closed) throw new Ended()
        began = performance.now()
      })
      log.debug({ position: mark.next.position - 1 }, 'what lies before the checkpoint was checked')
    } catch (error) {
      if (error instanceof Ended) return
      if (error instanceof Corruption) {
        this.#closed = true
        this.#journal = undefined
        // One that is being written would be there after the others are gone.
        await this.#writing
        for (const name of await this.#names()) await files.remove(`${directory}/${name}`)
        await files.syncDirectory(directory)
      }
      throw error
    }
  }

  /** The views have changed. */
  changed(): void {
    const { every, items, schedule } = this.#options
    if (this.#timer || this.#writing || this.#closed || every === 0 || !this.#journal) return
    if (this.#journal.head - this.#position < Math.max(every, items() / 4)) return
    this.#timer = schedule(
      () => {
        this.#timer = undefined
        this.#writing = this.#write().finally(() => {
          this.#writing = undefined
          this.changed()
        })
      },
      Math.max(0, this.#notBefore - performance.now()),
    )
  }

  /** Writes another one when the next start would otherwise have much to read. */
  async close(): Promise<void> {
    this.#timer?.cancel()
    this.#closed = true
    await this.#writing
    const { every, items } = this.#options
    const behind = (this.#journal?.head ?? 0) - this.#position
    if (every > 0 && behind >= Math.max(every, items()) / 10) await this.#write()
  }

  /** All that a checkpoint would hold now. */
  pieces(): readonly NamedPiece[] {
    return [...this.#pieces(this.#journal?.head ?? 0)]
  }

  #pieces(position: Position): Iterable<NamedPiece> {
    const saved = Object.entries(this.#options.kept).map(([of, one]) => [of, one.save(position)] as const)
    return named(saved)
  }

  async #write(): Promise<void> {
    const { files, directory, log } = this.#options
    const mark = this.#journal?.mark()
    if (!mark || !this.#journal?.writable) return this.#later(performance.now())
    const position = mark.next.position - 1
    const path = `${directory}/${String(position).padStart(20, '0')}.checkpoint`
    const temporary = `${directory}/checkpoint.tmp`
    const began = performance.now()
    try {
      await writeNew(files, temporary, encodeCheckpoint(mark, this.#pieces(position)))
      await files.rename(temporary, path)
      await files.syncDirectory(directoryOf(path))
      this.#position = position
      this.#trouble = undefined
      this.#notBefore = performance.now() + REST_FACTOR * (performance.now() - began)
      for (const name of (await this.#names()).slice(0, -KEPT)) await files.remove(`${directory}/${name}`)
    } catch (error) {
      if (this.#trouble === undefined) log.error({ err: error, path }, 'a checkpoint could not be written')
      this.#trouble = isOutOfSpace(error) ? 'The disk is full.' : (error as Error).message
      this.#later(performance.now())
      await files.remove(temporary).catch(() => {})
    }
  }

  #later(now: number): void {
    this.#notBefore = now + RETRY_MS
  }

  /** Oldest first. */
  async #names(): Promise<string[]> {
    const { files, directory } = this.#options
    return (await files.list(directory)).filter((name) => NAME.test(name)).sort()
  }
}

function* named(saved: Iterable<readonly [string, Iterable<Omit<NamedPiece, 'of'>>]>): Generator<NamedPiece> {
  for (const [of, pieces] of saved) for (const piece of pieces) yield { of, ...piece }
}

class Ended extends Error {}
