import type { JsonValue } from '../../src/json/value.ts'

/** Objects of different shapes with about so many weighted values: of each kind what costs the most. */
export function longObjects(values = 19_900): Readonly<Record<string, Readonly<Record<string, JsonValue>>>> {
  const times = <One>(weight: number, one: (index: number) => One): One[] =>
    Array.from({ length: Math.floor((values - 8) / weight) }, (_, index) => one(index))
  const members = (weight: number, member: (index: number) => JsonValue): Record<string, JsonValue> =>
    Object.fromEntries(times(weight, (index) => [`m${index.toString(36)}`, member(index)]))
  let nested: JsonValue = Array.from({ length: values - 200 }, () => 0)
  for (let depth = 0; depth < 94; depth++) nested = [nested]
  return {
    zeros: { a: times(1, () => 0) },
    nested: { a: nested },
    'many nested': { a: times(95, () => JSON.parse('['.repeat(94) + ']'.repeat(94)) as JsonValue) },
    members: members(4, () => 0),
    'members of a member': { a: { b: members(4, () => 0) } },
    objects: { a: times(1, () => ({})) },
    'distinct names': { a: times(5, (index) => ({ [`n${index.toString(36)}`]: 0 })) },
    'objects as members': members(8, () => ({ a: 0 })),
    texts: { a: times(1, (index) => index.toString(36)) },
    'a text': { a: 'a'.repeat(1_000_000) },
  }
}

/** A JSON list of so many readings. */
export function longListOf(count: number): string {
  return JSON.stringify(
    Array.from({ length: count }, (_, n) => ({ mac: 'F4:A5:74:89:16:57', data: { temperature: n } })),
  )
}

/** The weighted values of one field, with room for other fields in Limits.ItemValues. */
const VALUES = 19_800

/** Values of one field as large as items may be: each is the worst for some way to read it. */
export const LONG_VALUES: Readonly<Record<string, string>> = {
  'numbers in deep arrays': nested(repeated('0', VALUES - 98), 98),
  'numbers in one array': nested(repeated('0', VALUES), 1),
  'deep arrays in an array': nested(repeated(nested('', 98), VALUES / 98), 1),
  'empty objects in an array': nested(repeated('{}', VALUES), 1),
  'arrays in objects in an array': nested(repeated('{"b":[0]}', VALUES / 6), 1),
  'an object of many members': `{${Array.from({ length: VALUES / 4 }, (_, n) => `"k${n.toString(36)}":0`).join()}}`,
  'a text': `"${'a'.repeat(1_000_000)}"`,
}

function repeated(json: string, times: number): string {
  return Array.from({ length: times }, () => json).join()
}

function nested(json: string, depth: number): string {
  return '['.repeat(depth) + json + ']'.repeat(depth)
}
