import type { IncomingMessage, ServerResponse } from 'node:http'
import rewrite from 'express-urlrewrite'
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
    if (name !== '' && !isOwnPath(`/${name}`) && this.#isAtRoot(decoded(name))) request.url = `/api${url}`
  }
}

/** @throws {Error} if the syntax of a rule is wrong. */
function ruleOf(from: string, to: string): (request: IncomingMessage) => void {
  const rule = rewrite(from, to)
  return (request) => rule(request, undefined as unknown as ServerResponse, () => {})
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
    ruleOf(from, to)({ url: '/' } as IncomingMessage)
  } catch (error) {
    return [`${JSON.stringify(from)} is no pattern: ${(error as Error).message}`]
  }
  const names = new Set(Array.from(from.matchAll(/:(\w+)/g), ([, name]) => name))
  const unknown = Array.from(to.matchAll(/:(\w+)/g), ([, name]) => name).find((name) => !names.has(name))
  return unknown === undefined
    ? []
    : [`${JSON.stringify(to)} names :${unknown}, which ${JSON.stringify(from)} does not`]
}
