import type { JsonValue } from '../../src/json/value.ts'

/** Objects of different shapes whose texts have about so many characters: of each kind what costs the most. */
export function longObjects(characters: number): Readonly<Record<string, Readonly<Record<string, JsonValue>>>> {
  const times = <One>(each: number, one: (index: number) => One): One[] =>
    Array.from({ length: Math.floor(characters / each) }, (_, index) => one(index))
  const members = (each: number, member: (index: number) => JsonValue): Record<string, JsonValue> =>
    Object.fromEntries(times(each, (index) => [`m${index.toString(36)}`, member(index)]))
  let nested: JsonValue = times(2, () => 0)
  for (let depth = 0; depth < 94; depth++) nested = [nested]
  return {
    zeros: { a: times(2, () => 0) },
    nested: { a: nested },
    'many nested': { a: times(189, () => JSON.parse('['.repeat(94) + ']'.repeat(94)) as JsonValue) },
    members: members(10, () => 0),
    'members of a member': { a: { b: members(10, () => 0) } },
    objects: { a: times(3, () => ({})) },
    'distinct names': { a: times(13, (index) => ({ [`n${index.toString(36)}`]: 0 })) },
    'objects as members': members(16, () => ({ a: 0 })),
    texts: { a: times(8, (index) => index.toString(36)) },
    'a text': { a: 'a'.repeat(characters) },
  }
}
