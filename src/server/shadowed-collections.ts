import type { Projection } from '../events/journal.ts'
import { OWN_PATHS } from '../http/base-path.ts'
import type { Views } from '../projections/views.ts'
import type { LimitedLog } from '../runtime/limited-log.ts'

/** Warns of collections that are not served at the root with the others, as the server has a path of that name itself. */
export class ShadowedCollections implements Projection {
  readonly #views: Pick<Views, 'find'>
  readonly #log: Pick<LimitedLog, 'warn'>
  readonly #known: Set<string>

  constructor(views: Pick<Views, 'find'>, log: Pick<LimitedLog, 'warn'>) {
    this.#views = views
    this.#log = log
    this.#known = new Set(this.#names())
  }

  warnings(): readonly string[] {
    return this.#names().map(warningOf)
  }

  apply(): void {
    for (const name of this.#names()) {
      if (!this.#known.has(name)) this.#log.warn({ collection: name }, warningOf(name))
      this.#known.add(name)
    }
  }

  #names(): readonly string[] {
    return OWN_PATHS.filter((name) => this.#views.find(name))
  }
}

function warningOf(name: string): string {
  return `The collection "${name}" is served at /api/${name} only: /${name} is a path of the server itself.`
}
