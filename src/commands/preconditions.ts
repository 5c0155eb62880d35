import { Refusal } from '../runtime/errors.ts'
import type { Preconditions, Tags } from './command.ts'

/**
 * RFC 9110 §13.1. `tagsOf` returns the entity tags of the value to be changed, the item's first. A value that does not exist
 * has none, and matches nothing, not even `*`. It is called only if there is a condition, because hashing an item takes as
 * long as writing it to the store.
 */
export function checkPreconditions({ ifMatch, ifNoneMatch }: Preconditions, tagsOf: () => readonly string[]): void {
  if (ifMatch === undefined && ifNoneMatch === undefined) return
  const tags = tagsOf()
  const [tag] = tags
  if (ifMatch !== undefined && !matchesAny(ifMatch, tags)) {
    const why = tag === undefined ? 'the item does not exist' : `the item's entity tag is ${tag} now`
    throw new Refusal('PreconditionFailed', `If-Match does not match: ${why}.`)
  }
  if (ifNoneMatch !== undefined && matchesAny(ifNoneMatch, tags)) {
    throw new Refusal('PreconditionFailed', `If-None-Match matches: the item's entity tag is ${tag}.`)
  }
}

function matchesAny(wanted: Tags, tags: readonly string[]): boolean {
  return tags.some((tag) => matches(wanted, tag))
}

/** The end of an entity tag, with what a proxy that compresses the response puts before the quote. */
const TAG_END = /^(?:(?:--?|;)(?:gzip|deflate|br|zstd))?"$/

/** Whether one of the sent tags is the current one, possibly changed by a proxy. */
export function matches(tags: Tags, tag: string): boolean {
  const begin = tag.slice(0, -1)
  return tags === '*' || tags.some((sent) => sent.startsWith(begin) && TAG_END.test(sent.slice(begin.length)))
}
