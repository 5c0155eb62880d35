import type { EventTimeRule } from '../commands/rules.ts'
import { formatPath, type Path, parsePath, splitList } from '../json/paths.ts'
import { isArray, isObject, type JsonObject, type JsonValue } from '../json/value.ts'
import { isReceived, RECEIVED } from '../query/parameter.ts'

export interface CollectionSettings {
  /** The fields of each index. */
  readonly indexes: readonly (readonly Path[])[]
  readonly time?: EventTimeRule
  /** The settings of the event time that are given without it. */
  readonly withoutTime?: readonly string[]
  /** The fields of the natural key. */
  readonly key?: readonly Path[]
  /** POST replaces a different item that has the same natural key. */
  readonly isReplacing?: true
  /** The collection that has the newest item of each value of a field. */
  readonly latest?: { readonly in: string; readonly by: Path }
  /** The JSON Schema of the items, or the path of one. */
  readonly schema?: JsonValue
}

const MOST_INDEXES = 16
const MOST_FIELDS = 4
const TIME_KEYS = ['TimeRequired', 'TimeDefault', 'MaxAhead']
const KEYS = ['Indexes', 'Time', ...TIME_KEYS, 'Key', 'OnConflict', 'Latest', 'Schema']
const SECONDS = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 } as const
const MAX_AHEAD = '1d'

/** Describes the valid values of `Collections`, for error messages. */
export const COLLECTIONS_FORM =
  'an object of {"Indexes": ["<field>,<field>"], "Time": "<field>", "TimeRequired": true, "TimeDefault": "received", "MaxAhead": "1d", "Key": ["<field>"], "OnConflict": "replace", ' +
  '"Latest": {"in": "<collection>", "by": "<field>"}, "Schema": {…}} by collection, with at most four fields each and 16 indexes'

/** Undefined for a wrong value. */
export function readCollection(value: JsonValue): CollectionSettings | undefined {
  if (!isObject(value) || Object.keys(value).some((name) => !KEYS.includes(name))) return undefined
  const { Indexes, Key, OnConflict, Latest, Schema } = value
  const indexes = readIndexes(Indexes ?? [])
  const key = Key === undefined ? [] : readFields(Key)
  const latest = Latest === undefined ? {} : readLatest(Latest)
  const time = readTime(value)
  if (!indexes || !key || !latest || !time) return undefined
  if (OnConflict !== undefined && OnConflict !== 'refuse' && OnConflict !== 'replace') return undefined
  return {
    indexes,
    ...time,
    ...(key.length > 0 && { key }),
    ...(OnConflict === 'replace' && { isReplacing: true }),
    ...latest,
    ...(Schema !== undefined && { schema: Schema }),
  }
}

function readTime(value: JsonObject): Pick<CollectionSettings, 'time' | 'withoutTime'> | undefined {
  const { Time, TimeRequired = false, TimeDefault, MaxAhead = MAX_AHEAD } = value
  const maxAheadMs = readDuration(MaxAhead)
  if (typeof TimeRequired !== 'boolean' || maxAheadMs === undefined) return undefined
  if (TimeDefault !== undefined && TimeDefault !== 'received') return undefined
  if (Time === undefined) {
    const withoutTime = TIME_KEYS.filter((name) => Object.hasOwn(value, name))
    return withoutTime.length > 0 ? { withoutTime } : {}
  }
  if (!isName(Time)) return undefined
  const defaultsToReceipt = TimeDefault === 'received'
  return { time: { path: parsePath(Time), isTimeRequired: TimeRequired, defaultsToReceipt, maxAheadMs } }
}

/** Milliseconds of seconds, or of text such as `90m` or `1d`. */
function readDuration(value: JsonValue): number | undefined {
  const [, count, unit] = /^(\d{1,9})([smhdw])$/.exec(typeof value === 'number' ? `${value}s` : String(value)) ?? []
  return count === undefined ? undefined : Number(count) * SECONDS[unit as keyof typeof SECONDS] * 1000
}

