export { millisecondsOf } from '../json/event-time.ts'
export type { Aggregate, AggregateOptions, AggregateRow } from './aggregates.ts'
export type { ListChange } from './changes.ts'
export {
  type BatchResult,
  Collection,
  type Created,
  type CreatedAll,
  type CreatedEach,
  type CreateOptions,
  Item,
  type Read,
} from './collection.ts'
export type { ConnectionState, StateChange, Updated } from './connection.ts'
export type { Credentials } from './credentials.ts'
export type { Deleted, DeleteOptions } from './deletion.ts'
export type { EventsFilter, RecordedEvent } from './events.ts'
export { InnerValue } from './inner-value.ts'
export { LiveList } from './live-list.ts'
export type { Field, FilterValue, Moment, Where } from './parameters.ts'
export { Problem } from './problem.ts'
export { type Exported, type ExportFormat, type Page, Query } from './query.ts'
export {
  type ConnectOptions,
  connect,
  type Health,
  Recollect,
  type Replaced,
  type Restored,
  type RestoreRequest,
} from './recollect.ts'
export { SingleObject } from './single-object.ts'
export type { Patch, PatchOperation, WriteOptions, Written } from './writes.ts'
