/*
 * The directory of a journal's store holds the database and the state file. The state tells the next start whether it can
 * use the database. It is written durably before the database is opened, and after it is closed.
 *
 * | State of the store | In the state file | The next start after a crash |
 * |---|---|---|
 * | opened | `isOpen`, `ended` | uses it, unless the system was rebooted, or MOST_ENDED processes in a row ended so early |
 * | settled: in use for a while | `isOpen` | uses it, unless the system was rebooted |
 * | doubtful: damaged, or not synced | `doubt` | sets it aside |
 * | closed | `writtenMs`, `meta` | uses it, unless the file differs from these |
 *
 * In each state the file also has `format`, `boot` and `bytes`. A store of another format, with fewer bytes or with damaged
 * first pages is always set aside.
 *
 * A store that is set aside is renamed, and a new one is built from the journal. The next start goes on with a store that
 * is not complete yet. When the new one is complete and synced, or when the disk is full, the one set aside is removed.
 */

import {
  chmodSync,
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { open, rm, truncate } from 'node:fs/promises'
import { dirname } from 'node:path'
import { isOutOfSpace } from '../files/files.ts'
import { isOutOfDescriptors, Refusal } from '../runtime/errors.ts'
import { copyStore } from './compaction.ts'
import { metaOf } from './lmdb.ts'
import { Store } from './store.ts'

/** Stores of another format are not opened. */
const FORMAT = 4
const DATABASE_NAME = 'store.mdb'
const STATE_NAME = 'store.json'
/** Fixed size of the state file: one sector, padded with blanks. */
const STATE_BYTES = 512
const BOOT_ID = '/proc/sys/kernel/random/boot_id'

/** The content of the state file. */
interface StoreState {
  readonly format: number
  /** True while a process has the store open, and after one has ended without closing it. */
  readonly isOpen: boolean
  /** The boot id of the system: after a reboot, the disk may hold only a part of what was written. */
  readonly boot: string | undefined
  /** The size of the file when it was closed; it never shrinks. */
  readonly bytes: number
  /** Modification time in ms since 1970, if it is closed: another program that changes the file changes it. */
  readonly writtenMs?: number | undefined
  /** CRC-32 of LMDB's meta pages, if it is closed. */
  readonly meta?: number | undefined
  /** How many processes in a row ended without closing the store soon after they had opened it. */
  readonly ended?: number
  /** The reason why the store must not be used again. */
  readonly doubt?: string
}

type StateChange = Pick<StoreState, 'isOpen' | 'ended'> & { readonly bytes?: number }

/** Damage that crashes the process can only be detected by counting crashes. */
const MOST_ENDED = 2

/** LMDB reads the first two pages of a file until it is closed. */
const FIRST_BYTES = 64 * 1024

/** Sizes of the store's file in bytes. */
export interface Compacted {
  readonly before: number
  readonly after: number
}

export class StoreDirectory {
  readonly path: string
  /** The reason why an existing store was not used; undefined if it was used or did not exist. */
  whyNot: string | undefined
  /** The reason why the next start must not use the store. */
  #doubt: string | undefined
  #removal: Promise<unknown> = Promise.resolve()

  constructor(path: string) {
    this.path = path
  }

  /**
   * Opens the store that the last process left, or an empty one if that is not reliable.
   * @throws ENOSPC when an existing store cannot be opened without space on the disk.
   */
  open(): Store {
    this.whyNot = fileBytes(this.#file) === undefined ? undefined : this.whyNotUsable()
    const { isOpen = false, ended = 0 } = this.#readState() ?? {}
    if (this.whyNot !== undefined) this.setAside()
    this.#removeCopy()
    try {
      return this.#open(isOpen && this.whyNot === undefined ? ended + 1 : 1)
    } catch (error) {
      if (isOutOfSpace(error)) throw error
      this.whyNot = (error as Error).message
      this.setAside()
      return this.#open(1)
    }
  }

  /** Called some time after the start, or by a command: a crash from now on is not attributed to the store. */
  settle(): void {
    this.#writeState({ isOpen: true })
  }

  /** Renames the store to `.aside`, replacing an earlier one of that name. */
  setAside(): void {
    rmSync(`${this.#file}-lock`, { force: true })
    if (fileBytes(this.#file) !== undefined) renameSync(this.#file, this.#aside)
  }

  /** Syncs a complete store, which then replaces one that was set aside. */
  async syncComplete(store: Store): Promise<void> {
    await this.sync(store)
    if (this.#doubt === undefined) await rm(this.#aside, { force: true }).catch(() => {})
  }

  async close(store: Store): Promise<void> {
    await store.end()
    await this.sync(store)
    await store.close()
    await this.#removal
    this.#writeState({ isOpen: false })
  }

  /** A store that cannot be synced must not be used by the next start. */
  async sync(store: Store): Promise<void> {
    try {
      await store.sync()
    } catch (error) {
      this.doubt(`it could not be synced: ${(error as Error).message}`)
    }
  }

  /**
   * Rewrites the store without its free pages.
   * @throws {Refusal} when it could not be copied; it is unchanged.
   */
  async compact(): Promise<Compacted> {
    const before = this.bytes
    const copy = this.#copy
    const store = this.open()
    this.settle()
    await this.#removal
    try {
      await store.copyTo(copy)
    } catch (error) {
      rmSync(copy, { force: true })
      await this.close(store)
      throw new Refusal(
        'Unavailable',
        `The store is unchanged, as it could not be copied: ${(error as Error).message}.`,
      )
    }
    await store.close()
    chmodSync(copy, 0o600)
    const file = openSync(copy, 'r+')
    fsyncSync(file)
    closeSync(file)
    this.#putCopy()
    this.#writeState({ isOpen: false })
    return { before, after: this.bytes }
  }

  /** Compacts an open store; `rest` is that of `copyStore`. Undefined if it was abandoned without changes. */
  async compactOpen(store: Store, rest: (sliceMs: number) => Promise<boolean>): Promise<Compacted | undefined> {
    await this.#removal
    const before = this.bytes
    const copy = Store.open(this.#copy)
    let closing: Promise<void> | undefined
    // Freeing the pages and blocks of a large file takes long, so another thread truncates the file before LMDB closes
    // it on this one.
    const old = await open(this.#file, 'r+')
    try {
      await copyStore(store, copy, rest, () => {
        this.#putCopy()
        closing = store.become(copy, () => old.truncate(FIRST_BYTES))
      })
    } finally {
      if (!closing) await truncate(this.#copy, FIRST_BYTES).catch(() => {})
      await (closing ?? copy.close())
      await old.close()
      this.#removeCopy()
      await this.#removal
    }
    return closing && { before, after: this.bytes }
  }

  /** Makes the next start rebuild the store. */
  doubt(why: string): void {
    this.#doubt ??= why.slice(0, STATE_BYTES / 4)
    this.#writeState({ isOpen: true })
  }

  /** The reason why the store is not reliable; undefined if it is. */
  whyNotUsable(): string | undefined {
    const bytes = fileBytes(this.#file)
    if (bytes === undefined) return 'it is missing'
    const state = this.#readState()
    if (!state) return 'nothing is noted about it'
    if (state.format !== FORMAT) return `it has format ${state.format}`
    if (state.doubt !== undefined) return state.doubt
    if (bytes < state.bytes) return `it has ${bytes} bytes, and had ${state.bytes}`
    if (!state.isOpen && !isAboutEqual(state.writtenMs, writtenMs(this.#file)))
      return 'it was changed after it was closed'
    if (state.isOpen && (state.boot === undefined || state.boot !== bootId())) {
      return 'the system ended while it was open'
    }
    if (state.isOpen && (state.ended ?? 0) >= MOST_ENDED)
      return `${state.ended} processes ended soon after they opened it`
    const meta = metaOf(this.#file)
    if (!meta || (!state.isOpen && meta.crc !== state.meta)) return 'its first pages are damaged'
    if (bytes < meta.bytes) return `it has ${bytes} bytes, and should have ${meta.bytes}`
    return undefined
  }

  get bytes(): number {
    return fileBytes(this.#file) ?? 0
  }

  #open(ended: number): Store {
    const store = Store.open(this.#file, () => {
      mkdirSync(this.path, { recursive: true, mode: 0o700 })
      this.#writeStateDurably({ isOpen: true, ended })
    })
    store.full = () => this.#makeRoom()
    return store
  }

  /** A store that was set aside is removed when the disk is full. */
  #makeRoom(): void {
    rmSync(this.#aside, { force: true })
  }

  /** Removes what an interrupted compaction left. */
  #removeCopy(): void {
    const removed = [this.#copy, `${this.#copy}-lock`].map((path) => rm(path, { force: true }).catch(() => {}))
    this.#removal = Promise.all(removed)
  }

  /** Replaces the file by the copy. After a kill the next start uses either, whatever its size. */
  #putCopy(): void {
    this.#writeState({ isOpen: true, bytes: 0 })
    renameSync(this.#copy, this.#file)
  }

  /** The file that a compaction writes. */
  get #copy(): string {
    return `${this.#file}.compact`
  }

  get #file(): string {
    return `${this.path}/${DATABASE_NAME}`
  }

  /** A store that is not used any more. */
  get #aside(): string {
    return `${this.#file}.aside`
  }

  #readState(): StoreState | undefined {
    try {
      return JSON.parse(readFileSync(`${this.path}/${STATE_NAME}`, 'utf8')) as StoreState
    } catch {
      return undefined
    }
  }

  /** Skipped on a full disk or without a descriptor: the next start may then rebuild a store that was usable. */
  #writeState(change: StateChange): void {
    try {
      this.#writeStateDurably(change)
    } catch (error) {
      if (!isOutOfSpace(error) && !isOutOfDescriptors(error)) throw error
    }
  }

  #writeStateDurably(change: StateChange): void {
    // The directory was removed on purpose, or the disk never had room for the store.
    if (fileBytes(change.isOpen ? this.path : this.#file) === undefined) return
    const closed = change.isOpen ? {} : { writtenMs: writtenMs(this.#file), meta: metaOf(this.#file)?.crc }
    const doubt = this.#doubt !== undefined && { doubt: this.#doubt }
    const state: StoreState = { format: FORMAT, boot: bootId(), bytes: this.bytes, ...closed, ...change, ...doubt }
    // A half-written text does not parse.
    overwriteDurably(`${this.path}/${STATE_NAME}`, JSON.stringify(state).padEnd(STATE_BYTES))
  }
}

function fileBytes(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.size
}

function writtenMs(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs
}

/** Copying a file may round its times to milliseconds. */
function isAboutEqual(oneMs = 0, otherMs = 0): boolean {
  return Math.abs(oneMs - otherMs) < 2
}

function bootId(): string | undefined {
  try {
    return readFileSync(BOOT_ID, 'utf8').trim()
  } catch {
    return undefined
  }
}

/** Writes text to a file durably, in place if it exists, so that it succeeds on a full disk. */
function overwriteDurably(path: string, text: string): void {
  const isNew = !existsSync(path)
  const file = openSync(path, isNew ? 'w' : 'r+', 0o600)
  try {
    writeSync(file, text, 0)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  if (isNew) syncDirectory(dirname(path))
}

function syncDirectory(path: string): void {
  const directory = openSync(path, 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}
