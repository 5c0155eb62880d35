import { afterBlanks, endOfString } from './scan.ts'
import { isArray, type JsonValue, put } from './value.ts'

/** Text that is not JSON. `whereMalformed` finds the place. */
export class Malformed extends Error {
  constructor() {
    super('malformed JSON')
  }
}

/**
 * `JSON.parse`, with each member under its own name. In V8 12.9 to 14.6 (Node 23 to 26), `JSON.parse` may take a
 * name that is written with an escape for another one that it has seen before:
 *
 *     JSON.parse('{"h":[],"\\\\":0}')
 *     JSON.parse('{"h":1,"\\"":2}')   // { h: 1, '\\': 2 }
 *
 * See https://github.com/nodejs/node/issues/63785. Text with such a name is parsed here.
 * @throws {Malformed}
 */
export function parseText(text: string): JsonValue {
  let value: JsonValue
  try {
    value = JSON.parse(text)
  } catch {
    throw new Malformed()
  }
  return hasEscapedName(text) ? read(text) : value
}

function hasEscapedName(json: string): boolean {
  for (let at = json.indexOf('\\'); at >= 0; at = json.indexOf('\\', at)) {
    at = afterBlanks(json, endOfString(json, at) + 1)
    if (json[at] === ':') return true
  }
  return false
}

const BLANKS_AND_SEPARATORS = ' \t\n\r,:'

/** Parses JSON that is known to be well-formed. */
function read(json: string): JsonValue {
  /** The open containers, each with its name in the one around it. */
  const open: { readonly container: JsonValue[] | Record<string, JsonValue>; readonly name: string }[] = []
  let name: string | undefined
  for (let at = 0; ; at++) {
    const character = json[at] as string
    if (BLANKS_AND_SEPARATORS.includes(character)) continue
    if (character === '[' || character === '{') {
      open.push({ container: character === '[' ? [] : {}, name: name ?? '' })
      name = undefined
      continue
    }
    let value: JsonValue
    if (character === ']' || character === '}') {
      const ended = open.pop() as (typeof open)[number]
      value = ended.container
      name = ended.name
    } else {
      const end = character === '"' ? endOfString(json, at) + 1 : endOfScalar(json, at)
      value = JSON.parse(json.slice(at, end)) as JsonValue
      at = end - 1
    }
    const around = open.at(-1)?.container
    if (around === undefined) return value
    if (isArray(around)) around.push(value)
    else if (name === undefined) {
      name = value as string
      continue
    } else put(around, name, value)
    name = undefined
  }
}

function endOfScalar(json: string, begin: number): number {
  let at = begin
  while (at < json.length && !' \t\n\r,]}'.includes(json[at] as string)) at++
  return at
}
