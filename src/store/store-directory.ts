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
const STORE = 'store.mdb'
const STATE = 'store.json'
/** Fixed size of the state file: one sector, padded with blanks. */
const NOTED_BYTES = 512
const BOOT_ID = '/proc/sys/kernel/random/boot_id'

/** The content of store.json, written durably before the store is opened and after it is closed. */
interface Noted {
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

type NewlyNoted = Pick<Noted, 'isOpen' | 'ended'> & { readonly bytes?: number }

/** Damage that crashes the process can only be detected by counting crashes. */
const MOST_ENDED = 2

/** LMDB reads the first two pages of a file until it is closed. */
const FIRST_BYTES = 64 * 1024

/** Sizes of the store's file in bytes. */
export interface Compacted {
  readonly before: number
  readonly after: number
}

/** The directory of a journal's store. */
export class StoreDirectory {
  readonly path: string
  /** The reason why an existing store was not used; undefined if it was used or did not exist. */
  whyNot: string | undefined
  /** The reason why the next start must not use the store. */
  #doubt: string | undefined
  #removing: Promise<unknown> = Promise.resolve()

  constructor(path: string) {
    this.path = path
  }

  /**
   * Opens the store that the last process left, or an empty one if that is not reliable.
   * @throws ENOSPC when an existing store cannot be opened without space on the disk.
   */
  open(): Store {
    this.whyNot = fileBytes(this.#file) === undefined ? undefined : this.whyNotUsable()
    const { isOpen = false, ended = 0 } = this.#noted() ?? {}
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

  #open(ended: number): Store {
    const store = Store.open(this.#file, () => {
      mkdirSync(this.path, { recursive: true, mode: 0o700 })
      this.#noteDurably({ isOpen: true, ended })
    })
    store.full = () => this.#makeRoom()
    return store
  }

  /** Removes what an interrupted compaction left. */
  #removeCopy(): void {
    const removed = [this.#copy, `${this.#copy}-lock`].map((path) => rm(path, { force: true }).catch(() => {}))
    this.#removing = Promise.all(removed)
  }

  /** A store that was set aside is removed when the disk is full. */
  #makeRoom(): void {
    rmSync(this.#aside, { force: true })
  }

  /** Called some time after the start, or by a command: a crash from now on is not attributed to the store. */
  settle(): void {
    this.#note({ isOpen: true })
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
    await this.#removing
    this.#note({ isOpen: false })
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
    const before = fileBytes(this.#file) ?? 0
    const copy = this.#copy
    const store = this.open()
    this.settle()
    await this.#removing
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
    this.#note({ isOpen: false })
    return { before, after: fileBytes(this.#file) ?? 0 }
  }

  /** Compacts an open store; `rest` is that of `copyStore`. Undefined if it was abandoned without changes. */
  async compactOpen(store: Store, rest: (sliceMs: number) => Promise<boolean>): Promise<Compacted | undefined> {
    await this.#removing
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
      await this.#removing
    }
    return closing && { before, after: this.bytes }
  }

  /** Replaces the file by the copy. After a kill the next start uses either, whatever its size. */
  #putCopy(): void {
    this.#note({ isOpen: true, bytes: 0 })
    renameSync(this.#copy, this.#file)
  }

  /** Makes the next start rebuild the store. */
  doubt(why: string): void {
    this.#doubt ??= why.slice(0, NOTED_BYTES / 4)
    this.#note({ isOpen: true })
  }

  get bytes(): number {
    return fileBytes(this.#file) ?? 0
  }

  /** The file that a compaction writes. */
  get #copy(): string {
    return `${this.#file}.compact`
  }

  get #file(): string {
    return `${this.path}/${STORE}`
  }

  /** A store that is not used any more. */
  get #aside(): string {
    return `${this.#file}.aside`
  }

  /** The reason why the store is not reliable; undefined if it is. */
  whyNotUsable(): string | undefined {
    const bytes = fileBytes(this.#file)
    if (bytes === undefined) return 'it is missing'
    const noted = this.#noted()
    if (!noted) return 'nothing is noted about it'
    if (noted.format !== FORMAT) return `it has format ${noted.format}`
    if (noted.doubt !== undefined) return noted.doubt
    if (bytes < noted.bytes) return `it has ${bytes} bytes, and had ${noted.bytes}`
    if (!noted.isOpen && !isAbout(noted.writtenMs, writtenMs(this.#file))) return 'it was changed after it was closed'
    if (noted.isOpen && (noted.boot === undefined || noted.boot !== bootId())) {
      return 'the system ended while it was open'
    }
    if (noted.isOpen && (noted.ended ?? 0) >= MOST_ENDED)
      return `${noted.ended} processes ended soon after they opened it`
    const meta = metaOf(this.#file)
    if (!meta || (!noted.isOpen && meta.crc !== noted.meta)) return 'its first pages are damaged'
    if (bytes < meta.bytes) return `it has ${bytes} bytes, and should have ${meta.bytes}`
    return undefined
  }

  #noted(): Noted | undefined {
    try {
      return JSON.parse(readFileSync(`${this.path}/${STATE}`, 'utf8')) as Noted
    } catch {
      return undefined
    }
  }

  /** Skipped on a full disk or without a descriptor: the next start may then rebuild a store that was usable. */
  #note(state: NewlyNoted): void {
    try {
      this.#noteDurably(state)
    } catch (error) {
      if (!isOutOfSpace(error) && !isOutOfDescriptors(error)) throw error
    }
  }

  #noteDurably(state: NewlyNoted): void {
    // The directory was removed on purpose, or the disk never had room for the store.
    if (fileBytes(state.isOpen ? this.path : this.#file) === undefined) return
    const closed = state.isOpen ? {} : { writtenMs: writtenMs(this.#file), meta: metaOf(this.#file)?.crc }
    const doubt = this.#doubt !== undefined && { doubt: this.#doubt }
    const noted: Noted = { format: FORMAT, boot: bootId(), bytes: this.bytes, ...closed, ...state, ...doubt }
    // A half-written text does not parse.
    overwriteDurably(`${this.path}/${STATE}`, JSON.stringify(noted).padEnd(NOTED_BYTES))
  }
}

function fileBytes(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.size
}

function writtenMs(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs
}

/** Copying a file may round its times to milliseconds. */
function isAbout(noted = 0, ms = 0): boolean {
  return Math.abs(noted - ms) < 2
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
