import { keyOf } from '../collections/item.ts'
import { holdsObject, itemsIn } from '../collections/stored-items.ts'
import type { Base, BaseItems } from '../commands/difference.ts'
import { type JsonChild, type JsonNode, nodeIn } from '../json/nodes.ts'
import { parseText } from '../json/parse.ts'
import { isObject, own } from '../json/value.ts'
import { SCHEMA } from './file-parser.ts'

/** How a data file is laid out: line ends, indentation and, of a file that is kept part by part, its text. */
export interface Layout {
  readonly eol: string
  /** One step of indentation. */
  readonly unit: string
  /** The file with its collections and their items; undefined: only its style is kept. */
  readonly file: TextNode | undefined
  /** A member `$schema` to begin with, where the file is not kept. */
  readonly schema?: string | undefined
}

export const DEFAULT_LAYOUT: Layout = { eol: '\n', unit: '  ', file: undefined }

/** From this number of items on, each has a single line: a third of the bytes would be blanks. */
const MANY_ITEMS = 1000

const FIRST_SCHEMA = /^\uFEFF?\s*\{\s*("\$schema"\s*:\s*"(?:[^"\\]|\\.)*")/
/** File, collections, items. */
const LEVELS = 2

/** The layout of a file, from its text or, if it is too long to be kept, its beginning. */
export function layoutOf(beginning: string, isWhole: boolean): Layout {
  const [, eol = '\n', unit = '  '] = /^\uFEFF?\s*\{[ \t]*(\r?\n)([ \t]*)"/.exec(beginning) ?? []
  if (!isWhole) return { eol, unit, file: undefined, schema: FIRST_SCHEMA.exec(beginning)?.[1] }
  const file = fileIn(beginning)
  // A file of one line has no layout that anybody reads, and would change as a whole each time.
  if (beginning.trim().includes('\n')) return { eol, unit, file }
  const found = file?.node.children.find(isSchema(beginning))
  return { eol, unit, file: undefined, schema: found && beginning.slice(found.begin, found.value.end) }
}

/** Undefined if the text is not that of a data file: it is being edited. */
function fileIn(text: string): TextNode | undefined {
  try {
    const node = nodeIn(text.replace(/^\uFEFF/, ' '), LEVELS)
    return node.kind === 'object' ? { text, node } : undefined
  } catch {
    return undefined
  }
}

function isSchema(text: string): (child: JsonChild) => boolean {
  return ({ name, value }) => name === SCHEMA && text[value.begin] === '"'
}

/** A value with the text in which it is. */
interface TextNode {
  readonly text: string
  readonly node: JsonNode
}

/** How a new value is written: in lines, or in one line. */
interface Style {
  /** A line end with the indentation of the value; empty: in one line. */
  readonly line: string
  readonly unit: string
  /** Blanks inside the braces of an object in one line. */
  readonly pad: string
  /** Blanks after the colons and commas of one line. */
  readonly gap: string
}

/** The text of a data file in pieces, with the layout of what did not change. `idField` names the id of items. */
export function* fileText(snapshot: Base, layout: Layout, idField: string): Generator<string> {
  const { eol, unit, file, schema } = layout
  const { text, node } = file ?? EMPTY
  const frame = new Frame(file, styleOf(file, { line: eol, unit, pad: ' ', gap: ' ' }), 'object')
  const written = new Set<string>()
  yield `${text.slice(0, node.begin)}{`
  if (schema !== undefined) yield frame.before(undefined) + schema
  for (const child of node.children) {
    const items = snapshot.get(child.name)
    const head = text.slice(child.begin, child.value.begin)
    if (items && !written.has(child.name)) {
      written.add(child.name)
      yield frame.before(child) + head
      yield* collectionText(items, { text, node: child.value }, frame.style, idField)
    } else if (isSchema(text)(child)) yield frame.before(child) + text.slice(child.begin, child.value.end)
  }
  for (const [name, items] of snapshot) {
    if (written.has(name)) continue
    yield frame.before(undefined) + frame.head(name)
    yield* collectionText(items, undefined, frame.style, idField)
  }
  yield `${frame.end()}}${file ? text.slice(node.end) : eol}`
}

const EMPTY: TextNode = { text: '', node: { begin: 0, end: 0, kind: 'object', children: [] } }

function* collectionText(
  items: BaseItems,
  old: TextNode | undefined,
  outer: Style,
  idField: string,
): Generator<string> {
  const style = indented(outer)
  if (holdsObject(items)) {
    for (const item of itemsIn(items)) yield itemText(item.text, old, style)
    return
  }
  const list = old?.node.kind === 'array' ? old : undefined
  const children = list?.node.children ?? []
  if (list && items.size === 0 && children.length === 0) {
    yield sliceOf(list)
    return
  }
  const text = list?.text ?? ''
  const frame = new Frame(list, styleOf(list, style), 'array')
  const known = new Map(children.map((child) => [keyIn(sliceOf({ text, node: child.value }), idField), child]))
  const sample = children.at(-1)
  const newStyle = styleOf(sample && whole(text.slice(sample.value.begin, sample.value.end)), indented(frame.style))
  const isLong = !sample && items.size >= MANY_ITEMS
  yield '['
  for (const item of itemsIn(items)) {
    const child = known.get(item.key)
    yield frame.before(child)
    const kept = child && { text, node: child.value }
    yield isLong ? item.text : itemText(item.text, kept, newStyle)
  }
  yield `${frame.end()}]`
}

function keyIn(text: string, idField: string): string | undefined {
  const value = parseText(text)
  const id = isObject(value) ? own(value, idField) : undefined
  return typeof id === 'string' || typeof id === 'number' ? keyOf(id) : undefined
}

/** The text of an item or object, as far as it did not change; `wanted` is its JSON. */
function itemText(wanted: string, old: TextNode | undefined, style: Style): string {
  // Most items did not change.
  if (old && JSON.stringify(parseText(sliceOf(old))) === wanted) return sliceOf(old)
  const pieces: string[] = []
  write(pieces, old && whole(sliceOf(old)), whole(wanted), style)
  return pieces.join('')
}

/** Writes a value in place of an old one, if there is one, and keeps the text of what is the same in both. */
function write(pieces: string[], old: TextNode | undefined, value: TextNode, outer: Style): void {
  const { kind, children } = value.node
  const style = styleOf(old, outer)
  const same = old?.node.kind === kind ? old : undefined
  if (kind === 'other') return void pieces.push(sliceOf(same && isSame(same, value) ? same : value))
  if ((same?.node.children.length ?? 0) + children.length === 0) return void pieces.push(sliceOf(same ?? value))
  const frame = new Frame(same, style, kind)
  const members = kind === 'object' && new Map(same?.node.children.map((child) => [child.name, child]))
  pieces.push(kind === 'array' ? '[' : '{')
  for (const child of children) {
    const before = members ? members.get(child.name) : same?.node.children[child.index]
    const inner = { text: value.text, node: child.value }
    pieces.push(frame.before(before))
    if (same && before) pieces.push(same.text.slice(before.begin, before.value.begin))
    else if (members) pieces.push(frame.head(child.name))
    write(pieces, same && before && { text: same.text, node: before.value }, inner, indented(style))
  }
  pieces.push(frame.end(), kind === 'array' ? ']' : '}')
}

function isSame(a: TextNode, b: TextNode): boolean {
  const [one, other] = [sliceOf(a), sliceOf(b)]
  return one === other || JSON.parse(one) === JSON.parse(other)
}

function whole(text: string): TextNode {
  return { text, node: nodeIn(text) }
}

function sliceOf({ text, node }: TextNode): string {
  return text.slice(node.begin, node.end)
}

/** The texts around the members of an object or the elements of an array: commas, line ends and indentation. */
class Frame {
  readonly style: Style
  readonly #text: string
  readonly #old: readonly JsonChild[]
  readonly #opening: string
  readonly #separator: string
  readonly #closing: string
  readonly #colon: string
  #isEmpty = true

  /** `style` is that of the old value, if there is one. */
  constructor(old: TextNode | undefined, style: Style, kind: 'array' | 'object') {
    const { line, unit, pad, gap } = style
    const { text, node } = old ?? EMPTY
    const { children } = node
    const [first, last] = [children[0], children.at(-1)]
    const blanks = kind === 'array' ? '' : pad
    this.style = style
    this.#text = text
    this.#old = children
    this.#opening = first ? text.slice(node.begin + 1, first.begin) : line === '' ? blanks : line + unit
    this.#closing = last ? text.slice(last.value.end, node.end - 1) : line === '' ? blanks : line
    const separator = last && last.index > 0 ? this.#before(last) : `,${line === '' ? gap : this.#opening}`
    this.#separator = separator.split(',').map(withoutEmptyLines).join(',')
    this.#colon = first && kind === 'object' ? text.slice(first.nameEnd, first.value.begin) : `:${gap}`
  }

  /** The text before an old child, or before a new one. */
  before(child: JsonChild | undefined): string {
    const isFirst = this.#isEmpty
    this.#isEmpty = false
    if (isFirst) return this.#opening
    return child && child.index > 0 ? this.#before(child) : this.#separator
  }

  /** A new name with its colon. */
  head(name: string): string {
    return JSON.stringify(name) + this.#colon
  }

  end(): string {
    return this.#isEmpty ? '' : this.#closing
  }

  #before({ index, begin }: JsonChild): string {
    return this.#text.slice(this.#old[index - 1]?.value.end, begin)
  }
}

