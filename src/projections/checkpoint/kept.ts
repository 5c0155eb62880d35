import type { Position } from '../../events/event.ts'
import type { JsonObject } from '../../json/value.ts'

/** A part of a projection's state; the texts are JSON already, and are not looked into. */
export interface Piece {
  readonly fields: JsonObject
  readonly texts?: readonly string[]
}

/** A projection whose state a checkpoint can hold. */
export interface Kept {
  /**
   * The state right after the event at this position, which is the last one that the projection has had. Later events,
   * which come while the pieces are taken, change nothing of it that they do not themselves tell anew.
   */
  save(position: Position): Iterable<Piece>
  /** Takes back one of the pieces, all of them in order. */
  restore(piece: Piece): void
  /** Forgets everything. */
  clear(): void
}

const PIECE_CHARACTERS = 64 * 1024

/** Gathers things into pieces that are long enough to be worth a line each, and short enough to hold nobody. */
export function* gathered<Thing>(
  things: Iterable<Thing>,
  charactersOf: (thing: Thing) => number,
  pieceOf: (things: readonly Thing[]) => Piece,
): Generator<Piece> {
  let some: Thing[] = []
  let characters = 0
  for (const thing of things) {
    some.push(thing)
    characters += charactersOf(thing)
    if (characters < PIECE_CHARACTERS) continue
    yield pieceOf(some)
    some = []
    characters = 0
  }
  if (some.length > 0) yield pieceOf(some)
}
