import type { EventTimeRule } from '../commands/rules.ts'
import { formatPath, type Path, parsePath, splitList } from '../json/paths.ts'
import type { JsonValue } from '../json/value.ts'
import { RECEIVED } from '../query/parameter.ts'
import type { Key } from './kinds.ts'
import type { Schema } from './schema.ts'

export interface CollectionSettings {
  /** The fields of each index. */
  readonly indexes: readonly (readonly Path[])[]
  readonly time?: EventTimeRule
  /** The fields of the natural key. */
  readonly key?: readonly Path[]
  /** POST replaces a different item that has the same natural key. */
  readonly isReplacing?: true
  /** The collection that has the newest item of each value of a field. */
  readonly latest?: { readonly in: string; readonly by: Path }
  /** How long items are kept. */
  readonly keep?: { readonly text: string; readonly ms: number }
  /** How many items are kept. */
  readonly keepItems?: number
  /** The JSON Schema of the items, or the path of one. */
  readonly schema?: JsonValue
}

/** A collection as users write it. */
interface CollectionEntry {
  readonly Indexes?: readonly string[]
  readonly Time?: string
  readonly TimeRequired?: boolean
  readonly TimeDefault?: 'received'
  readonly MaxAhead?: number | string
  readonly Key?: readonly string[]
  readonly OnConflict?: 'refuse' | 'replace'
  readonly Latest?: { readonly in: string; readonly by: string }
  readonly Keep?: string
  readonly KeepItems?: number
  readonly Schema?: JsonValue
}

/** No item has a field of this name: filters use it for the time of receipt. */
const NO_RECEIVED = `(?!\\${RECEIVED}(?:[.,]|$))`
const NAME = { type: 'string', minLength: 1, expects: 'a name' } as const
const FIELD = {
  type: 'string',
  pattern: `^${NO_RECEIVED}.`,
  expects: 'a field of the items ("TimeDefault": "received" writes the time of receipt into one)',
} as const

export const SCHEMA_OR_PATH: Schema = {
  type: ['object', 'boolean', 'string'],
  expects: 'a JSON Schema or the path of one',
}

/** The settings of a collection, as `CollectionEntry`. */
const COLLECTION: Schema = {
  type: 'object',
  additionalProperties: false,
  dependentRequired: { TimeRequired: ['Time'], TimeDefault: ['Time'], MaxAhead: ['Time'], Latest: ['Time'] },
  properties: {
    Indexes: {
      type: 'array',
      maxItems: 16,
      items: { type: 'string', pattern: `^,*(?:${NO_RECEIVED}(?:[^,\\\\]|\\\\[.,\\\\]?)+(?:,+|$)){1,4}$` },
      expects: 'a list of at most 16 indexes, each of one to four fields of the items, such as "<field>,<field>"',
    },
    Time: FIELD,
    TimeRequired: { type: 'boolean' },
    TimeDefault: { enum: ['received'] },
    MaxAhead: {
      type: ['integer', 'string'],
      minimum: 0,
      maximum: 999_999_999,
      pattern: '^\\d{1,9}[smhdw]$',
      expects: 'a number of seconds, or a duration such as 90m or 1d',
    },
    Key: {
      type: 'array',
      minItems: 1,
      maxItems: 4,
      uniqueItems: true,
      items: FIELD,
      expects: 'a list of one to four different fields of the items',
    },
    OnConflict: { enum: ['refuse', 'replace'] },
    Latest: {
      type: 'object',
      properties: { in: NAME, by: FIELD },
      required: ['in', 'by'],
      additionalProperties: false,
    },
    Keep: {
      type: 'string',
      pattern: '^[1-9]\\d{0,8}[smhdw]$',
      expects: 'a duration such as 90d, 12h or 4w',
    },
    KeepItems: {
      type: 'integer',
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      expects: 'a number of items, at least 1',
    },
    Schema: SCHEMA_OR_PATH,
  },
}

