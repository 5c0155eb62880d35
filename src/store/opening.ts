import {
  chmodSync,
  closeSync,
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
import { copyStore } from './compaction.ts'
import { metaOf } from './meta.ts'
import { Store } from './store.ts'

/** Another one is not read. */
const FORMAT = 3
const STORE = 'store.mdb'
const STATE = 'store.json'
/** Of what is noted, with blanks at its end: one sector. */
const NOTED_BYTES = 512
const BOOT_ID = '/proc/sys/kernel/random/boot_id'

/** What is noted beside the store, durably, before it is opened and after it is closed. */
interface Noted {
  readonly format: number
  /** Whether a process has it open, or ended without closing it. */
  readonly isOpen: boolean
  /** Of the system that had it open: after another start of the system the disk may hold a part of what was written. */
  readonly boot: string | undefined
  /** The file is never shorter than it was when it was closed. */
  readonly bytes: number
  /** When it was last written to, in milliseconds since 1970, if it is closed. Another one: another program has changed it. */
  readonly writtenMs?: number | undefined
  /** CRC-32 of what LMDB notes at the beginning of its file, if it is closed. */
  readonly meta?: number | undefined
  /** How many processes in a row have ended, without closing it, soon after they had opened it. */
  readonly ended?: number
  /** Why it is not to be used again. */
  readonly doubt?: string
}

type NewlyNoted = Pick<Noted, 'isOpen' | 'ended' | 'doubt'> & { readonly bytes?: number }

/** A store of which damage ends the process can only be told by how often that happens. */
const MOST_ENDED = 2

/** LMDB looks at the first two pages of a file until it is closed. */
const FIRST_BYTES = 64 * 1024

/** Bytes of the store. */
export interface Compacted {
  readonly before: number
  readonly after: number
}

/** The store of a journal, in a directory of its own. */
export class StoreDirectory {
  readonly path: string
  /** Why the store that was here is not used; undefined when it is, or when there was none. */
  whyNot: string | undefined
  /** Why the next start is not to use it either. */
  #doubt: string | undefined
  #removing: Promise<unknown> = Promise.resolve()

  constructor(path: string) {
    this.path = path
  }

  /**
   * The store as the last process left it, or an empty one where that cannot be relied upon.
   * @throws ENOSPC when an existing one cannot be opened without room on the disk.
   */
  open(): Store {
    this.whyNot = bytesOf(this.#file) === undefined ? undefined : this.whyNotUsable()
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

  /** Of a compaction that was not finished. */
  #removeCopy(): void {
    const removed = [this.#copy, `${this.#copy}-lock`].map((path) => rm(path, { force: true }).catch(() => {}))
    this.#removing = Promise.all(removed)
  }

  /** What was set aside is not worth a full disk. */
  #makeRoom(): void {
    rmSync(`${this.#file}.aside`, { force: true })
  }

  /** A process has had it open for a while: if it ends now, the store is not why. */
  settle(): void {
    if (this.#doubt === undefined) this.#note({ isOpen: true })
  }

  /** Keeps the store under another name, where the next one that is set aside takes its place. */
  setAside(): void {
    rmSync(`${this.#file}-lock`, { force: true })
    if (bytesOf(this.#file) !== undefined) renameSync(this.#file, `${this.#file}.aside`)
  }

  async close(store: Store): Promise<void> {
    await store.end()
    await this.sync(store)
    await store.close()
    await this.#removing
    this.#note({ isOpen: false, ...(this.#doubt !== undefined && { doubt: this.#doubt }) })
  }

  /** What cannot be synced is not to be used by the next start. */
  async sync(store: Store): Promise<void> {
    try {
      await store.sync()
    } catch (error) {
      this.doubt(`it could not be synced: ${(error as Error).message}`)
    }
  }

  /** Writes the store anew, without the pages that hold nothing any more. */
  async compact(): Promise<Compacted> {
    const before = bytesOf(this.#file) ?? 0
    const copy = this.#copy
    const store = this.open()
    await this.#removing
    await store.copyTo(copy)
    await store.close()
    chmodSync(copy, 0o600)
    const file = openSync(copy, 'r+')
    fsyncSync(file)
    closeSync(file)
    renameSync(copy, this.#file)
    this.#note({ isOpen: false })
    return { before, after: bytesOf(this.#file) ?? 0 }
  }

  /**
   * Writes the store anew while it is used; `rest` is as in `copyStore`. Undefined when it was given up: then nothing has
   * changed.
   */
  async compactOpen(store: Store, rest: (sliceMs: number) => Promise<boolean>): Promise<Compacted | undefined> {
    await this.#removing
    const before = this.bytes
    const copy = Store.open(this.#copy)
    let closing: Promise<void> | undefined
    // To free the pages and blocks of a file takes long, so another thread does that, and not the one that closes it in LMDB.
    const old = await open(this.#file, 'r+')
    try {
      await copyStore(store, copy, rest, () => {
        // After a kill either file is used, whatever its size.
        this.#note({ isOpen: true, bytes: 0 })
        renameSync(this.#copy, this.#file)
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

  /** The next start is not to use the store. */
  doubt(why: string): void {
    this.#doubt ??= why.slice(0, NOTED_BYTES / 4)
    this.#note({ isOpen: true, doubt: this.#doubt })
  }

  get bytes(): number {
    return bytesOf(this.#file) ?? 0
  }

  /** Where a compaction writes the store anew. */
  get #copy(): string {
    return `${this.#file}.compact`
  }

  get #file(): string {
    return `${this.path}/${STORE}`
  }

  /** Why the store cannot be relied upon; undefined when it can. */
  whyNotUsable(): string | undefined {
    const bytes = bytesOf(this.#file)
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

  /** On a full disk nothing is noted: then the next start may build a store again that could be used. */
  #note(state: NewlyNoted): void {
    try {
      this.#noteDurably(state)
    } catch (error) {
      if (!isOutOfSpace(error)) throw error
    }
  }

  #noteDurably(state: NewlyNoted): void {
    // The directory was removed on purpose, or the disk never had room for the store.
    if (bytesOf(state.isOpen ? this.path : this.#file) === undefined) return
    const closed = state.isOpen ? {} : { writtenMs: writtenMs(this.#file), meta: metaOf(this.#file)?.crc }
    const noted: Noted = { format: FORMAT, boot: bootId(), bytes: this.bytes, ...closed, ...state }
    writeDurably(`${this.path}/${STATE}`, JSON.stringify(noted))
  }
}

function bytesOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.size
}

function writtenMs(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs
}

/** Copies keep times to the millisecond. */
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

/** Writes a text over another one, so that a full disk has room for it; half-written it is none. */
function writeDurably(path: string, text: string): void {
  const isNew = bytesOf(path) === undefined
  const file = openSync(path, isNew ? 'w' : 'r+', 0o600)
  try {
    writeSync(file, text.padEnd(NOTED_BYTES), 0)
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