function readIndexes(value: JsonValue): readonly (readonly Path[])[] | undefined {
  if (!isArray(value) || value.length > MOST_INDEXES) return undefined
  const fields = value.map((one) => (typeof one === 'string' ? splitList(one) : []))
  if (!fields.every(({ length }) => length > 0 && length <= MOST_FIELDS)) return undefined
  const paths = fields.map((list) => list.map(parsePath))
  // No item has this field itself.
  return paths.flat().some(isReceived) ? undefined : paths
}

function readFields(value: JsonValue): readonly Path[] | undefined {
  if (!isArray(value) || value.length === 0 || value.length > MOST_FIELDS || !value.every(isName)) return undefined
  const fields = value.map(parsePath)
  return new Set(fields.map(formatPath)).size === fields.length ? fields : undefined
}

function readLatest(value: JsonValue): Pick<CollectionSettings, 'latest'> | undefined {
  if (!isObject(value) || Object.keys(value).some((name) => name !== 'in' && name !== 'by')) return undefined
  const { in: name, by } = value
  return isName(name) && isName(by) ? { latest: { in: name, by: parsePath(by) } } : undefined
}

function isName(value: JsonValue | undefined): value is string {
  return typeof value === 'string' && value !== ''
}

/** Adds a mistake for each combination of settings that is not possible. */
export function checkCollections(
  collections: Readonly<Record<string, CollectionSettings>>,
  schemas: ReadonlyMap<string, JsonValue>,
  mistakes: string[],
): void {
  for (const [name, { key = [], isReplacing, time, withoutTime = [], latest, schema }] of Object.entries(collections)) {
    const setting = `Collections.${name}`
    if (withoutTime.length > 0) {
      mistakes.push(`${setting}.${withoutTime[0]} needs ${setting}.Time: the field of the event time.`)
    }
    const paths = [time?.path, latest?.by, ...key].filter((path) => path !== undefined)
    if (paths.some(isReceived)) {
      mistakes.push(
        `${setting} names ${RECEIVED}, which is no field of the items. "Time": "<field>" with "TimeDefault": "received" writes the time of receipt into a field.`,
      )
    }
    if (isReplacing && key.length === 0)
      mistakes.push(`${setting}.OnConflict needs ${setting}.Key: the fields of the natural key.`)
    if (schema !== undefined && schemas.has(name)) {
      mistakes.push(`Give the schema of "${name}" either as ${setting}.Schema or as Api.Schemas.${name}.`)
    }
    if (!latest) continue
    if (!time) mistakes.push(`${setting}.Latest needs ${setting}.Time: the field of the event time.`)
    const target = Object.hasOwn(collections, latest.in) ? collections[latest.in] : undefined
    const others = Object.values(collections).filter((one) => one.latest?.in === latest.in && one.time)
    if (time && !target?.time && others.some((one) => formatPath(one.time?.path ?? []) !== formatPath(time.path))) {
      mistakes.push(`${setting}.Time must be the same for all collections whose Latest names "${latest.in}".`)
    }
    if (latest.in === name) mistakes.push(`${setting}.Latest must name another collection than "${name}" itself.`)
    else if (target?.key || target?.latest) {
      mistakes.push(`${setting}.Latest names "${latest.in}", which must have neither Key nor Latest itself.`)
    }
  }
}

/** Gives each collection of latest items the event time of its readings, unless it has one of its own. */
export function withTimesOfLatest(
  collections: Readonly<Record<string, CollectionSettings>>,
): Readonly<Record<string, CollectionSettings>> {
  const all = { ...collections }
  for (const { latest, time } of Object.values(collections)) {
    if (!latest || !time) continue
    const target = Object.hasOwn(all, latest.in) ? all[latest.in] : undefined
    const { path, maxAheadMs } = time
    const inherited = { path, maxAheadMs, isTimeRequired: false, defaultsToReceipt: false }
    all[latest.in] = { indexes: [], ...target, time: target?.time ?? inherited }
  }
  return all
}

/** The event times of the collections that have them, by name. */
export function eventTimesOf(
  collections: Readonly<Record<string, CollectionSettings>>,
): ReadonlyMap<string, EventTimeRule> {
  return new Map(Object.entries(collections).flatMap(([name, { time }]) => (time ? [[name, time]] : [])))
}
