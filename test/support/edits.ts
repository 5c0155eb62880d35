import type { FileContents } from '../../src/collections/snapshot.ts'
import type { JsonObject } from '../../src/json/value.ts'
import { type Base, collectionsOf, readingOf } from '../../src/projections/data-file/reading.ts'
import { atOnce } from '../../src/slices.ts'

type Objects = Iterable<readonly [string, readonly JsonObject[]]>

/** The edit that a data file with these collections is, when it was edited from others; all items of those have an id. */
export function editOf(file: Objects, from: Objects = []): { readonly file: FileContents; readonly base: Base } {
  const base = atOnce(collectionsOf(read(from, new Map())))
  return { file: read(file, base), base }
}

function read(objects: Objects, base: Base): FileContents {
  return atOnce(readingOf([Buffer.from(JSON.stringify(Object.fromEntries(objects)))], base))
}
