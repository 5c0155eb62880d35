/** Parses the items of a batch: a JSON list, NDJSON or CSV. */
import type { BatchItem } from '../../commands/command.ts'
import { bytesOfRejection, refusalAt, rejectionOf } from '../../commands/create-items.ts'
import { bytesOfValue } from '../../json/bytes-of-value.ts'
import { checkValues, elementsOf, Malformed, parseChecked, parseJsonText } from '../../json/parse.ts'
import type { JsonValue } from '../../json/value.ts'
import { Syntax } from '../../json/where-malformed.ts'
import { Refusal } from '../../runtime/errors.ts'
import type { Turn } from '../../runtime/turns.ts'
import { parseItem } from '../bodies.ts'
import { csvItems } from './csv-items.ts'

interface BatchLimits {
  /** Highest number of items. */
  readonly items: number
  /** Highest size of their JSON. */
  readonly bytes: number
  /** Highest size of one item. */
  readonly itemBytes: number
  /** Highest weighted number of values of one item. */
  readonly itemValues: number
  /** Invalid items are rejected individually instead of rejecting the batch. */
  readonly isLenient: boolean
}

/** The elements of a JSON list. */
export async function itemsOfList(text: string, limits: BatchLimits, turn: Turn): Promise<readonly BatchItem[]> {
  const items = new Items(limits, turn)
  const elements: string[] = []
  try {
    for (const element of elementsOf(text)) {
      if (turn.isOver) await turn.next()
      if (element === undefined) continue
      elements.push(element)
      items.check(elements.length)
    }
    for (const element of elements) {
      if (turn.isOver) await turn.next()
      items.add(undefined, () => {
        checkLength(element, limits)
        checkValues(element, limits.itemValues, 'It')
        return parseChecked(element)
      })
    }
  } catch (error) {
    throw error instanceof Malformed ? await malformed(text, turn) : error
  }
  return items.all
}

const CHUNK_CHARACTERS = 64 * 1024

/** The refusal of a list that is not well-formed, with the place. */
async function malformed(text: string, turn: Turn): Promise<Refusal> {
  const syntax = new Syntax()
  let where: string | undefined
  for (let from = 0; from < text.length && where === undefined; from += CHUNK_CHARACTERS) {
    if (turn.isOver) await turn.next()
    where = syntax.errorIn(text.slice(from, from + CHUNK_CHARACTERS))
  }
  return new Refusal('Invalid', `The body is not well-formed JSON: ${where ?? syntax.errorAtEnd()}.`)
}

/** One JSON text per line; empty lines are skipped. */
export async function itemsOfLines(text: string, limits: BatchLimits, turn: Turn): Promise<readonly BatchItem[]> {
  const items = new Items(limits, turn)
  let line = 0
  for (let from = 0; from < text.length; ) {
    if (turn.isOver) await turn.next()
    const end = text.indexOf('\n', from)
    const json = text.slice(from, end < 0 ? text.length : end)
    from = end < 0 ? text.length : end + 1
    line++
    if (json.trim() === '') {
      items.skip()
      continue
    }
    items.add(line, () => {
      checkLength(json, limits)
      return parseJsonText(json, 'It', limits.itemValues)
    })
  }
  return items.all
}

/** Rows of cells, after a header row if there is one. The number of their values is checked with the items. */
export async function itemsOfCsv(
  papa: typeof import('papaparse'),
  text: string,
  hasHeader: boolean,
  limits: BatchLimits,
  turn: Turn,
): Promise<readonly BatchItem[]> {
  const items = new Items(limits, turn)
  for (const row of csvItems(papa, text, { hasHeader, mostCharacters: limits.bytes })) {
    if (turn.isOver) await turn.next()
    if (row === 'empty') items.skip()
    else if (row) items.add(row.line, row.item)
  }
  return items.all
}

/** Approximate memory of an item of a batch besides its value. */
const ITEM_BYTES = 100

/** The id of an item does not count towards its size. */
const ID_CHARACTERS = 4096

/** Rejects JSON that is too long for an item before it is parsed. */
function checkLength(json: string, { itemBytes }: BatchLimits): void {
  if (json.length <= itemBytes + ID_CHARACTERS) return
  throw new Refusal('Unprocessable', `It has ${json.length} characters; an item may have ${itemBytes} bytes.`)
}

class Items {
  readonly all: BatchItem[] = []
  readonly #limits: BatchLimits
  readonly #turn: Turn
  #empty = 0

  constructor(limits: BatchLimits, turn: Turn) {
    this.#limits = limits
    this.#turn = turn
  }

  check(count: number): void {
    const { items } = this.#limits
    if (count > items) throw new Refusal('TooLarge', `A batch has at most ${items} items (Limits.BatchItems).`)
  }

  /** Counts an empty line. */
  skip(): void {
    const { items } = this.#limits
    if (++this.#empty > items)
      throw new Refusal('TooLarge', `A batch has at most ${items} empty lines (Limits.BatchItems).`)
  }

  /** Adds an item, or its rejection if `parse` throws a Refusal. */
  add(line: number | undefined, parse: () => JsonValue): void {
    this.check(this.all.length + 1)
    const parsed = { ...(line !== undefined && { line }), ...this.#parsed(parse) }
    if ('rejection' in parsed && !this.#limits.isLenient) throw refusalAt(this.all.length, parsed, parsed.rejection)
    const bytes = 'item' in parsed ? bytesOfValue(parsed.item) : bytesOfRejection(parsed.rejection)
    this.#turn.hold(ITEM_BYTES + bytes)
    this.all.push(parsed)
  }

  #parsed(parse: () => JsonValue): BatchItem {
    try {
      return { item: parseItem({ json: parse() }) }
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return { rejection: rejectionOf(error) }
    }
  }
}
