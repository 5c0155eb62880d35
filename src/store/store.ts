import { randomUUID } from 'node:crypto'
import { existsSync, statSync, unlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import type { Position } from '../events/event.ts'
import { isOutOfSpace } from '../files/files.ts'
import { Corruption, isOutOfDescriptors, Refusal } from '../runtime/errors.ts'
import { DiskSpace, SpaceRetry } from './disk-space.ts'
import {
  POSITION_BYTES,
  positionOf,
  prefixEnd,
  putPosition,
  type Row,
  type RowsOptions,
  type ScratchBytes,
  TAG,
  versionKey,
} from './keys.ts'
import { type Lmdb, lastKey, openLmdb, type PinnedCommit, pinNewest, synced, usedBytes, withNodeCode } from './lmdb.ts'

/** Rows removed in one transaction. */
const REMOVED_AT_ONCE = 256

/**
 * Rows by key on disk, in the order of their keys. The value of a versioned row begins with the position of its event.
 * Readers read a row as it was at a pinned position; replaced versions are kept as long as a pin needs them. There is
 * one writer.
 */
export class Store {
  /** Undefined while the disk has no room for a new file: the store is empty, and each transaction tries to open it. */
  #db: Lmdb | undefined
  readonly #openFile: () => Lmdb
  #path: string
  #space: DiskSpace
  /** The last key; undefined if it must be looked up. */
  #lastKey: Buffer | undefined
  readonly #removal = new SpaceRetry()
  #syncing: Promise<void> | undefined
  /** Called once when damage is found: the store is not reliable any more. */
  damaged: (error: Error) => void = () => {}
  /** Called with the key of each row that is put or removed, even if the transaction is rolled back. */
  changed: ((key: Buffer) => void) | undefined
  /** Called when a transaction finds no space on the disk. */
  full: () => void = () => {}
  /** Called after each transaction with the number of rows that it put or removed. */
  committed: (rows: number) => void = () => {}
  /** Awaited after transactions that others follow: syncing may be too far behind them. */
  rest: () => Promise<void> | undefined = () => undefined
  #isClosed = false
  #placeChanges = 0

  /** Where temporary stores may be created. */
  readonly directory: string
  readonly versions = new Versions(this)

  private constructor(path: string, isTemporary: boolean, begin: () => void) {
    this.#path = path
    this.directory = dirname(path)
    this.#space = new DiskSpace(path)
    this.#openFile = () => {
      // The lock file is written through a memory map: on a full disk that would end the process with SIGBUS.
      if (!existsSync(`${path}-lock`)) this.#space.check()
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
   * Calls `begin` before opening the file. If the disk has no room for a new file, it is opened later; for an existing
   * file this fails with ENOSPC.
   */
  static open(path: string, begin: () => void = () => {}): Store {
    return new Store(path, false, begin)
  }

  /** A store that disappears with the process or when it is garbage-collected: its file is unlinked at once. */
  static temporary(directory?: string): Store {
    try {
      return Store.#temporaryIn(directory ?? tmpdir())
    } catch (error) {
      if (directory !== undefined || isOutOfSpace(error) || isOutOfDescriptors(error)) throw error
      const why = `The temporary directory ${tmpdir()} cannot be used (${(error as Error).message})`
      throw new Refusal('Unavailable', `${why}; the environment variable TMPDIR names another one.`)
    }
  }

  static #temporaryIn(directory: string): Store {
    statSync(directory) // Throws if it is missing; lmdb would create it.
    const path = join(directory, `recollect-${randomUUID()}.mdb`)
    const store = new Store(path, true, () => {})
    for (const file of [path, `${path}-lock`]) unlinkSync(file)
    return store
  }

  /** The value of a versioned row at a position; undefined if it did not exist. */
  read(key: Buffer, at: Position): ScratchBytes | undefined {
    const found = this.newest(key)
    if (found === undefined) return undefined
    if (found.length < POSITION_BYTES) throw this.damage(new Corruption('A row of the store is too short.'))
    return positionOf(found) <= at ? found : this.versions.find(key, at)
  }

  /** The newest value, or that of a row without versions. */
  newest(key: Buffer): ScratchBytes | undefined {
    try {
      // lmdb returns a larger buffer with its own `length`.
      const found = this.#db?.getBinaryFast(key)
      return found?.subarray(0, found.length)
    } catch (error) {
      throw this.damage(error as Error)
    }
  }

  /** Another number whenever a row with the tag of places, which blocks have, may have changed. */
  get placeChanges(): number {
    return this.#placeChanges
  }

  /** Reports damage, and returns the error to throw. */
  damage(error: Error): Refusal {
    if (this.#isClosed) return new Refusal('Unavailable', 'The store is closed.')
    this.damaged(error)
    this.damaged = () => {}
    return new Refusal(
      'Unavailable',
      'This part of the store is damaged. The server rebuilds the store from the journal.',
    )
  }

  /** The newest rows from `start` to before `end`, in order. Stops after `bytes` bytes of values. */
  rows(start: Buffer, end: Buffer, { bytes = Number.POSITIVE_INFINITY, ...options }: RowsOptions = {}): Row[] {
    const range = options.reverse ? { start: end, end: start } : { start, end }
    const rows: Row[] = []
    let bytesLeft = bytes
    try {
      for (const row of this.#db?.getRange({ ...range, ...options }) ?? []) {
        rows.push(row)
        bytesLeft -= row.value.length
        if (bytesLeft <= 0) break
      }
      return rows
    } catch (error) {
      throw this.damage(error as Error)
    }
  }

  /** Runs `work` as a transaction, which is rolled back when it throws. It blocks the event loop. */
  transaction<Result>(work: () => Result): Result {
    try {
      const db = this.#opened()
      const result = db.transactionSync(() => {
        this.#space.begin()
        const result = work()
        this.#space.check()
        return result
      })
      this.committed(this.#space.rows)
      return result
    } catch (error) {
      this.#lastKey = undefined
      this.#placeChanges++
      const known = withNodeCode(error)
      // LMDB reports a partial write on a full disk as EIO.
      if (known.code === 'EIO' && this.#space.isShort) known.code = 'ENOSPC'
      if (isOutOfSpace(known)) this.full()
      throw known
    }
  }

  /** Whether so many rows of so many bytes fit on the disk. */
  hasRoom(rows: number, bytes: number): boolean {
    return this.#space.hasRoom(rows, bytes)
  }

  /** Puts a versioned row, whose value begins with its position. In a transaction. */
  write(key: Buffer, value: Buffer): void {
    this.versions.keep(key, positionOf(value))
    this.set(key, value)
  }

  /** Removes a versioned row at the position of an event. In a transaction. */
  removeAt(key: Buffer, position: Position): void {
    this.versions.keep(key, position)
    this.remove(key)
  }

  /** Puts a row without versions. In a transaction. */
  set(key: Buffer, value: Buffer): void {
    if (key[0] === TAG.place) this.#placeChanges++
    this.#space.add(key.length + value.length)
    if (this.#isBehindAll(key)) this.#append(key, value)
    else this.#db?.put(key, value)
    this.changed?.(key)
  }

  #isBehindAll(key: Buffer): boolean {
    if (!this.#db || key[0] !== TAG.item) return false
    this.#lastKey ??= lastKey(this.#db)
    return key.compare(this.#lastKey) > 0
  }

  /** Puts a row after all others. In a transaction. */
  append({ key, value }: Row): void {
    if (key[0] === TAG.place) this.#placeChanges++
    this.#space.add(key.length + value.length)
    this.#append(key, value)
  }

  /** Without the option `append`, LMDB would split full pages in half. */
  #append(key: Buffer, value: Buffer): void {
    this.#db?.putSync(key, value, { append: true })
    this.#lastKey = Buffer.from(key)
  }

  /** In a transaction. */
  remove(key: Buffer): void {
    if (key[0] === TAG.place) this.#placeChanges++
    this.#space.add(key.length)
    if (key[0] === TAG.item) this.#lastKey = undefined
    this.#db?.remove(key)
    this.changed?.(key)
  }

  /** Keeps rows readable as of a position until the pin is released. */
  pin(position: Position): Pin {
    return this.versions.pin(position)
  }

  /** Removes all rows with this prefix, a few at a time. */
  async clear(prefix: Buffer): Promise<void> {
    while (!this.#removal.isEnded) {
      const rows = this.rows(prefix, prefixEnd(prefix), { limit: REMOVED_AT_ONCE })
      if (rows.length === 0) return
      await this.removeAll(rows)
      await (this.rest() ?? setImmediate())
    }
  }

  /** Removes rows in a transaction, which is repeated while the disk is full: removing a row copies its page first. */
  async removeAll(rows: readonly Pick<Row, 'key'>[]): Promise<void> {
    if (rows.length === 0 || this.#removal.isEnded) return
    await this.#removal.run(() =>
      this.transaction(() => {
        for (const { key } of rows) this.remove(key)
      }),
    )
  }

  /** Resolves when all commits are on the disk. */
  sync(): Promise<void> {
    this.#syncing = this.#db ? synced(this.#db) : Promise.resolve()
    return this.#syncing
  }

  /** The file, which has no name any more if the store is temporary. */
  get path(): string {
    return this.#path
  }

  /** Keeps the pages of the newest commit until it is released; undefined while there is no file. */
  pinNewest(): PinnedCommit | undefined {
    return this.#db && pinNewest(this.#db, this.#path)
  }

  /** Size of the rows on disk, without free pages. */
  get usedBytes(): number {
    return this.#db ? usedBytes(this.#db) : 0
  }

  /** Takes over the file of a copy with the same rows. Awaits `beforeClose`, then closes the previous file. */
  async become(copy: Store, beforeClose: () => Promise<void>): Promise<void> {
    const previous = this.#db
    this.#db = copy.#opened()
    this.#path = copy.#path
    this.#space = copy.#space
    copy.#db = undefined
    copy.#isClosed = true
    forgottenStores.unregister(copy)
    forgottenStores.unregister(this)
    forgottenStores.register(this, this.#db, this)
    await this.#syncing?.catch(() => {})
    await beforeClose()
    await previous?.close()
  }

  /** Stops background removal: commits after the last sync could be lost in parts. */
  async end(): Promise<void> {
    this.#removal.end()
    await this.versions.end()
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
      this.#db = this.#openFile()
      forgottenStores.register(this, this.#db, this)
    }
    return this.#db
  }
}

/** Closes the file of a store that was garbage-collected without close(). */
const forgottenStores = new FinalizationRegistry<Lmdb>((db) => void db.close())

/** Old versions checked in one step. */
const SWEPT_AT_ONCE = 256

/** A position at which somebody reads; versions for it are kept until it is released. */
export interface Pin {
  readonly position: Position
  release(): void
}

/** The pinned positions, and the earlier versions of rows that are read there. */
class Versions {
  readonly #store: Store
  readonly #pins = new Map<Position, number>()
  /** The highest pinned position; -1 without pins. */
  #keptUpTo: Position = -1
  /** A previous process may have left some. */
  #mayExist = true
  #sweeping: Promise<void> | undefined
  #isToBeSwept = false
  #areNone = false
  #isEnding = false

  constructor(store: Store) {
    this.#store = store
  }

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
      if (left === 0 && this.#mayExist) this.sweepSoon()
    }
    return { position, release }
  }

  /** The pinned positions. */
  get pinned(): Iterable<Position> {
    return this.#pins.keys()
  }

  /** Whether no version is kept. */
  get areNone(): boolean {
    return this.#areNone
  }

  /** The value that a row had at a position, if it was replaced or removed since. */
  find(key: Buffer, at: Position): Buffer | undefined {
    if (this.#areNone) return undefined
    const [row] = this.#store.rows(versionKey(key, 0), versionKey(key, at), { reverse: true, limit: 1 })
    return row && positionOf(row.value) > at ? row.value.subarray(POSITION_BYTES) : undefined
  }

  /**
   * Stores the current version of a row that is about to be replaced or removed, if a pin needs it. `current` returns it
   * if it has no row of its own. In a transaction.
   */
  keep(key: Buffer, replacedAt: Position, current = () => this.#store.newest(key)): void {
    if (this.#keptUpTo < 0) return
    const before = current()
    if (!before) return
    const since = positionOf(before)
    if (since > this.#keptUpTo) return
    const version = Buffer.allocUnsafe(POSITION_BYTES + before.length)
    putPosition(version, 0, replacedAt)
    before.copy(version, POSITION_BYTES)
    this.#store.set(versionKey(key, since), version)
    this.#mayExist = true
    this.#areNone = false
  }

  /** Removes the versions that no pin needs, a few at a time. */
  sweepSoon(): void {
    this.#isToBeSwept = true
    this.#sweeping ??= this.#sweepAll().finally(() => {
      this.#sweeping = undefined
    })
  }

  async end(): Promise<void> {
    this.#isEnding = true
    await this.#sweeping
  }

  /** Repeats if pins were released meanwhile. */
  async #sweepAll(): Promise<void> {
    while (this.#isToBeSwept && !this.#isEnding) {
      this.#isToBeSwept = false
      this.#mayExist = false
      await this.#sweep()
    }
    if (!this.#isEnding && !this.#mayExist) this.#areNone = true
  }

  async #sweep(): Promise<void> {
    let from = Buffer.from([TAG.version])
    const end = prefixEnd(from)
    for (;;) {
      await setImmediate()
      if (this.#isEnding) return
      const rows = this.#store.rows(from, end, { limit: SWEPT_AT_ONCE })
      const unneeded = rows.filter(
        ({ key, value }) => !this.#isNeeded(positionOf(key, key.length - POSITION_BYTES), positionOf(value)),
      )
      if (unneeded.length < rows.length) this.#mayExist = true
      await this.#store.removeAll(unneeded)
      await this.#store.rest()
      const last = rows.at(-1)
      if (!last || rows.length < SWEPT_AT_ONCE) break
      from = Buffer.concat([last.key, Buffer.alloc(1)])
    }
  }

  #isNeeded(since: Position, replacedAt: Position): boolean {
    for (const position of this.#pins.keys()) if (position >= since && position < replacedAt) return true
    return false
  }
}
