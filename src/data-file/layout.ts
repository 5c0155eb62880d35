import { keyOf } from '../collections/item.ts'
import { holdsObject, itemsIn } from '../collections/stored-items.ts'
import type { Base, BaseItems } from '../commands/difference.ts'
import * as CODE from '../json/char-codes.ts'
import { parseText } from '../json/parse.ts'
import { END, JsonTokens } from '../json/tokens.ts'
import { isArray, isObject, type JsonObject, type JsonValue, own } from '../json/value.ts'

/** How a data file is laid out: line ends, indentation and, of a file that is kept part by part, its text. */
export interface Layout {
  /** A line end, or nothing where the file has one line. */
  readonly eol: string
  /** One step of indentation. */
  readonly unit: string
  /** The text of the file; empty: only its style is kept. */
  readonly text: string
  /** A member `$schema` to begin with, where the text is not kept. */
  readonly schema?: string | undefined
}

export const DEFAULT_LAYOUT: Layout = { eol: '\n', unit: '  ', text: '' }

/** From this number of items on, each has a single line: a third of the bytes would be blanks. */
const MANY_ITEMS = 1000

const SCHEMA = '$schema'
const FIRST_SCHEMA = /^\uFEFF?\s*\{\s*("\$schema"\s*:\s*"(?:[^"\\]|\\.)*")/

