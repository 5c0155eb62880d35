/*
 * The directory of a journal's store holds the database and its recovery point: the meta page of a commit whose pages
 * have been synced, and are pinned, so that LMDB writes to none of them. After another boot, a start goes back to this
 * commit, whatever reached the medium since, and applies the rest of the journal. `advance` moves the point to the newest
 * commit, and releases the pages of the one before only when that is durable.
 *
 * A compaction writes the other of two database files. The point says which one is in use, so moving it is the only step
 * that a crash can come before or after.
 *
 * A store that cannot be used is set aside, and a new one is built from the journal. A crash before the first point of
 * the new one makes the next start begin again; a later one makes it continue. When the new one is complete, or when the
 * disk is full, the one set aside is removed.
 *
 * | A store is set aside | Its name | It is |
 * |---|---|---|
 * | since damage of single rows was found | that of `#former`, with the id of the boot that wrote it | read until the new one is complete |
 * | while it is read | `.aside` | not read again after a crash, which its damage may cause |
 * | for another reason | `.aside` | never read |
 */

import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { rm, truncate } from 'node:fs/promises'
import { setImmediate } from 'node:timers/promises'
import { isOutOfSpace } from '../files/files.ts'
import { isOutOfDescriptors, Refusal } from '../runtime/errors.ts'
import { copyStore } from './compaction.ts'
import { FORMAT_4_STATE, pointOfFormat4 } from './format-4.ts'
import { bytesOf, goBackTo, newestMeta, type PinnedCommit } from './lmdb.ts'
import { RecoveryFile, type RecoveryPoint, synchronize } from './recovery-file.ts'
import { Store } from './store.ts'

/** Stores of another format are not opened, except those of the ones before, whose rows are read as well. */
const FORMAT = 8
const FORMATS_BEFORE: readonly number[] = [5, 6, 7]
/** Names of the database file. */
export const FILES = ['store.mdb', 'store-2.mdb'] as const
const POINT_NAME = 'recovery-point'
/** A store that is not used any more. */
const ASIDE_NAME = 'store.mdb.aside'
/** One that is still read, followed by the id of the boot. */
const FORMER_NAME = 'store.mdb.former-'
/** The beginning of the doubt in a store with damaged rows. */
const DAMAGED = 'it is damaged: '
const BOOT_ID = '/proc/sys/kernel/random/boot_id'
/** Longest reason of a doubt, in characters. */
const DOUBT_CHARACTERS = 128

/** Damage that crashes the process can only be detected by counting crashes. */
const MOST_ENDED = 2

/** LMDB reads the first two pages of a file until it is closed. */
const FIRST_BYTES = 64 * 1024

/** Sizes of the store's file in bytes. */
export interface Compacted {
  readonly before: number
  readonly after: number
}

interface NextPoint {
  readonly point: RecoveryPoint
  readonly pin: PinnedCommit
}

export class StoreDirectory {
  readonly path: string
  /** The reason why an existing store was not used; undefined if it was used or did not exist. */
  whyNot: string | undefined
  readonly #recovery: RecoveryFile
  /** The point in the recovery file; undefined if there is none. */
  #point: RecoveryPoint | undefined
  /** The commit of the point, and one that is to be the next. */
  #pinned: readonly PinnedCommit[] = []
  /** The next point, which may be in the recovery file as well, since it could not be written completely. */
  #unwritten: NextPoint | undefined
  /** The name of the database file in use. */
  #file: string = FILES[0]
  #ended = 0
  /** The reason why the next start must not use the store. */
  #doubt: string | undefined
  #advancing: Promise<unknown> = Promise.resolve()
  #removal: Promise<unknown> = Promise.resolve()
  #isReadingFormer = false

  constructor(path: string) {
    this.path = path
    this.#recovery = new RecoveryFile(`${path}/${POINT_NAME}`)
  }

