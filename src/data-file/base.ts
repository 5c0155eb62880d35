import type { Base, BaseItems } from '../commands/difference.ts'
import type { Position } from '../events/event.ts'
import type { Journal, Recorded } from '../events/journal.ts'
import type { Past } from '../projections/past.ts'
import type { Snapshot } from '../projections/snapshot.ts'
import { Views } from '../projections/views.ts'
import { type FileVersion, lastEventOf } from './file-version.ts'

/** A base that the store keeps until it is closed. */
export type OpenBase = Base & { close(): void }

export interface BaseSources {
  readonly views: Views
  readonly journal: Pick<Journal, 'read'>
  readonly past: Pick<Past, 'names' | 'collection'>
}

/** The state that a version of the data file shows, folded from the journal only if writes lie between merged edits. */
export async function openBase(options: BaseSources, version: FileVersion): Promise<OpenBase> {
  const { views, journal, past } = options
  const position = lastEventOf(version)
  if (!isWhole(version)) {
    return foldedFrom(views.store.directory, journal, [[1, version.position], ...version.edits])
  }
  return position === views.position ? views.snapshot() : FormerBase.at(past, position)
}

/** Whether a version shows all events up to its last one. */
function isWhole({ position, edits }: FileVersion): boolean {
  let end = position
  for (const [first, last] of edits) {
    if (first > end + 1) return false
    end = last
  }
  return true
}

class FormerBase extends Map<string, BaseItems> {
  readonly #release: (() => void)[] = []

  static async at(past: BaseSources['past'], position: Position): Promise<FormerBase> {
    const base = new FormerBase()
    try {
      for (const name of past.names(position)) {
        const reading = await past.collection(name, position)
        base.#release.push(() => reading.release())
        base.set(name, reading.items)
      }
    } catch (error) {
      base.close()
      throw error
    }
    return base
  }

  close(): void {
    for (const release of this.#release.splice(0)) release()
  }
}

/** The collections after the events of some ranges of positions alone. */
async function foldedFrom(
  directory: string,
  journal: Pick<Journal, 'read'>,
  ranges: readonly (readonly [Position, Position])[],
): Promise<Snapshot> {
  const past = Views.temporary(directory)
  await past.build(wanted(), 'fail')
  return past.snapshot()

  async function* wanted(): AsyncGenerator<Recorded> {
    for (const [from, to] of ranges) if (from <= to) yield* journal.read(from, to)
  }
}
