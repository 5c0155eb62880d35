import { Refusal } from '../runtime/errors.ts'
import type { Conditions, Tags } from './command.ts'

/**
 * RFC 9110 §13.1: If-Match compares strongly, If-None-Match weakly. `tagsOf` returns the entity tags that stand for what is
 * written, the item's first; what does not exist has none and matches nothing, not even `*`. It is called only if there
 * is a condition, because hashing an item takes as long as writing it to the store.
 */
export function checkConditions({ ifMatch, ifNoneMatch }: Conditions, tagsOf: () => readonly string[]): void {
  if (ifMatch === undefined && ifNoneMatch === undefined) return
  const tags = tagsOf()
  const [tag] = tags
  if (ifMatch !== undefined && !matchesAny(ifMatch, tags, false)) {
    const why = tag === undefined ? 'the item does not exist' : `the item's entity tag is ${tag} now`
    throw new Refusal('PreconditionFailed', `If-Match does not match: ${why}.`)
  }
  if (ifNoneMatch !== undefined && matchesAny(ifNoneMatch, tags, true)) {
    throw new Refusal('PreconditionFailed', `If-None-Match matches: the item's entity tag is ${tag}.`)
  }
}

function matchesAny(wanted: Tags, tags: readonly string[], weakly: boolean): boolean {
  return tags.some((tag) => matches(wanted, tag, weakly))
}

export function matches(tags: Tags, tag: string, weakly: boolean): boolean {
  if (tags === '*') return true
  return tags.some((candidate) => candidate === tag || (weakly && candidate === `W/${tag}`))
}