  /**
   * Opens the store at its recovery point, or an empty one if that is not reliable.
   * @throws ENOSPC when an existing store cannot be opened without space on the disk.
   */
  open(): Store {
    const point = this.#readPoint()
    this.#file = point?.file ?? FILES[0]
    const isNew = !point && FILES.every((file) => fileBytes(this.#pathOf(file)) === undefined)
    this.whyNot = isNew ? undefined : this.#whyNot(point)
    if (point && this.whyNot === undefined) {
      try {
        return this.#openAt(point)
      } catch (error) {
        if (isOutOfSpace(error) || isOutOfDescriptors(error)) throw error
        this.whyNot = (error as Error).message
      }
    }
    this.setAside(point && this.#isReadable(point) ? this.#former : this.#aside)
    return this.#opened(Store.open(this.#path, () => mkdirSync(this.path, { recursive: true, mode: 0o700 })))
  }

  /** Called some time after the start, or by a command: a crash from now on is not attributed to the store. */
  async settle(store: Store): Promise<void> {
    this.#ended = 0
    await this.advance(store)
  }

  /**
   * Opens the store that was set aside because of damaged rows, to be read until the new one is complete. Undefined if
   * there is none, or if the process crashed that read it before.
   */
  openFormer(): Store | undefined {
    if (this.#former === this.#aside || fileBytes(this.#former) === undefined) return undefined
    renameSync(this.#former, this.#aside)
    this.#isReadingFormer = true
    return Store.open(this.#aside)
  }

  /** The next start can open the former store again, unless it was removed. */
  async closeFormer(store: Store): Promise<void> {
    if (!this.#isReadingFormer) return
    this.#isReadingFormer = false
    await store.close()
    try {
      rmSync(`${this.#aside}-lock`, { force: true })
      if (fileBytes(this.#aside) !== undefined) renameSync(this.#aside, this.#former)
    } catch {
      // Under the name that it has, it is not read again.
    }
  }

  /** Renames the store, replacing an earlier one of that name. */
  setAside(name = this.#aside): void {
    this.#makeRoom()
    this.#recovery.remove()
    rmSync(`${this.path}/${FORMAT_4_STATE}`, { force: true })
    for (const file of [otherFile(this.#file), this.#file]) {
      rmSync(`${this.#pathOf(file)}-lock`, { force: true })
      if (fileBytes(this.#pathOf(file)) !== undefined) renameSync(this.#pathOf(file), name)
    }
    this.#file = FILES[0]
    this.#point = undefined
    this.#doubt = undefined
    this.#ended = 0
  }

  /**
   * Makes the newest commit the recovery point. Resolves with whether it is: not while the disk is full, or if the store
   * is in doubt. One call waits for the other.
   */
  advance(store: Store): Promise<boolean> {
    const advanced = this.#advancing.then(() => this.#advance(store))
    this.#advancing = advanced
    return advanced
  }

  /** Advances with a complete store, which then replaces one that was set aside. */
  async advanceComplete(store: Store): Promise<void> {
    if (await this.advance(store)) this.#makeRoom()
  }

  async close(store: Store): Promise<void> {
    await store.end()
    const isNewest = await this.advance(store)
    this.#release(this.#pinned)
    await store.close()
    await this.#removal
    if (!isNewest || !this.#point) return
    try {
      synchronize(this.#path)
      this.#notePoint({ ...this.#point, ended: 0, writtenMs: writtenMs(this.#path) })
    } catch {
      // The next start continues from the point as it is.
    }
  }

  /**
   * Rewrites the store without its free pages.
   * @throws {Refusal} when it could not be copied; it is unchanged.
   */
  async compact(): Promise<Compacted> {
    const store = this.open()
    try {
      await this.settle(store)
      const compacted = await this.compactOpen(store, () => setImmediate(true))
      if (!compacted) throw new Error('it could not be synced')
      return compacted
    } catch (error) {
      const why = (error as Error).message
      throw new Refusal('Unavailable', `The store is unchanged, as it could not be copied: ${why}.`)
    } finally {
      await this.close(store)
    }
  }

  /** Compacts an open store; `rest` is that of `copyStore`. Undefined if it was abandoned without changes. */
  async compactOpen(store: Store, rest: (sliceMs: number) => Promise<boolean>): Promise<Compacted | undefined> {
    await this.#removal
    // Otherwise the point may still be in the other file.
    if (!(await this.advance(store))) return undefined
    this.#removeOther()
    await this.#removal
    const before = this.bytes
    const path = this.#pathOf(otherFile(this.#file))
    const copy = Store.open(path)
    let moving: Promise<void> | undefined
    try {
      await copyStore(store, copy, rest, () => {
        moving = this.#moveTo(store, copy)
      })
    } finally {
      if (!moving) {
        await truncate(path, FIRST_BYTES).catch(() => {})
        await copy.close()
        this.#removeOther()
        await this.#removal
      }
      await moving
    }
    return moving && { before, after: this.bytes }
  }

  /** Called when rows are found damaged: the next start rebuilds the store, and reads this one meanwhile. */
  noteDamage({ message }: Error): void {
    this.doubt(DAMAGED + message)
  }

  /** Makes the next start rebuild the store. If it cannot be noted, the next start finds the same again. */
  doubt(why: string): void {
    this.#doubt ??= why.replace(/[^ -~]/g, '?').slice(0, DOUBT_CHARACTERS)
    try {
      if (this.#point) this.#notePoint({ ...this.#point, doubt: this.#doubt })
    } catch {
      return
    }
    this.#release(this.#pinned)
  }

  /** The reason why the store is not reliable; undefined if it is. */
  whyNotUsable(): string | undefined {
    return this.#whyNot(this.#readPoint())
  }

  get bytes(): number {
    return fileBytes(this.#path) ?? 0
  }

  get #path(): string {
    return this.#pathOf(this.#file)
  }

  get #aside(): string {
    return `${this.path}/${ASIDE_NAME}`
  }

  /** That of this boot: after another one, pages that were not synced are missing. Without boot ids nothing is read. */
  get #former(): string {
    const boot = bootId()
    return boot === undefined ? this.#aside : `${this.path}/${FORMER_NAME}${boot}`
  }

  #isReadable({ format, file, bytes, boot, doubt }: RecoveryPoint): boolean {
    const isWhole = format === FORMAT && (fileBytes(this.#pathOf(file)) ?? 0) >= bytes && boot === bootId()
    return isWhole && doubt?.startsWith(DAMAGED) === true
  }

  #pathOf(file: string): string {
    return `${this.path}/${file}`
  }

  #readPoint(): RecoveryPoint | undefined {
    return this.#recovery.read() ?? pointOfFormat4(this.path, { file: FILES[0], format: FORMAT, boot: bootId() })
  }

  #whyNot(point: RecoveryPoint | undefined): string | undefined {
    if (!point) return 'it has no recovery point'
    const { format, file, bytes, ended, doubt } = point
    if (format !== FORMAT && !FORMATS_BEFORE.includes(format)) return `it has format ${format}`
    if (doubt !== undefined) return doubt
    const found = fileBytes(this.#pathOf(file))
    if (found === undefined) return 'it is missing'
    if (found < bytes) return `it has ${found} bytes, and had ${bytes}`
    if (point.writtenMs !== undefined && !isAboutEqual(point.writtenMs, writtenMs(this.#pathOf(file))))
      return 'it was changed after it was closed'
    if (ended >= MOST_ENDED && point.boot === bootId()) return `${ended} processes ended soon after they opened it`
    return undefined
  }

  #openAt(noted: RecoveryPoint): Store {
    const boot = bootId()
    const hasBooted = boot === undefined || noted.boot !== boot
    const begin = (): void => {
      const point = hasBooted || noted.writtenMs !== undefined ? noted : this.#newestPoint(noted)
      this.#ended = hasBooted ? 1 : point.ended + 1
      this.#notePoint({ ...point, format: FORMAT, boot, ended: this.#ended, writtenMs: undefined })
      rmSync(`${this.path}/${FORMAT_4_STATE}`, { force: true })
      goBackTo(Buffer.from(point.meta, 'hex'), this.#path)
    }
    const store = this.#opened(Store.open(this.#path, begin))
    this.#pin(store)
    // An interrupted compaction may have left it.
    this.#removeOther()
    return store
  }

  /** The newest commit, which the system still has, as only the process was killed. */
  #newestPoint(point: RecoveryPoint): RecoveryPoint {
    const meta = newestMeta(this.#path)
    if (!meta || bytesOf(meta) > this.bytes) return point
    synchronize(this.#path)
    return { ...point, meta: meta.toString('hex'), bytes: this.bytes }
  }

  #opened(store: Store): Store {
    store.full = () => this.#makeRoom()
    return store
  }

  /** Removes stores that were set aside. */
  #makeRoom(): void {
    try {
      for (const name of readdirSync(this.path))
        if (name === ASIDE_NAME || name.startsWith(FORMER_NAME)) rmSync(`${this.path}/${name}`, { force: true })
    } catch {
      // The next recovery point tries again.
    }
  }

  async #advance(store: Store): Promise<boolean> {
    if (this.#doubt !== undefined) return false
    let pin: PinnedCommit | undefined
    try {
      if (this.#unwritten) await this.#write(this.#unwritten)
      const file = this.#file
      pin = this.#pin(store)
      if (!pin) return false
      const bytes = fileBytes(this.#pathOf(file)) ?? 0
      await store.sync()
      if (this.#point?.file !== file) synchronize(this.path)
      const meta = pin.meta.toString('hex')
      await this.#write({ pin, point: { format: FORMAT, file, meta, bytes, boot: bootId(), ended: this.#ended } })
    } catch (error) {
      if (pin && this.#unwritten?.pin !== pin) this.#release([pin])
      if (isOutOfSpace(error) || isOutOfDescriptors(error)) return false
      this.doubt(`it could not be synced: ${(error as Error).message}`)
    }
    return this.#doubt === undefined
  }

  /** Writes the next point, and then releases the commit of the one before. */
  async #write(next: NextPoint): Promise<void> {
    // The store was found damaged meanwhile.
    if (this.#doubt !== undefined) return
    this.#unwritten = next
    await this.#recovery.write(next.point)
    this.#unwritten = undefined
    this.#point = next.point
    if (this.#doubt !== undefined) this.doubt(this.#doubt)
    else this.#release(this.#pinned.filter((pin) => pin !== next.pin))
  }

  #pin(store: Store): PinnedCommit | undefined {
    const pin = store.pinNewest()
    if (pin) this.#pinned = [...this.#pinned, pin]
    return pin
  }

  #release(pins: readonly PinnedCommit[]): void {
    this.#pinned = this.#pinned.filter((pin) => !pins.includes(pin))
    for (const pin of pins) pin.release()
  }

  #notePoint(point: RecoveryPoint): void {
    this.#recovery.writeSync(point)
    this.#point = point
  }

  /** Continues with a copy in the other file. The file before stays until the recovery point is in the new one. */
  async #moveTo(store: Store, copy: Store): Promise<void> {
    const before = this.#path
    const pinned = this.#pinned
    this.#file = otherFile(this.#file)
    let isMoved = false
    await store.become(copy, async () => {
      isMoved = await this.advance(store)
      this.#release(pinned)
      // Freeing the pages and blocks of a large file takes long, so another thread does it before LMDB closes the file.
      if (isMoved) await truncate(before, FIRST_BYTES)
    })
    if (isMoved) this.#removeOther()
    await this.#removal
  }

  /** Removes the file that is not in use. */
  #removeOther(): void {
    const path = this.#pathOf(otherFile(this.#file))
    this.#removal = Promise.all([path, `${path}-lock`].map((file) => rm(file, { force: true }).catch(() => {})))
  }
}

function otherFile(file: string): string {
  return file === FILES[0] ? FILES[1] : FILES[0]
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
