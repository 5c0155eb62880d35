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
