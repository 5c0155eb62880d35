import { type SameIds, sameIdTwice, withFaults } from '../collections/file-mistakes.ts'
import * as CODE from '../json/char-codes.ts'
import type { Fault, Refusal } from '../runtime/errors.ts'
import type { Steps } from '../runtime/time-slices.ts'
import { JsonScanner, MORE, type ScanSteps } from './json-scanner.ts'

/** Indexes of items, by collection. */
type Wanted = ReadonlyMap<string, ReadonlySet<number>>

/** The line of each wanted item, by collection and index. */
type Lines = Map<string, ReadonlyMap<number, number>>

/** The refusal of a well-formed data file with the lines of items that have the same id. */
export function* withLines(
  refusal: Refusal,
  pieces: readonly Buffer[],
  sameIds: ReadonlyMap<Fault, SameIds>,
  idField: string,
): Steps<Refusal> {
  const wanted = new Map<string, Set<number>>()
  for (const { collection, first, second } of sameIds.values()) {
    wanted.set(collection, (wanted.get(collection) ?? new Set()).add(first).add(second))
  }
  const lines = yield* linesOf(pieces, wanted)
  const others = new Map<Fault, Fault>()
  for (const [fault, same] of sameIds) {
    const [first, second] = [same.first, same.second].map((index) => lines.get(same.collection)?.get(index))
    if (first !== undefined && second !== undefined) others.set(fault, sameIdTwice(same, idField, [first, second]))
  }
  return withFaults(refusal, others)
}

/** The line, from 1, on which each of the wanted items begins, by collection and index. The bytes are well-formed JSON. */
function* linesOf(pieces: readonly Buffer[], wanted: Wanted): Steps<Lines> {
  const scan = new JsonScanner()
  const lines: Lines = new Map()
  let [piece, at] = [0, 0]
  for (const step of itemLines(scan, wanted, lines)) {
    yield
    if (step !== MORE) continue
    if (at === pieces[piece]?.length) [piece, at] = [piece + 1, 0]
    const bytes = pieces[piece]?.copy(scan.allocate(), 0, at) ?? 0
    scan.commit(bytes)
    at += bytes
  }
  return lines
}

function* itemLines(scan: JsonScanner, wanted: Wanted, lines: Lines): ScanSteps<void> {
  yield* scan.begin()
  // The file may have changed since it was read.
  if (scan.peek() !== CODE.OPEN_BRACE) return
  for (let isFirst = true; yield* scan.member(isFirst); isFirst = false) {
    const name = yield* scan.name()
    const indexes = wanted.get(name)
    if (!indexes || scan.peek() !== CODE.OPEN_BRACKET) {
      yield* scan.skip()
      continue
    }
    const found = new Map<number, number>()
    for (let index = 0; yield* scan.element(index === 0); index++) {
      if (indexes.has(index)) found.set(index, scan.line)
      yield* scan.skip()
      yield
    }
    // A name that occurs twice is a mistake of its own, and does not tell which list is meant.
    lines.set(name, lines.has(name) ? new Map() : found)
  }
}
