import * as CODE from './char-codes.ts'
import { endOfString, JsonTokens } from './tokens.ts'
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
    at = endOfString(json, at) + 1
    if (new JsonTokens(json, at).next() === CODE.COLON) return true
  }
  return false
}

/** Parses JSON that is known to be well-formed. */
function read(json: string): JsonValue {
  const tokens = new JsonTokens(json)
  /** The open containers, each with its name in the one around it. */
  const open: { readonly container: JsonValue[] | Record<string, JsonValue>; readonly name: string }[] = []
  let name: string | undefined
  for (;;) {
    const code = tokens.next()
    if (code === CODE.COMMA || code === CODE.COLON) continue
    if (code === CODE.OPEN_BRACKET || code === CODE.OPEN_BRACE) {
      open.push({ container: code === CODE.OPEN_BRACKET ? [] : {}, name: name ?? '' })
      name = undefined
      continue
    }
    let value: JsonValue
    if (code === CODE.CLOSE_BRACKET || code === CODE.CLOSE_BRACE) {
      const ended = open.pop() as (typeof open)[number]
      value = ended.container
      name = ended.name
    } else value = JSON.parse(json.slice(tokens.begin, tokens.end)) as JsonValue
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