/** The layout of a file, from its text or, if it is too long to be kept, its beginning. */
export function layoutOf(beginning: string, isWhole: boolean): Layout {
  const [, eol = '', unit = ''] = /^\uFEFF?\s*\{[ \t]*(\r?\n)([ \t]*)"/.exec(beginning) ?? []
  const hasMembers = /^\uFEFF?\s*\{[ \t\r\n]*"/.test(beginning)
  const style = hasMembers ? { eol, unit } : DEFAULT_LAYOUT
  // A file of one line has no layout that anybody reads, and would change as a whole each time.
  const isOneLine = !beginning.trim().includes('\n')
  if (isWhole && !isOneLine) return { ...style, text: beginning }
  return { ...(eol === '' ? DEFAULT_LAYOUT : style), text: '', schema: schemaIn(beginning, isWhole) }
}

function schemaIn(beginning: string, isWhole: boolean): string | undefined {
  if (!isWhole) return FIRST_SCHEMA.exec(beginning)?.[1]
  const parts = containerIn(beginning.trim(), 0)?.container.parts ?? []
  const found = parts.find(({ name, value }) => name === SCHEMA && value.startsWith('"'))
  return found && found.head + found.value
}

/** A member of an object or an element of an array, in a text. */
interface Part {
  /** The blanks before it. */
  readonly lead: string
  /** The name of a member, as it is written, with the colon and blanks; empty for an element. */
  readonly head: string
  readonly name: string
  readonly value: string
}

interface Container {
  readonly isArray: boolean
  readonly parts: readonly Part[]
  /** The blanks before its end. */
  readonly tail: string
}

/** Where a text is: what begins a new line there, and how values are written in a single line. */
interface Place {
  /** A line end with the indentation of the container; empty in a container of one line. */
  readonly line: string
  readonly unit: string
  /** Blanks inside the braces of a value in one line. */
  readonly pad: string
  /** Blanks after its colons and commas. */
  readonly gap: string
}

/** The text of a data file in pieces, with the layout of what did not change. `idField` names the id of items. */
export function* fileText(snapshot: Base, layout: Layout, idField: string): Generator<string> {
  const { eol, unit, text, schema } = layout
  const place: Place = { line: eol, unit, pad: eol && ' ', gap: eol && ' ' }
  const start = /^\uFEFF?\s*/.exec(text)?.[0] ?? ''
  const old = containerIn(text, start.length)
  const parts = old?.container.parts ?? []
  const leadOf = leads(parts, eol + unit)
  const written = new Set<string>()
  let count = 0
  const begin = (head: string, part?: Part): string => `${count === 0 ? '' : ','}${leadOf(count++, part)}${head}`
  yield `${start}{`
  if (schema !== undefined) yield begin(schema)
  for (const part of parts) {
    const items = snapshot.get(part.name)
    if (items) {
      written.add(part.name)
      yield begin(part.head, part)
      yield* collectionText(items, part.value, inside(place, part.lead), idField)
    } else if (part.name === SCHEMA && part.value.startsWith('"')) yield begin(part.head + part.value, part)
  }
  for (const [name, items] of snapshot) {
    if (written.has(name)) continue
    const line = inside(place, leadOf(count))
    yield begin(JSON.stringify(name) + colonOf(parts, place))
    yield* collectionText(items, '', line, idField)
  }
  const tail = old && parts.length > 0 ? old.container.tail : eol
  yield `${count === 0 ? '' : tail}}${old ? text.slice(old.end) : eol}`
}

function* collectionText(items: BaseItems, text: string, place: Place, idField: string): Generator<string> {
  if (holdsObject(items)) {
    for (const item of itemsIn(items)) yield kept(text, item.text, place)
    return
  }
  const old = containerIn(text, 0)?.container
  const parts = old?.isArray ? old.parts : []
  const sample = parts[0]
  const leadOf = leads(parts, place.line === '' ? '' : place.line + place.unit)
  const known = new Map(parts.map((part) => [keyIn(part.value, idField), part]))
  const isLong = !sample && items.size >= MANY_ITEMS
  let count = 0
  yield '['
  for (const item of itemsIn(items)) {
    const part = known.get(item.key)
    const before = leadOf(count, part)
    const inner = inside(place, before)
    const value = isLong
      ? item.text
      : part
        ? kept(part.value, item.text, inner)
        : like(sample?.value, parseText(item.text), inner)
    yield `${count++ === 0 ? '' : ','}${before}${value}`
  }
  yield `${count === 0 ? '' : (old?.parts.length ?? 0) > 0 ? old?.tail : place.line}]`
}

function keyIn(text: string, idField: string): string | undefined {
  const value = parseText(text)
  const id = isObject(value) ? own(value, idField) : undefined
  return typeof id === 'string' || typeof id === 'number' ? keyOf(id) : undefined
}

/** The text of an item or object, as far as it did not change; `wanted` is its JSON. */
function kept(text: string, wanted: string, place: Place): string {
  const value = parseText(wanted)
  if (text === '') return formatted(value, place)
  const result = edited(text, value, place)
  // Its members may have another order now.
  return JSON.stringify(parseText(result)) === wanted ? result : like(text, value, place)
}

/** A new value in the manner of another one: in one line or in several. */
function like(sample: string | undefined, value: JsonValue, place: Place): string {
  return formatted(value, sample === undefined ? place : withinText(place, sample))
}

/** A text changed to express another value. */
function edited(text: string, value: JsonValue, place: Place): string {
  if (JSON.stringify(parseText(text)) === JSON.stringify(value)) return text
  const old = containerIn(text, 0)?.container
  const within = withinText(place, text)
  if (!old || old.parts.length === 0 || !(old.isArray ? isArray(value) : isObject(value)))
    return formatted(value, within)
  const colon = colonOf(old.parts, within)
  const partOf = new Map(old.parts.map((part) => [part.name, part]))
  const members = isArray(value)
    ? value.map((one, index) => ({ head: '', one, part: old.parts[index] }))
    : Object.entries(value as JsonObject).map(([name, one]) => {
        return { head: JSON.stringify(name) + colon, one: one as JsonValue, part: partOf.get(name) }
      })
  if (members.length === 0) return old.isArray ? '[]' : '{}'
  const leadOf = leads(old.parts, '')
  const pieces = members.map(({ head, one, part }, index) => {
    const lead = leadOf(index, part)
    const inner = inside(within, lead)
    return lead + (part?.head ?? head) + (part ? edited(part.value, one, inner) : formatted(one, inner))
  })
  const joined = pieces.join(',')
  return old.isArray ? `[${joined}${old.tail}]` : `{${joined}${old.tail}}`
}

/** The blanks before the part at an index: its own, unless it was the first one or is it now. */
function leads(old: readonly Part[], initial: string): (index: number, part?: Part) => string {
  const [first] = old
  const last = old.at(-1)
  return (index, part) => {
    if (!first || !last) return initial
    if (index === 0) return first.lead
    return part && part !== first ? part.lead : last.lead
  }
}

/** The colon between a name and its value, with blanks. */
function colonOf([first]: readonly Part[], { line, gap }: Place): string {
  if (first) return first.head.slice(first.head.indexOf(':', JSON.stringify(first.name).length))
  return line === '' ? `:${gap}` : ': '
}

/** The place of a part, by the blanks before it. */
function inside(place: Place, lead: string): Place {
  const newLine = /\r?\n[ \t]*$/.exec(lead)?.[0] ?? ''
  return { ...place, line: newLine }
}

/** The place inside a text: a container of one line stays one. */
function withinText(place: Place, text: string): Place {
  const isOneLine = /^(?:\[\s*[^\s\]]|\{\s*[^\s}])/.test(text) && !text.includes('\n')
  if (!isOneLine) return place
  const gap = /[,:] /.test(text) ? ' ' : ''
  return { ...place, line: '', pad: /^\{ /.test(text) ? ' ' : '', gap }
}

function formatted(value: JsonValue, place: Place): string {
  if (place.line === '') return inOneLine(value, place)
  return JSON.stringify(value, null, place.unit).replaceAll('\n', place.line)
}

function inOneLine(value: JsonValue, { pad, gap }: Place): string {
  const write = (one: JsonValue): string => {
    if (isArray(one)) return `[${one.map(write).join(`,${gap}`)}]`
    if (!isObject(one) || Object.keys(one).length === 0) return JSON.stringify(one)
    const members = Object.entries(one).map(
      ([name, inner]) => `${JSON.stringify(name)}:${gap}${write(inner as JsonValue)}`,
    )
    return `{${pad}${members.join(`,${gap}`)}${pad}}`
  }
  return write(value)
}

/** The object or array that begins at an offset, with its parts; undefined if there is none. */
function containerIn(text: string, from: number): { readonly container: Container; readonly end: number } | undefined {
  const tokens = new JsonTokens(text, from)
  const first = tokens.next()
  if (first !== CODE.OPEN_BRACE && first !== CODE.OPEN_BRACKET) return undefined
  const isList = first === CODE.OPEN_BRACKET
  const parts: Part[] = []
  for (;;) {
    const before = tokens.end
    let code = tokens.next()
    if (isClosing(code))
      return { container: { isArray: isList, parts, tail: text.slice(before, tokens.begin) }, end: tokens.end }
    const begin = tokens.begin
    let name = ''
    if (!isList) {
      name = JSON.parse(text.slice(begin, tokens.end)) as string
      tokens.next()
      code = tokens.next()
    }
    const valueBegin = tokens.begin
    for (let depth = isOpening(code) ? 1 : 0; depth > 0; ) {
      code = tokens.next()
      if (code === END) return undefined
      if (isOpening(code)) depth++
      else if (isClosing(code)) depth--
    }
    const valueEnd = tokens.end
    parts.push({
      lead: text.slice(before, begin),
      head: text.slice(begin, valueBegin),
      name,
      value: text.slice(valueBegin, valueEnd),
    })
    const after = tokens.next()
    if (isClosing(after))
      return { container: { isArray: isList, parts, tail: text.slice(valueEnd, tokens.begin) }, end: tokens.end }
    if (after === END) return undefined
  }
}

function isOpening(code: number): boolean {
  return code === CODE.OPEN_BRACE || code === CODE.OPEN_BRACKET
}

function isClosing(code: number): boolean {
  return code === CODE.CLOSE_BRACE || code === CODE.CLOSE_BRACKET
}
