import { DEFAULT_ITEM_VALUES, sizeOf } from '../../src/json/parse.ts'
import type { Random } from '../support/random.ts'

/** Makes the JSON text of a value of about so many bytes. */
export type Shape = (bytes: number, random: Random) => string

/** Within `Limits.BodyBytes`, with what stands around the field. */
export const ITEM_BYTES = 2 ** 20 - 64
/** Within `Limits.ItemValues`, with the other fields. */
const ITEM_VALUES = DEFAULT_ITEM_VALUES - 100

/** An item nests a value once more, and no body may nest deeper than 100. */
const DEPTH = 97

/** The values that clients may put into a field, and that are expensive to search. */
const OF_ANY_VALUES: Readonly<Record<string, Shape>> = {
  text: (bytes) => JSON.stringify('a'.repeat(bytes - 2)),
  zeros: (bytes) => list(bytes, () => '0'),
  'empty texts': (bytes) => list(bytes, () => '""'),
  'empty lists': (bytes) => list(bytes, () => '[]'),
  'empty objects': (bytes) => list(bytes, () => '{}'),
  numbers: (bytes, random) => list(bytes, () => String(random.next())),
  integers: (bytes, random) => list(bytes, () => String(random.integer(2 ** 31))),
  texts: (bytes, random) => list(bytes, () => JSON.stringify(random.integer(2 ** 31).toString(36))),
  instants: (bytes, random) =>
    list(bytes, () => JSON.stringify(new Date(random.integer(2 ** 31) * 1000).toISOString())),
  'nested then wide': (bytes) => `${'['.repeat(DEPTH)}${list(bytes - 2 * DEPTH, () => '0')}${']'.repeat(DEPTH)}`,
  'nested objects then wide': (bytes) => {
    const each = '{"a":'
    const inner = list(bytes - DEPTH * (each.length + 1), () => '0')
    return each.repeat(DEPTH) + inner + '}'.repeat(DEPTH)
  },
  'many nested lists': (bytes) => list(bytes, () => `${'['.repeat(90)}${']'.repeat(90)}`),
  comb: (bytes) => {
    // Each level holds a number of elements beside the next level.
    const each = list(Math.floor(bytes / DEPTH) - 2, () => '0').slice(0, -1)
    return `${`${each},`.repeat(DEPTH - 1)}[]${']'.repeat(DEPTH - 1)}`
  },
  'wide object': (bytes) => object(bytes, (index) => `"m${index}":0`),
  'wide object of integer names': (bytes, random) => object(bytes, (index) => `"${index * 4 + random.integer(4)}":0`),
  'wide object of objects': (bytes) => object(bytes, (index) => `"m${index}":{"a":0}`),
  'small objects of distinct names': (bytes) => list(bytes, (index) => `{"m${index}":0}`),
  'small objects of one name': (bytes) => list(bytes, (index) => `{"a":${index}}`),
  'objects with ids': (bytes) => list(bytes, (index) => `{"id":${index}}`),
  escapes: (bytes) => `"${'\\u0000'.repeat(Math.floor(bytes / 6))}"`,
  quotes: (bytes) => `"${'\\"'.repeat(Math.floor(bytes / 2))}"`,
  'lone surrogates': (bytes) => `"${'\\ud800'.repeat(Math.floor(bytes / 6))}"`,
  'astral text': (bytes) => `"${'\u{1f600}'.repeat(Math.floor(bytes / 4))}"`,
  'folded text': (bytes) => `"${'\u0130ß'.repeat(Math.floor(bytes / 4))}"`,
  digits: (bytes) => JSON.stringify('9'.repeat(bytes - 2)),
  'spaces in text': (bytes) => JSON.stringify(' '.repeat(bytes - 2)),
  'long name': (bytes) => `{${JSON.stringify('k'.repeat(bytes - 8))}:0}`,
  'long names': (bytes) => object(bytes, (index) => `"${'k'.repeat(2000)}${index}":0`),
  'one name again and again': (bytes) => object(bytes, () => '"a":0'),
  'rounded exponents': (bytes) => list(bytes, () => '1e300'),
  'long fractions': (bytes) => list(bytes, () => `0.${'1'.repeat(500)}`),
  'one long number': (bytes) => `0.${'1'.repeat(bytes - 2)}`,
}

/** The same, with as large a part of the values that an item may have as of the bytes. */
export const SHAPES: Readonly<Record<string, Shape>> = Object.fromEntries(
  Object.entries(OF_ANY_VALUES).map(([name, make]): [string, Shape] => [
    name,
    (bytes, random) => {
      const text = make(bytes, random)
      const part = (ITEM_VALUES * bytes) / ITEM_BYTES / sizeOf(text).values
      return part >= 1 ? text : make(Math.floor(bytes * part), random)
    },
  ]),
)

function list(bytes: number, element: (index: number) => string): string {
  return `[${pieces(bytes, element).join(',')}]`
}

function object(bytes: number, member: (index: number) => string): string {
  return `{${pieces(bytes, member).join(',')}}`
}

function pieces(bytes: number, piece: (index: number) => string): string[] {
  const made: string[] = []
  for (let left = bytes - 2; ; ) {
    const text = piece(made.length)
    left -= text.length + 1
    if (left < 0) return made
    made.push(text)
  }
}
