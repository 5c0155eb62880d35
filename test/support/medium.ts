import fs, { readdirSync, readFileSync, readlinkSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { basename, dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import { Store } from '../../src/store/store.ts'
import type { Random } from './random.ts'

const BLOCK = 4096
const SECTOR = 512
const EMPTY = { bytes: Buffer.alloc(0), ms: 0 }

interface Version {
  readonly at: number
  readonly bytes: Buffer
}

interface MediumFile {
  /** The content that was synced last, with the time of the file. */
  base: Buffer
  baseMs: number
  current: Buffer
  currentMs: number
  /** The contents that were written to each block since. */
  readonly versions: Map<number, readonly Version[]>
}

/**
 * Knows what a directory may hold after a loss of power: of each block the synced content or any that was written since,
 * and of each name likewise. It sees writes when `look` is called.
 */
export class Medium {
  readonly #path: string
  readonly #random: Random
  /** By inode. */
  readonly #files = new Map<string, MediumFile>()
  #names: ReadonlyMap<string, string>
  #syncedNames: ReadonlyMap<string, string>
  #time = 0

  /** All that the directory has is on the medium, unless it is that of another medium. */
  constructor(path: string, random: Random, from?: Medium) {
    this.#path = path
    this.#random = random
    this.#names = this.#list()
    this.#syncedNames = new Map(this.#names)
    for (const [name, key] of this.#names) {
      const { bytes, ms } = this.#read(name) ?? EMPTY
      const before = from ? from.#files.get(from.#names.get(name) ?? '') : undefined
      const { base, baseMs, versions } = before ?? { base: bytes, baseMs: ms, versions: new Map() }
      this.#files.set(key, { base, baseMs, versions: new Map(versions), current: bytes, currentMs: ms })
    }
    if (from) this.#time = from.#time
  }

  look(): void {
    this.#names = this.#list()
    this.#time++
    for (const [name, key] of this.#names) {
      const found = this.#read(name)
      if (!found) continue
      const { bytes, ms } = found
      const nothing = { base: EMPTY.bytes, baseMs: 0, current: EMPTY.bytes, currentMs: 0 }
      const file = this.#files.get(key) ?? { ...nothing, versions: new Map<number, readonly Version[]>() }
      this.#files.set(key, file)
      for (let at = 0; at < bytes.length; at += BLOCK) {
        const block = bytes.subarray(at, at + BLOCK)
        if (block.equals(file.current.subarray(at, at + BLOCK))) continue
        const version = { at: this.#time, bytes: block }
        file.versions.set(at, [...(file.versions.get(at) ?? []), version])
      }
      file.current = bytes
      file.currentMs = ms
    }
  }

  /** Called before a file or the directory is synced; the result is called when it has been. */
  beginSync(path: string): () => void {
    if (path !== this.#path && dirname(path) !== this.#path) return () => {}
    this.look()
    const time = this.#time
    if (path === this.#path) {
      const names = new Map(this.#names)
      return () => {
        this.#syncedNames = names
      }
    }
    const file = this.#files.get(this.#names.get(basename(path)) ?? '')
    if (!file) return () => {}
    const { current, currentMs } = file
    return () => {
      file.base = current
      file.baseMs = currentMs
      for (const [at, versions] of file.versions) {
        const later = versions.filter((version) => version.at > time)
        if (later.length > 0) file.versions.set(at, later)
        else file.versions.delete(at)
      }
    }
  }

  /** Writes to an empty directory what the medium holds after a loss of power. */
  lose(to: string): void {
    const random = this.#random
    this.look()
    for (const name of new Set([...this.#names.keys(), ...this.#syncedNames.keys()])) {
      const names = random.chance(0.5) ? this.#names : this.#syncedNames
      const file = this.#files.get(names.get(name) ?? '')
      if (!file) continue
      const path = join(to, name)
      writeFileSync(path, this.#lost(file))
      const ms = file.versions.size === 0 || random.chance(0.5) ? file.baseMs : file.currentMs
      utimesSync(path, ms / 1000, ms / 1000)
    }
  }

  #lost({ base, current, versions }: MediumFile): Buffer {
    const random = this.#random
    const between = base.length + BLOCK * random.integer(Math.floor((current.length - base.length) / BLOCK) + 1)
    const bytes = Buffer.alloc(Math.max(0, random.pick([base.length, current.length, between])))
    base.copy(bytes)
    const share = random.pick([0, 0.1, 0.5, 0.9])
    for (const [at, written] of versions) {
      const block = bytes.subarray(at, at + BLOCK)
      if (random.chance(share)) continue
      const any = (): Buffer => (random.chance(0.5) ? (written.at(-1) as Version) : random.pick(written)).bytes
      if (random.chance(0.1)) {
        for (let sector = 0; sector < block.length; sector += SECTOR) {
          if (random.chance(0.5)) any().copy(block, sector, sector, sector + SECTOR)
        }
      } else if (random.chance(0.03)) block.fill(random.integer(256))
      else any().copy(block)
    }
    return bytes
  }

  #list(): Map<string, string> {
    const names = new Map<string, string>()
    for (const name of readdirSync(this.#path)) {
      // Another thread may be removing it.
      const found = statSync(join(this.#path, name), { bigint: true, throwIfNoEntry: false })
      if (found) names.set(name, `${found.ino} ${found.birthtimeNs}`)
    }
    return names
  }

  #read(name: string): { readonly bytes: Buffer; readonly ms: number } | undefined {
    const path = join(this.#path, name)
    const found = statSync(path, { throwIfNoEntry: false })
    if (!found) return undefined
    try {
      return { bytes: readFileSync(path), ms: found.mtimeMs }
    } catch {
      return undefined
    }
  }
}

export interface SimulatedSystem {
  readonly medium: Medium
  /** The boot id of the system. */
  readonly boot: string
  /** Called when a sync begins, has run, and has been noted. */
  readonly moment: (moment: string) => void
}

/**
 * Replaces all ways in which the store is synced: what they sync is on the medium when they end. Mocks of node:test would
 * keep the arguments and results of every call.
 */
export async function simulateSystem(t: TestContext, system: SimulatedSystem): Promise<void> {
  const { readFileSync } = fs
  const moment = (what: string): void => system.moment(what)
  const sync = (path: string): void => {
    const end = system.medium.beginSync(path)
    moment(`before the sync of ${basename(path)}`)
    end()
    moment(`after the sync of ${basename(path)}`)
  }
  const syncDescriptor = (descriptor: number): void => sync(readlinkSync(`/proc/self/fd/${descriptor}`))
  replace(t, fs, 'fsyncSync', syncDescriptor)
  replace(t, fs, 'fdatasyncSync', syncDescriptor)
  replace(t, fs, 'readFileSync', (...args: Parameters<typeof readFileSync>) =>
    args[0] === '/proc/sys/kernel/random/boot_id' ? system.boot : readFileSync(...args),
  )
  syncBuiltinESMExports()
  t.after(syncBuiltinESMExports)
  const handle = await open('/proc/self/cmdline')
  replace(t, Object.getPrototypeOf(handle), 'datasync', async function (this: { readonly fd: number }): Promise<void> {
    syncDescriptor(this.fd)
  })
  await handle.close()
  replace(t, Store.prototype, 'sync', async function (this: Store): Promise<void> {
    const end = system.medium.beginSync(this.path)
    moment('before the sync of the database')
    // Others write meanwhile.
    await new Promise<void>((resolve) => setTimeout(resolve, 1))
    moment('when the database has been synced')
    end()
    moment('after the sync of the database')
  })
}

/** Replaces a method until the end of the test. */
export function replace(t: TestContext, object: object, name: string, method: unknown): void {
  const methods = object as Record<string, unknown>
  const before = methods[name]
  methods[name] = method
  t.after(() => {
    methods[name] = before
  })
}