function withoutEmptyLines(blanks: string): string {
  return lastLineOf(blanks) ?? blanks.slice(0, 1)
}

/** The last line end in blanks, with the indentation after it; undefined if there is none. */
function lastLineOf(blanks: string): string | undefined {
  const end = blanks.lastIndexOf('\n')
  return end < 0 ? undefined : blanks.slice(blanks[end - 1] === '\r' ? end - 1 : end)
}

/** The style of an old value: its line ends and indentation, or the blanks in its one line. */
function styleOf(old: TextNode | undefined, outer: Style): Style {
  const { text, node } = old ?? EMPTY
  const [first, last] = [node.children[0], node.children.at(-1)]
  if (!first || !last) return outer
  const inner = lastLineOf(text.slice(node.begin + 1, first.begin))
  if (inner === undefined) {
    const pad = node.kind === 'object' && first.begin > node.begin + 1 ? ' ' : ''
    const gap = /[,:] /.test(text.slice(first.begin, Math.min(node.end, first.begin + MOST_LOOKED_AT))) ? ' ' : ''
    return { ...outer, line: '', pad, gap }
  }
  const line = lastLineOf(text.slice(last.value.end, node.end - 1)) ?? outer.line
  const isDeeper = inner.length > line.length && inner.startsWith(line)
  return { ...outer, line, unit: isDeeper ? inner.slice(line.length) : outer.unit }
}

/** Characters of a line in which the blanks after a colon or comma are looked for. */
const MOST_LOOKED_AT = 200

/** The style of what is inside a value. */
function indented(style: Style): Style {
  return style.line === '' ? style : { ...style, line: style.line + style.unit }
}
