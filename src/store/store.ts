import { randomUUID } from 'node:crypto'
import { existsSync, statSync, unlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { Corruption, Refusal } from '../errors.ts'
import type { Position } from '../events/event.ts'
import { isOutOfSpace } from '../files/files.ts'
import { POSITION_BYTES, positionOf, putPosition } from './bytes.ts'
import { prefixEnd, TAG, versionKey } from './keys.ts'
import { append, type Lmdb, lastKey, named, openLmdb, usedBytes } from './lmdb.ts'
import { lengthen } from './meta.ts'
import { Room } from './room.ts'

/** A value of fewer bytes has no pages of its own. */
const LARGE_BYTES = 1700

/** Old versions that are looked at, or rows that are removed, in one transaction. */
const SWEPT_AT_ONCE = 256
/** While the disk is full, they are tried again after so many milliseconds. */
const FULL_MS = 500

/** A position that somebody reads at; the versions of then are kept until it is released. */
export interface Pin {
  readonly position: Position
  release(): void
}

export interface Row {
  readonly key: Buffer
  readonly value: Buffer
}

interface RowsOptions {
  readonly limit?: number
  readonly bytes?: number
  readonly reverse?: boolean
}

/**
 * Rows by key, in the order of their keys, on disk. The value of a versioned row begins with the position of the event
 * that it came from, and readers ask for the row as it was at a position: what is replaced is kept as long as somebody
 * reads at a position before. There is one writer.
 */
export class Store {
  /** Undefined while the disk has no room for a new file: then it has no rows, and each transaction tries to open it. */
  #db: Lmdb | undefined
  readonly #open: () => Lmdb
  readonly #room: Room
  /** Undefined when the file has no name. */
  readonly #path: string | undefined
  /** Of the transaction: what is removed or replaced may free pages that it took itself. */
  #hasRemoved = false
  #largeValues = 0
  /** The key behind all others; undefined if it must be looked up. */
  #last: Buffer | undefined
  readonly #pins = new Map<Position, number>()
  /** Up to this position what is replaced may still be asked for; -1 for nothing. */
  #keptUpTo: Position = -1
  /** A process that ended before may have left some. */
  #mayHaveVersions = true
  #sweeping: Promise<void> | undefined
  #syncing: Promise<void> | undefined
  #isToBeSwept = false
  /** Told once of damage that was found: what is in the store cannot be relied upon any more. */
  damaged: (error: Error) => void = () => {}
  /** Told of the key of each row that is put or removed, also where the transaction is given up. */
  #changed: ((key: Buffer) => void) | undefined
  /** Told each time that a transaction finds no room on the disk. */
  full: () => void = () => {}
  #isEnding = false
  #isClosed = false

  /** Where temporary stores may stand beside it. */
  readonly directory: string

  private constructor(path: string, isTemporary: boolean, begin: () => void) {
    this.directory = dirname(path)
    this.#path = isTemporary ? undefined : path
    this.#room = new Room(path)
    this.#open = () => {
      // The lock file is written through a memory map: a full disk would end the process with SIGBUS.
      if (!existsSync(`${path}-lock`)) this.#room.check()
      begin()
      return openLmdb(path)
    }
    const isNew = !isTemporary && !existsSync(path)
    try {
      this.#opened()
    } catch (error) {
      if (!isNew || !isOutOfSpace(error)) throw error
    }
  }

  /**
   * `begin` is called before the file is opened. A new file that the disk has no room for is opened when it has; for an
   * existing one this fails with ENOSPC.
   */
  static open(path: string, begin: () => void = () => {}): Store {
    return new Store(path, false, begin)
  }

  /** One that ends with the process, or when nobody knows it any more: its file has no name. */
  static temporary(directory = tmpdir()): Store {
    // lmdb would make a directory that was removed.
    statSync(directory)
    const path = join(directory, `recollect-${randomUUID()}.mdb`)
    const store = new Store(path, true, () => {})
    for (const file of [path, `${path}-lock`]) unlinkSync(file)
    return store
  }

  /** A row's value as it was at a position; undefined where there was none. The bytes are there until the next call only. */
  read(key: Buffer, at: Position): Buffer | undefined {
    const found = this.newest(key)
    if (found === undefined) return undefined
    if (found.length < POSITION_BYTES) throw this.damage(new Corruption('A row of the store is too short.'))
    return positionOf(found) <= at ? found : this.#versionOf(key, at)
  }

  /** The newest value, or the one of a row without versions; as `read` gives it. */
  newest(key: Buffer): Buffer | undefined {
    try {
      // Its `length` is not that of its memory.
      const found = this.#db?.getBinaryFast(key)
      return found?.subarray(0, found.length)
    } catch (error) {
      throw this.damage(error as Error)
    }
  }

  /** Tells of damage, and gives what whoever found it is to throw. */
  damage(error: Error): Refusal {
    if (this.#isClosed) return new Refusal('Unavailable', 'The store is closed.')
    this.damaged(error)
    this.damaged = () => {}
    return new Refusal('Unavailable', 'The store is damaged. The server ends, and builds it again when it is started.')
  }

  /** The newest rows from a key on and before another, in order: no more when their values have so many bytes. */
  rows(start: Buffer, end: Buffer, { bytes = Number.POSITIVE_INFINITY, ...options }: RowsOptions = {}): Row[] {
    const range = options.reverse ? { start: end, end: start } : { start, end }
    const rows: Row[] = []
    let left = bytes
    try {
      for (const row of this.#db?.getRange({ ...range, ...options }) ?? []) {
        rows.push(row)
        left -= row.value.length
        if (left <= 0) break
      }
      return rows
    } catch (error) {
      throw this.damage(error as Error)
    }
  }

  /** All or nothing of what is written meanwhile; it must not last long, as everybody waits. */
  transaction<Result>(work: () => Result): Result {
    try {
      this.#hasRemoved = false
      this.#largeValues = 0
      const result = this.#opened().transactionSync(() => {
        this.#room.begin()
        const result = work()
        this.#room.check()
        return result
      })
      if (this.#path && (this.#hasRemoved || this.#largeValues > 1)) lengthen(this.#path)
      return result
    } catch (error) {
      this.#last = undefined
      const known = named(error)
      // Of what does not fit as a whole a part is taken, and that is told as EIO.
      if (known.code === 'EIO' && this.#room.isLittle) known.code = 'ENOSPC'
      if (isOutOfSpace(known)) this.full()
      throw known
    }
  }

  /** Whether there is room on the disk for so many rows that have so many bytes together. */
  hasRoom(rows: number, bytes: number): boolean {
    return this.#room.has(rows, bytes)
  }

  /** Puts a versioned row, whose value begins with its position. In a transaction. */
  write(key: Buffer, value: Buffer): void {
    if (this.#keptUpTo >= 0) this.#keep(key, positionOf(value))
    this.set(key, value)
  }

  /** Puts a row that has no versions. In a transaction. */
  set(key: Buffer, value: Buffer): void {
    this.#room.takes(key.length + value.length)
    if (value.length >= LARGE_BYTES) this.#largeValues++
    if (this.#isBehindAll(key)) this.#append(key, value)
    else this.#db?.put(key, value)
    this.#changed?.(key)
  }

  #isBehindAll(key: Buffer): boolean {
    if (!this.#db || key[0] !== TAG.item) return false
    this.#last ??= lastKey(this.#db)
    return key.compare(this.#last) > 0
  }

  /** Puts a row whose key is behind all others. In a transaction. */
  append({ key, value }: Row): void {
    this.#room.takes(key.length + value.length)
    this.#append(key, value)
  }

  #append(key: Buffer, value: Buffer): void {
    if (this.#db) append(this.#db, key, value)
    this.#last = Buffer.from(key)
  }

  /** In a transaction. */
  remove(key: Buffer): void {
    this.#room.takes(key.length)
    this.#hasRemoved = true
    if (key[0] === TAG.item) this.#last = undefined
    this.#db?.remove(key)
    this.#changed?.(key)
  }

  /** From now on, until it is released, rows can be read as they were at this position. */
  pin(position: Position): Pin {
    this.#pins.set(position, (this.#pins.get(position) ?? 0) + 1)
    this.#keptUpTo = Math.max(this.#keptUpTo, position)
    let isReleased = false
    const release = (): void => {
      if (isReleased) return
      isReleased = true
      const left = (this.#pins.get(position) ?? 1) - 1
      if (left > 0) this.#pins.set(position, left)
      else this.#pins.delete(position)
      this.#keptUpTo = Math.max(-1, ...this.#pins.keys())
      if (left === 0 && this.#mayHaveVersions) this.sweepSoon()
    }
    return { position, release }
  }

  /** The positions that somebody reads at. */
  get pinned(): Iterable<Position> {
    return this.#pins.keys()
  }

  /** Removes, a few at a time, the rows whose keys begin so. */
  async clear(prefix: Buffer): Promise<void> {
    while (!this.#isEnding) {
      const rows = this.rows(prefix, prefixEnd(prefix), { limit: SWEPT_AT_ONCE })
      if (rows.length === 0) return
      await this.#removeAll(rows)
      await turn()
    }
  }

  /** Removes the versions that nobody can ask for any more, a few at a time. */
  sweepSoon(): void {
    this.#isToBeSwept = true
    this.#sweeping ??= this.#sweepAll().finally(() => {
      this.#sweeping = undefined
    })
  }

  /** Resolves when all that was committed is on the disk. */
  sync(): Promise<void> {
    const { env } = (this.#db ?? {}) as { env?: { sync(done: (error?: Error) => void): void } }
    this.#syncing = new Promise<void>((resolve, reject) => {
      if (env) env.sync((error) => (error ? reject(error) : resolve()))
      else resolve()
    })
    return this.#syncing
  }

  /** Writes all rows, and nothing else, to another file. */
  async copyTo(path: string): Promise<void> {
    await this.#opened().backup(path, true)
  }

  /** What the rows take on the disk, without the room that removed ones left. */
  get usedBytes(): number {
    return this.#db ? usedBytes(this.#db) : 0
  }

  watch(changed: ((key: Buffer) => void) | undefined): void {
    this.#changed = changed
  }

  /** Goes on with the file of a copy that has the same rows. Resolves when its own is closed; `left` is waited for before. */
  async become(copy: Store, left: () => Promise<void>): Promise<void> {
    const own = this.#db
    this.#db = copy.#opened()
    copy.#db = undefined
    copy.#isClosed = true
    forgottenStores.unregister(copy)
    forgottenStores.unregister(this)
    forgottenStores.register(this, this.#db, this)
    await this.#syncing?.catch(() => {})
    await left()
    await own?.close()
  }

  /** Nothing is removed behind the answers any more: what that committed after a last sync could be lost in parts. */
  async end(): Promise<void> {
    this.#isEnding = true
    await this.#sweeping
  }

  async close(): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    await this.end()
    forgottenStores.unregister(this)
    await this.#db?.close()
  }

  #opened(): Lmdb {
    if (!this.#db) {
      if (this.#isClosed) throw new Refusal('Unavailable', 'The store is closed.')
      this.#db = this.#open()
      forgottenStores.register(this, this.#db, this)
    }
    return this.#db
  }

  #versionOf(key: Buffer, at: Position): Buffer | undefined {
    const [row] = this.rows(versionKey(key, 0), versionKey(key, at), { reverse: true, limit: 1 })
    return row?.value.subarray(POSITION_BYTES)
  }

  /** Keeps the row as it is, if somebody reads at a position at which it is so. */
  #keep(key: Buffer, replacedAt: Position): void {
    const before = this.newest(key)
    if (!before) return
    const since = positionOf(before)
    if (since > this.#keptUpTo) return
    const version = Buffer.allocUnsafe(POSITION_BYTES + before.length)
    putPosition(version, 0, replacedAt)
    before.copy(version, POSITION_BYTES)
    this.set(versionKey(key, since), version)
    this.#mayHaveVersions = true
  }

  /** What nobody asks for any more since it has begun is removed, too. */
  async #sweepAll(): Promise<void> {
    while (this.#isToBeSwept && !this.#isEnding) {
      this.#isToBeSwept = false
      this.#mayHaveVersions = false
      await this.#sweep()
    }
  }

  async #sweep(): Promise<void> {
    let from = Buffer.from([TAG.version])
    const end = prefixEnd(from)
    for (;;) {
      await turn()
      if (this.#isEnding) return
      const rows = this.rows(from, end, { limit: SWEPT_AT_ONCE })
      const unneeded = rows.filter(
        ({ key, value }) => !this.#isNeeded(positionOf(key, key.length - POSITION_BYTES), positionOf(value)),
      )
      if (unneeded.length < rows.length) this.#mayHaveVersions = true
      await this.#removeAll(unneeded)
      const last = rows.at(-1)
      if (!last || rows.length < SWEPT_AT_ONCE) break
      from = Buffer.concat([last.key, Buffer.alloc(1)])
    }
  }

  #isNeeded(since: Position, replacedAt: Position): boolean {
    for (const position of this.#pins.keys()) if (position >= since && position < replacedAt) return true
    return false
  }

  /** Waits while the disk is full: a page is copied before a row is removed from it. */
  async #removeAll(rows: readonly Row[]): Promise<void> {
    while (rows.length > 0 && !this.#isEnding) {
      try {
        this.transaction(() => {
          for (const { key } of rows) this.remove(key)
        })
        return
      } catch (error) {
        if (!isOutOfSpace(error)) throw error
        await new Promise<void>((resolve) => setTimeout(resolve, FULL_MS).unref())
      }
    }
  }
}

/** Closes the file of a store that was garbage-collected without close(). */
const forgottenStores = new FinalizationRegistry<Lmdb>((db) => void db.close())

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
