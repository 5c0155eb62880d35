import type { IncomingMessage } from 'node:http'
import { isOwnPath } from './base-path.ts'

/** Addresses and the ones that they stand for, in the syntax of json-server 0.17: `/blog/*` and `/api/$1`. */
export type AddressRules = Readonly<Record<string, string>>

/** Changes the addresses of requests before anything else reads them. */
export class Rewriting {
  readonly #rules: readonly ((request: IncomingMessage) => void)[]
  readonly #isAtRoot: (name: string) => boolean

  /** `isAtRoot` tells whether a collection is served at `/<name>` as well as at `/api/<name>`. */
  constructor(rules: AddressRules, isAtRoot: (name: string) => boolean = () => false) {
    this.#rules = Object.entries(rules).map(([from, to]) => ruleOf(from, to))
    this.#isAtRoot = isAtRoot
  }

  /** Applies all rules, in order, each to what the earlier ones have left. */
  apply(request: IncomingMessage): void {
    for (const rule of this.#rules) rule(request)
    const { url = '' } = request
    const [, name = ''] = /^\/([^/?#]+)/.exec(url) ?? []
    if (name && !isOwnPath(`/${name}`) && this.#isAtRoot(decoded(name))) request.url = `/api${url}`
  }
}

/** @throws {Error} if the syntax of a rule is wrong, or is not supported. */
function ruleOf(from: string, to: string): (request: IncomingMessage) => void {
  const { expression, parts } = patternOf(from)
  const groupOf = (reference: string): number =>
    reference.startsWith('$') ? Number(reference.slice(1)) : parts.lastIndexOf(reference) + 1
  const missing = to.match(REFERENCE)?.find((reference) => !parts[groupOf(reference) - 1])
  if (missing) throw new Error(`${JSON.stringify(to)} names ${missing}, which ${JSON.stringify(from)} does not`)
  return (request) => {
    const found = expression.exec(request.url ?? '')
    if (found) request.url = to.replace(REFERENCE, (reference) => found[groupOf(reference)] as string)
  }
}

/** The part that an address takes from the pattern, by its number or name. */
const REFERENCE = /\$\d+|:\w+/g

/**
 * Reads a pattern as path-to-regexp 1 does, which json-server uses, but so that every address is compared in linear time:
 * a long one would block the server before access control. A part `:name` ends where the text behind it begins first, only
 * text may follow `*`, and there is no other syntax.
 */
function patternOf(from: string): { readonly expression: RegExp; readonly parts: readonly string[] } {
  const refuse = (why: string): never => {
    throw new Error(`${JSON.stringify(from)} is no pattern: ${why}`)
  }
  if (/[\\()]/.test(from)) refuse('there are no groups and no escapes')
  if (/(?::\w+|\*)[?+]/.test(from)) refuse('no part is optional or repeated')
  // Text and parts in turn.
  const pieces = from.replace(/\/$/, '').split(/(:\w+|\*)/)
  const parts = pieces.filter((_, index) => index % 2 === 1)
  if (parts.slice(0, -1).includes('*')) refuse('only text may follow *')
  const source = pieces.map((piece, index) => {
    if (index % 2 === 0) return escaped(piece)
    if (piece === '*') return '(.*)'
    const [next = ''] = pieces.slice(index + 1)
    if (next === '' && index + 2 < pieces.length) refuse(`no text separates ${piece} from the next part`)
    const [ending = ''] = next.split('/')
    return ending === '' ? '([^/]+)' : `((?:(?!${escaped(ending)})[^/])+)`
  })
  return { expression: new RegExp(`^${source.join('')}/?$`, 'i'), parts }
}

function escaped(text: string): string {
  return text.replace(/[$()*+.?[\\\]^{|}]/g, '\\$&')
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return ''
  }
}

/** The mistakes of a rule; empty if it can be applied. */
export function mistakesOfRule(from: string, to: unknown): readonly string[] {
  if (!from.startsWith('/')) return [`the address ${JSON.stringify(from)} must begin with a slash`]
  if (typeof to !== 'string' || !to.startsWith('/')) {
    return [`${JSON.stringify(from)} must stand for an address that begins with a slash, not ${JSON.stringify(to)}`]
  }
  try {
    ruleOf(from, to)
    return []
  } catch (error) {
    return [(error as Error).message]
  }
}