type Collections = Readonly<Record<string, CollectionSettings>>

export const COLLECTIONS: Key<Collections> = {
  type: 'object',
  description:
    'by collection, the indexes that it has from the start, the field of the event time, the natural key, the latest items, how long or how many items are kept, and the schema',
  additionalProperties: COLLECTION,
  expects:
    'an object of settings by collection, such as {"readings": {"Indexes": ["<field>,<field>"], "Time": "<field>"}}',
  default: {},
  shownType: 'json',
  shownDefault: 'none',
  read: (entries: Readonly<Record<string, CollectionEntry>>): Collections =>
    Object.fromEntries(Object.entries(entries).map(([name, entry]) => [name, readCollection(entry)])),
}

function readCollection(entry: CollectionEntry): CollectionSettings {
  const { Indexes = [], Time, TimeRequired = false, TimeDefault, MaxAhead = '1d' } = entry
  const { Key, OnConflict, Latest, Keep, KeepItems, Schema } = entry
  const time = Time !== undefined && {
    path: parsePath(Time),
    isTimeRequired: TimeRequired,
    defaultsToReceipt: TimeDefault === 'received',
    maxAheadMs: millisecondsOf(MaxAhead),
  }
  return {
    indexes: Indexes.map((index) => splitList(index).map(parsePath)),
    ...(time && { time }),
    ...(Key && { key: Key.map(parsePath) }),
    ...(OnConflict === 'replace' && { isReplacing: true }),
    ...(Latest && { latest: { in: Latest.in, by: parsePath(Latest.by) } }),
    ...(Keep !== undefined && { keep: { text: Keep, ms: millisecondsOf(Keep) } }),
    ...(KeepItems !== undefined && { keepItems: KeepItems }),
    ...(Schema !== undefined && { schema: Schema }),
  }
}

const SECONDS = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 } as const

/** Milliseconds of seconds, or of text such as `90m` or `1d`. */
function millisecondsOf(duration: number | string): number {
  const text = typeof duration === 'number' ? `${duration}s` : duration
  return Number.parseInt(text, 10) * SECONDS[text.at(-1) as keyof typeof SECONDS] * 1000
}

/** Adds a mistake for each combination of settings that is not possible. */
export function checkCollections(
  collections: Collections,
  schemas: ReadonlyMap<string, JsonValue>,
  mistakes: string[],
): void {
  for (const [name, { key = [], isReplacing, time, latest, schema }] of Object.entries(collections)) {
    const setting = `Collections.${name}`
    if (isReplacing && key.length === 0)
      mistakes.push(`${setting}.OnConflict needs ${setting}.Key: the fields of the natural key.`)
    if (schema !== undefined && schemas.has(name)) {
      mistakes.push(`Give the schema of "${name}" either as ${setting}.Schema or as Api.Schemas.${name}.`)
    }
    if (!latest || !time) continue
    const target = Object.hasOwn(collections, latest.in) ? collections[latest.in] : undefined
    const others = Object.values(collections).filter((one) => one.latest?.in === latest.in && one.time)
    if (!target?.time && others.some((one) => formatPath(one.time?.path ?? []) !== formatPath(time.path))) {
      mistakes.push(`${setting}.Time must be the same for all collections whose Latest names "${latest.in}".`)
    }
    if (latest.in === name) mistakes.push(`${setting}.Latest must name another collection than "${name}" itself.`)
    else if (target?.key || target?.latest) {
      mistakes.push(`${setting}.Latest names "${latest.in}", which must have neither Key nor Latest itself.`)
    }
  }
}

/** Gives each collection of latest items the event time of its readings, unless it has one of its own. */
export function withTimesOfLatest(collections: Collections): Collections {
  const all: Record<string, CollectionSettings> = { ...collections }
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
export function eventTimesOf(collections: Collections): ReadonlyMap<string, EventTimeRule> {
  return new Map(Object.entries(collections).flatMap(([name, { time }]) => (time ? [[name, time]] : [])))
}
