import {
  checkItemValues,
  type FileItem,
  FileMistakes,
  faultOfCollection,
  idIn,
  invalid,
  kindOf,
  noCollection,
  noItem,
  noObject,
  parseObject,
  sameIdTwice,
  sameNameTwice,
} from '../collections/file-items.ts'
import { keyOf } from '../collections/item.ts'
import type { EditedItem } from '../commands/edit.ts'
import { type ItemId, OBJECT_ID } from '../events/event.ts'
import * as CODE from '../json/char-codes.ts'
import { Malformed } from '../json/parse.ts'
import { pointer, type Tokens } from '../json/paths.ts'
import type { Turn } from '../runtime/turns.ts'
import type { ReadBytes } from './file-content.ts'
import { END, JsonScanner } from './json-scanner.ts'

/** A member of the root by which editors find a JSON Schema. A text of this name is no collection. */
export const SCHEMA = '$schema'

/** Gets the collections of a data file, one after the other. */
export interface FileVisitor {
  collection(name: string, isObject: boolean): ItemVisitor
}

/** Gets the items of a collection, in order. */
export interface ItemVisitor {
  /** The next item, if its text in the file says enough: it is not parsed then. */
  known(text: string): FileItem | undefined
  /** Adds the next item, with its text in the format of `JSON.stringify`. Returns the index of an earlier one with its id. */
  add(id: ItemId | undefined, text: string, known: FileItem | undefined): number | undefined
}

export interface FileParserOptions {
  readonly idField: string
  readonly visitor: FileVisitor
  /** Highest number of values of an item. */
  readonly mostValues?: number
  /** Highest number of collections. */
  readonly mostCollections?: number
  /** Validates an item that was parsed. Throws a Refusal with its place. */
  readonly check?: ((collection: string, item: EditedItem) => void) | undefined
}

/**
 * Parses a data file: a JSON object of arrays of objects and of single objects. Throws `Invalid` for an invalid file,
 * `Malformed` if it is not JSON.
 */
export class FileParser {
  readonly #options: FileParserOptions
  readonly #read: ReadBytes
  readonly #turn: Turn
  readonly #scan = new JsonScanner()
  readonly #mistakes = new FileMistakes()
  #tokens: Tokens = []

  constructor(read: ReadBytes, options: FileParserOptions, turn: Turn) {
    this.#read = read
    this.#options = options
    this.#turn = turn
  }

  /** The value that is parsed, as a JSON Pointer. */
  get pointer(): string {
    return pointer(this.#tokens)
  }

  async parse(): Promise<void> {
    const scan = this.#scan
    await this.#complete(() => scan.begin())
    const first = await this.#complete(() => scan.peek())
    if (first !== CODE.OPEN_BRACE) throw noObject(kindOf(first))
    const names = new Set<string>()
    const { mostCollections = Number.POSITIVE_INFINITY } = this.#options
    for (let isFirst = true; await this.#complete(() => scan.member(isFirst)); isFirst = false) {
      if (this.#turn.isOver) await this.#turn.next()
      const name = await this.#complete(() => scan.name())
      // Editors find the JSON Schema of the file by it.
      if (name === SCHEMA && scan.peek() === CODE.QUOTE) {
        await this.#complete(() => scan.skip())
        continue
      }
      const badName = faultOfCollection(name)
      if (badName) this.#mistakes.add(badName)
      if (names.has(name)) this.#mistakes.add(sameNameTwice(name))
      names.add(name)
      if (names.size > mostCollections) throw invalid('', `at most ${mostCollections} collections can be sent at once`)
      this.#tokens = [name]
      const kind = scan.peek()
      if (kind === CODE.OPEN_BRACE) await this.#object(name)
      else if (kind === CODE.OPEN_BRACKET) await this.#items(name)
      else {
        await this.#complete(() => scan.skip())
        this.#mistakes.add(noCollection(name, kindOf(kind)))
      }
      this.#tokens = []
    }
    if ((await this.#complete(() => scan.peek())) !== END) throw new Malformed()
    this.#mistakes.throwAny()
  }

  async #object(name: string): Promise<void> {
    const source = await this.#complete(() => this.#scan.object())
    this.#add(name, 0, source, this.#options.visitor.collection(name, true), () => OBJECT_ID)
  }

  async #items(name: string): Promise<void> {
    const { idField, visitor } = this.#options
    const scan = this.#scan
    const turn = this.#turn
    const items = visitor.collection(name, false)
    let isMixed = false
    for (let index = 0; ; index++) {
      if (turn.isOver) await turn.next()
      const isFirst = index === 0
      this.#tokens = [name, index]
      // Without a promise for each item.
      if (!(scan.element(isFirst) ?? (await this.#complete(() => scan.element(isFirst))))) return
      if (scan.peek() === CODE.OPEN_BRACE) {
        const source = scan.object() ?? (await this.#complete(() => scan.object()))
        this.#add(name, index, source, items, (value) => idIn(value, [name, index], idField))
        continue
      }
      // One mistake for a list of numbers is enough.
      if (!isMixed) this.#mistakes.add(noItem(name, index, kindOf(scan.peek())))
      isMixed = true
      await this.#complete(() => scan.skip())
    }
  }

  #add(
    name: string,
    index: number,
    source: string,
    items: ItemVisitor,
    idOf: (value: ReturnType<typeof parseObject>) => ItemId | undefined,
  ): void {
    const known = items.known(source)
    const item = known ?? this.#mistakes.catching(() => this.#parsed(source, idOf))
    // An item with a mistake is added as well, so that the indexes stay those of the file.
    const { id, text } = item ?? { id: undefined, text: '{}' }
    const first = items.add(id, text, known)
    const { check, idField } = this.#options
    if (id !== undefined && first !== undefined) this.#mistakes.add(sameIdTwice(name, first, index, keyOf(id), idField))
    else if (check && item) this.#mistakes.catching(() => check(name, { index, id, text }))
  }

  #parsed(source: string, idOf: (value: ReturnType<typeof parseObject>) => ItemId | undefined): FileItem {
    const { mostValues = Number.POSITIVE_INFINITY } = this.#options
    checkItemValues(source, mostValues, this.#tokens)
    const value = parseObject(source, this.#tokens)
    return { id: idOf(value), text: JSON.stringify(value) }
  }

  /** The result of a scan, which is repeated with further bytes of the file until it has one. */
  async #complete<Result>(scan: () => Result | undefined): Promise<Result> {
    for (;;) {
      const result = scan()
      if (result !== undefined) return result
      const buffer = this.#scan.allocate()
      if (!buffer) throw invalid(this.pointer, 'a value may have at most 64 MiB: divide it, or shorten it')
      this.#scan.commit(await this.#read(buffer))
    }
  }
}
