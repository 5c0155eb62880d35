import { formatPath, type Path, parsePath, splitList } from '../json/paths.ts'
import { isArray, isObject, type JsonValue } from '../json/value.ts'

export interface CollectionSettings {
  /** The fields of each index. */
  readonly indexes: readonly (readonly Path[])[]
  /** The field of the event time. */
  readonly time?: Path
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
const KEYS = ['Indexes', 'Time', 'Key', 'OnConflict', 'Latest', 'Schema']

/** Describes the valid values of `Collections`, for error messages. */
export const COLLECTIONS_FORM =
  'an object of {"Indexes": ["<field>,<field>"], "Time": "<field>", "Key": ["<field>"], "OnConflict": "replace", ' +
  '"Latest": {"in": "<collection>", "by": "<field>"}, "Schema": {…}} by collection, with at most four fields each and 16 indexes'

/** Undefined for a wrong value. */
export function readCollection(value: JsonValue): CollectionSettings | undefined {
  if (!isObject(value) || Object.keys(value).some((name) => !KEYS.includes(name))) return undefined
  const { Indexes, Time, Key, OnConflict, Latest, Schema } = value
  const indexes = readIndexes(Indexes ?? [])
  const key = Key === undefined ? [] : readFields(Key)
  const latest = Latest === undefined ? {} : readLatest(Latest)
  if (!indexes || !key || !latest) return undefined
  if (Time !== undefined && !isName(Time)) return undefined
  if (OnConflict !== undefined && OnConflict !== 'refuse' && OnConflict !== 'replace') return undefined
  return {
    indexes,
    ...(Time !== undefined && { time: parsePath(Time) }),
    ...(key.length > 0 && { key }),
    ...(OnConflict === 'replace' && { isReplacing: true }),
    ...latest,
    ...(Schema !== undefined && { schema: Schema }),
  }
}

function readIndexes(value: JsonValue): readonly (readonly Path[])[] | undefined {
  if (!isArray(value) || value.length > MOST_INDEXES) return undefined
  const fields = value.map((one) => (typeof one === 'string' ? splitList(one) : []))
  if (!fields.every(({ length }) => length > 0 && length <= MOST_FIELDS)) return undefined
  const paths = fields.map((list) => list.map(parsePath))
  // No item has this field itself.
  return paths.flat().some(([first]) => first === '$received') ? undefined : paths
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
  for (const [name, { key, isReplacing, time, latest, schema }] of Object.entries(collections)) {
    const setting = `Collections.${name}`
    if (isReplacing && !key) mistakes.push(`${setting}.OnConflict needs ${setting}.Key: the fields of the natural key.`)
    if (schema !== undefined && schemas.has(name)) {
      mistakes.push(`Give the schema of "${name}" either as ${setting}.Schema or as Api.Schemas.${name}.`)
    }
    if (!latest) continue
    if (!time) mistakes.push(`${setting}.Latest needs ${setting}.Time: the field of the event time.`)
    const target = Object.hasOwn(collections, latest.in) ? collections[latest.in] : undefined
    if (latest.in === name) mistakes.push(`${setting}.Latest must name another collection than "${name}" itself.`)
    else if (target?.key || target?.latest) {
      mistakes.push(`${setting}.Latest names "${latest.in}", which must have neither Key nor Latest itself.`)
    }
  }
}
