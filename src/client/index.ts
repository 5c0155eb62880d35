export type { Change as ValueChange } from '../json/changes.ts'
export { millisecondsOf } from '../json/instant.ts'
export type { Updated } from '../sockets/protocol.ts'
export type { ListChange } from './changes.ts'
export * from './collection.ts'
export type { ConnectionState, StateChange } from './connection.ts'
export type { Credentials } from './credentials.ts'
export type {
  EventCount,
  EventCountsOptions,
  EventPage,
  EventPageFilter,
  EventsFilter,
  RecordedEvent,
} from './events.ts'
export { LiveList } from './live-list.ts'
export type { Field, FilterValue, Moment, Where } from './parameters.ts'
export { Problem, Unreachable } from './problem.ts'
export type { Aggregate, AggregateOptions, AggregateRow, Deleted, DeleteOptions } from './query.ts'
export { type Exported, type ExportFormat, type Page, Query } from './query.ts'
export * from './recollect.ts'
export type { CreateOptions, Fetch, WriteOptions, Written } from './requests.ts'
