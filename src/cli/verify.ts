import { Corruption, Refusal } from '../errors.ts'
import type { Position } from '../events/event.ts'
import type { Files } from '../files/files.ts'
import { readContent } from '../projections/data-file/adapter.ts'
import { type Base, readingOf } from '../projections/data-file/reading.ts'
import { readState } from '../projections/data-file/state.ts'
import { atOnce } from '../slices.ts'
import { fold, type Progress } from './fold.ts'

export interface Verified {
  /** Nothing is damaged or missing. */
  readonly ok: boolean
  readonly journal: string
  readonly id?: string
  /** Of the last event. */
  readonly head?: Position
  readonly segments?: number
  /** Bytes at the end that are not, or not yet, a whole write. */
  readonly unfinishedBytes?: number
  /** What the data file is to the journal. */
  readonly dataFile?: 'current' | 'behind' | 'edited' | 'invalid' | 'missing' | 'different' | 'ahead'
  readonly problems: readonly string[]
}

/** Checks frames, checksums, positions, chain and segment headers, and the data file against the folded state. */
export async function verify(files: Files, journal: string, file: string, progress: Progress): Promise<Verified> {
  let known: Known
  let folded: Awaited<ReturnType<typeof fold>>
  try {
    known = await knownContent(files, await files.resolve(file), journal)
    folded = await fold(files, journal, { position: known.position ?? 0 }, progress)
  } catch (error) {
    if (!(error instanceof Corruption)) throw error
    return { ok: false, journal, problems: [error.message] }
  }
  const { id, segments, next, torn } = folded.walked
  if (id === undefined) return { ok: false, journal, problems: [`There is no journal in ${journal}.`] }
  const head = next.position - 1
  const problems: string[] = []
  const dataFile = ((): Exclude<Verified['dataFile'], undefined> => {
    if (known.journal !== undefined && known.journal !== id) {
      problems.push(`${file} was written from the journal ${known.journal}, and this one is ${id}.`)
      return 'different'
    }
    if (known.last > head) {
      problems.push(`${file} shows position ${known.last}, and the journal ends at ${head}: events are missing.`)
      return 'ahead'
    }
    if (!known.pieces) return 'missing'
    if (known.position === undefined) {
      const why = whyInvalid(known.pieces)
      if (why === undefined) return 'edited'
      problems.push(`${file} is no data file: ${why}`)
      return 'invalid'
    }
    if (!shows(known.pieces, folded.views.picture())) {
      problems.push(`${file} does not show what the journal's events up to position ${known.position} amount to.`)
      return 'different'
    }
    return known.position === head ? 'current' : 'behind'
  })()
  return {
    ok: problems.length === 0,
    journal,
    id,
    head,
    segments: segments.length,
    unfinishedBytes: torn?.bytes.length ?? 0,
    dataFile,
    problems,
  }
}

interface Known {
  readonly journal: string | undefined
  /** The last position that the state file knows of. */
  readonly last: Position
  readonly pieces: readonly Buffer[] | undefined
  /** The position that the file's content was written at; undefined when it did not come from a server. */
  readonly position: Position | undefined
}

/** A running server may replace the file between two looks: then it is looked at again. */
async function knownContent(files: Files, file: string, journal: string): Promise<Known> {
  for (let attempt = 1; ; attempt++) {
    const state = (await readState(files, { dataFile: file, journal }))?.state
    const found = await readContent(files, file)
    const marks = [state?.confirmed, state?.pending]
    const position = marks.find((mark) => mark !== undefined && mark.hash === found?.content.hash)?.position
    if (position === undefined && found && attempt < 5) continue
    const last = Math.max(state?.confirmed?.position ?? 0, state?.pending?.position ?? 0)
    return { journal: state?.journal, last, pieces: found?.pieces, position }
  }
}

/** Whether a data file has the same collections with the same items in the same order. */
function shows(pieces: readonly Buffer[], collections: Base): boolean {
  const file = atOnce(readingOf(pieces, collections))
  if (file.size !== collections.size) return false
  for (const [name, { items }] of file) {
    const collection = collections.get(name)
    if (items.length !== collection?.size) return false
    let index = 0
    for (const item of collection.items()) if (items.at(index++)?.text !== item.text) return false
  }
  return true
}

function whyInvalid(pieces: readonly Buffer[]): string | undefined {
  try {
    atOnce(readingOf(pieces, new Map()))
    return undefined
  } catch (error) {
    if (error instanceof Refusal) return error.message
    throw error
  }
}
