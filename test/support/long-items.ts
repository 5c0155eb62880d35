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
