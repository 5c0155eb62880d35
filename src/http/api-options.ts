import type { CommandHandler } from '../commands/handler.ts'
import type { Journal } from '../events/journal.ts'
import type { Past } from '../projections/past.ts'
import type { Views } from '../projections/views.ts'
import type { Queries } from '../query/queries.ts'
import type { Turns } from '../runtime/turns.ts'
import type { Hints, WriteHintsOptions } from './hints.ts'
import type { HttpQueryLimits } from './requests.ts'

/** The dependencies of the routes under `/api`. */
export interface ApiOptions extends WriteHintsOptions {
  readonly views: Views
  readonly past: Past
  readonly queries: Queries
  readonly handler: Pick<CommandHandler, 'handle' | 'bulk' | 'delete' | 'restore'>
  readonly journal: Pick<Journal, 'id' | 'head' | 'at' | 'timeMs'>
  readonly turns: Turns
  readonly hints: Pick<Hints, 'check'>
  readonly limits: ApiLimits
  /** Whether responses are those of json-server where they differ. */
  readonly isJsonServer: boolean
  /** The end of the name of a field that refers to another item. */
  readonly foreignKeySuffix: string
  /** A page of a collection is an object as FakeServer's. */
  readonly useResultObject: boolean
}

interface ApiLimits extends HttpQueryLimits {
  readonly scanSeconds: number
  /** For a single item. */
  readonly bodyBytes: number
  readonly itemValues: number
  readonly batchBytes: number
  readonly batchItems: number
}
