/** Values of one field whose JSON has about so many bytes: each is the worst of its size for some way to read it. */
export function longValues(bytes: number): Readonly<Record<string, string>> {
  return {
    'numbers in deep arrays': nested(repeated('0', bytes / 2), 98),
    'numbers in one array': nested(repeated('0', bytes / 2), 1),
    'deep arrays in an array': nested(repeated(nested('', 98), bytes / 200), 1),
    'empty objects in an array': nested(repeated('{}', bytes / 3), 1),
    'arrays in objects in an array': nested(repeated('{"b":[0]}', bytes / 10), 1),
    'an object of many members': `{${Array.from({ length: bytes / 11 }, (_, n) => `"k${n.toString(36)}":0`).join()}}`,
    'a text': `"${'a'.repeat(bytes)}"`,
  }
}

function repeated(json: string, times: number): string {
  return Array.from({ length: times }, () => json).join()
}

function nested(json: string, depth: number): string {
  return '['.repeat(depth) + json + ']'.repeat(depth)
}
