/** Parses the items of a batch: a JSON list, NDJSON or CSV. */
import type { BatchItem } from '../../commands/command.ts'
import { refusalAt, rejectionOf } from '../../commands/create-items.ts'
import { parseJsonText } from '../../json/parse.ts'
import type { JsonValue } from '../../json/value.ts'
import { Refusal } from '../../runtime/errors.ts'
import type { Steps } from '../../runtime/time-slices.ts'
import { parseItem } from '../bodies.ts'
import { csvItems } from './csv-items.ts'

export interface BatchLimits {
  /** Highest number of items. */
  readonly items: number
  /** Highest size of their JSON. */
  readonly bytes: number
  /** Invalid items are rejected individually instead of rejecting the batch. */
  readonly isLenient: boolean
}

/** Items processed in one step. */
const STEP = 256

export function* itemsOfList(list: readonly JsonValue[], limits: BatchLimits): Steps<readonly BatchItem[]> {
  const items = new Items(limits)
  items.check(list.length)
  for (const [index, value] of list.entries()) {
    if (index % STEP === STEP - 1) yield
    items.add(undefined, value)
  }
  return items.all
}

/** One JSON text per line; empty lines are skipped. */
export function* itemsOfLines(text: string, limits: BatchLimits): Steps<readonly BatchItem[]> {
  const items = new Items(limits)
  let line = 0
  for (let from = 0; from < text.length; ) {
    const end = text.indexOf('\n', from)
    const json = text.slice(from, end < 0 ? text.length : end)
    from = end < 0 ? text.length : end + 1
    line++
    if (line % STEP === 0) yield
    if (json.trim() === '') continue
    let value: JsonValue
    try {
      value = yield* parseJsonText(json, 'It')
    } catch (error) {
      items.reject(line, error)
      continue
    }
    items.add(line, value)
  }
  return items.all
}

/** Rows of cells, after a header row if there is one. */
export function* itemsOfCsv(
  papa: typeof import('papaparse'),
  text: string,
  hasHeader: boolean,
  limits: BatchLimits,
): Steps<readonly BatchItem[]> {
  const items = new Items(limits)
  let rows = 0
  for (const row of csvItems(papa, text, { hasHeader, mostCharacters: limits.bytes })) {
    if (!row) {
      yield
      continue
    }
    if (++rows % STEP === 0) yield
    let item: JsonValue
    try {
      item = row.item()
    } catch (error) {
      items.reject(row.line, error)
      continue
    }
    items.add(row.line, item)
  }
  return items.all
}

class Items {
  readonly all: BatchItem[] = []
  readonly #limits: BatchLimits

  constructor(limits: BatchLimits) {
    this.#limits = limits
  }

  check(count: number): void {
    const { items } = this.#limits
    if (count > items) throw new Refusal('TooLarge', `A batch has at most ${items} items (Limits.BatchItems).`)
  }

  add(line: number | undefined, value: JsonValue): void {
    this.check(this.all.length + 1)
    const at = line === undefined ? {} : { line }
    try {
      this.all.push({ ...at, item: parseItem({ json: value }) })
    } catch (error) {
      this.#reject(at, error)
    }
  }

  /** Records a line that cannot be parsed. */
  reject(line: number, error: unknown): void {
    this.check(this.all.length + 1)
    this.#reject({ line }, error)
  }

  #reject(at: { readonly line?: number }, error: unknown): void {
    if (!(error instanceof Refusal)) throw error
    const rejection = rejectionOf(error)
    if (!this.#limits.isLenient) throw refusalAt(this.all.length, { ...at, rejection }, rejection)
    this.all.push({ ...at, rejection })
  }
}
