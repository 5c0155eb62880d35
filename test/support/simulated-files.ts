import { directoryOf, type FileStat, type Files, type OpenFile } from '../../src/files/files.ts'
import type { Random } from './random.ts'

const SECTOR = 512

/** A file's bytes as programs see them, and as a power loss would leave them at least. */
interface Inode {
  readonly number: number
  /** No byte of it is changed: a write to it replaces it. */
  bytes: Buffer
  durable: Buffer
  /** Memory of this file alone that begins with `bytes`, and has place for what is appended. */
  room?: Buffer | undefined
  mode: number
  version: number
}

interface Directory {
  entries: Map<string, Inode>
  durable: Map<string, Inode>
}

export type Operation =
  | 'open'
  | 'write'
  | 'read'
  | 'truncate'
  | 'sync'
  | 'rename'
  | 'remove'
  | 'syncDirectory'
  | 'makeDirectory'
  | 'list'
  | 'stat'

/** A fault in place of the operation; undefined lets the operation happen. */
export type Fault =
  | { readonly type: 'error'; readonly code: string }
  /** Takes only so many bytes, without an error. */
  | { readonly type: 'short'; readonly bytes: number }
  /** Says that it has synced, and has not. */
  | { readonly type: 'lie' }
  /** The process ends here: nothing more happens, nothing ever resolves. */
  | { readonly type: 'stop' }

/**
 * A disk in memory that knows what a power loss would leave of it: what was synced, and any subset of the
 * unsynced 512-byte sectors and directory entries.
 */
export class SimulatedDisk {
  readonly #directories = new Map<string, Directory>([['/', { entries: new Map(), durable: new Map() }]])
  #inodes = 0
  readonly #locks = new Set<string>()

  /** The files as one process sees them; `fault` is asked at every operation that could fail. */
  files(fault: (operation: Operation, path: string, call: number) => Fault | undefined = () => undefined): Files & {
    readonly calls: () => number
    /** Resolves when a fault has stopped the process. */
    readonly stopped: Promise<void>
  } {
    let calls = 0
    let stopped = false
    let stop = (): void => {}
    const whenStopped = new Promise<void>((resolve) => {
      stop = resolve
    })
    const at = async (operation: Operation, path: string): Promise<Fault | undefined> => {
      if (stopped) return new Promise(() => {})
      const found = fault(operation, path, ++calls)
      if (found?.type === 'stop') {
        stopped = true
        stop()
        return new Promise(() => {})
      }
      if (found?.type === 'error') throw Object.assign(new Error(`${found.code}: simulated`), { code: found.code })
      return found
    }
    const missing = (path: string): Error => Object.assign(new Error(`ENOENT: ${path}`), { code: 'ENOENT' })
    const find = (path: string): Inode | undefined => this.#directory(directoryOf(path))?.entries.get(nameOf(path))
    const existing = (path: string): Inode => {
      const inode = find(path)
      if (!inode) throw missing(path)
      return inode
    }
    return {
      calls: () => calls,
      stopped: whenStopped,
      open: async (path, how, mode) => {
        await at('open', path)
        const directory = this.#directory(directoryOf(path))
        if (!directory) throw missing(path)
        if (how !== 'create') return handle(existing(path), path, at, how === 'log')
        if (directory.entries.has(nameOf(path))) throw Object.assign(new Error(`EEXIST: ${path}`), { code: 'EEXIST' })
        const inode: Inode = {
          number: ++this.#inodes,
          bytes: Buffer.alloc(0),
          durable: Buffer.alloc(0),
          mode: mode ?? 0o600,
          version: 0,
        }
        directory.entries.set(nameOf(path), inode)
        return handle(inode, path, at)
      },
      read: async (path) => {
        await at('read', path)
        const inode = find(path)
        return inode && Buffer.from(inode.bytes)
      },
      stat: async (path) => {
        await at('stat', path)
        if (this.#directory(path)) return { size: 0, signature: path, mode: 0o755, isFile: false }
        const inode = find(path)
        if (!inode) return undefined
        return {
          size: inode.bytes.length,
          signature: `${inode.number}:${inode.version}`,
          mode: inode.mode,
          isFile: true,
        } satisfies FileStat
      },
      list: async (directory) => {
        await at('list', directory)
        return [...(this.#directory(directory)?.entries.keys() ?? [])]
      },
      makeDirectory: async (path) => {
        await at('makeDirectory', path)
        for (let end = path.indexOf('/', 1); end >= 0; end = path.indexOf('/', end + 1)) this.#make(path.slice(0, end))
        this.#make(path)
      },
      rename: async (from, to) => {
        await at('rename', from)
        if (this.#directory(from)) return this.#renameDirectory(from, to)
        const inode = existing(from)
        this.#directory(directoryOf(from))?.entries.delete(nameOf(from))
        this.#directory(directoryOf(to))?.entries.set(nameOf(to), inode)
      },
      exchange: async (one, other) => {
        await at('rename', one)
        const [first, second] = [existing(one), existing(other)]
        this.#directory(directoryOf(one))?.entries.set(nameOf(one), second)
        this.#directory(directoryOf(other))?.entries.set(nameOf(other), first)
        return true
      },
      remove: async (path) => {
        await at('remove', path)
        existing(path)
        this.#directory(directoryOf(path))?.entries.delete(nameOf(path))
      },
      link: async () => false,
      syncDirectory: async (path) => {
        if ((await at('syncDirectory', path))?.type === 'lie') return
        const directory = this.#directory(path)
        if (!directory) throw missing(path)
        directory.durable = new Map(directory.entries)
      },
      follow: async (path) => path,
      lock: async (path) => {
        if (stopped) return new Promise(() => {})
        if (this.#locks.has(path)) return undefined
        this.#locks.add(path)
        if (!find(path)) {
          const inode: Inode = {
            number: ++this.#inodes,
            bytes: Buffer.of(),
            durable: Buffer.of(),
            mode: 0o600,
            version: 0,
          }
          this.#directory(directoryOf(path))?.entries.set(nameOf(path), inode)
        }
        return {
          release: async () => {
            this.#locks.delete(path)
          },
        }
      },
    }
  }

  /** The process ended without closing anything: what was written stays, locks are gone. */
  killed(): SimulatedDisk {
    const disk = this.#copy(
      (directory) => directory.entries,
      (inode) => inode.bytes,
    )
    return disk
  }

  /** The power failed: what was synced stays, of the rest a random part. */
  powerLost(random: Random): SimulatedDisk {
    return this.#copy(
      (directory) => {
        const entries = new Map<string, Inode>()
        for (const name of [...new Set([...directory.durable.keys(), ...directory.entries.keys()])].sort()) {
          const inode = (random.chance(0.5) ? directory.entries : directory.durable).get(name)
          if (inode) entries.set(name, inode)
        }
        return entries
      },
      (inode) => survivingBytes(inode, random),
    )
  }

  /** A file's bytes as programs see them. */
  bytes(path: string): Buffer | undefined {
    return this.#directory(directoryOf(path))?.entries.get(nameOf(path))?.bytes
  }

  list(directory: string): readonly string[] {
    return [...(this.#directory(directory)?.entries.keys() ?? [])].sort()
  }

  /** Puts durable bytes in a file, as if they had always been there. */
  #renameDirectory(from: string, to: string): void {
    for (const [path, directory] of [...this.#directories]) {
      if (path !== from && !path.startsWith(`${from}/`)) continue
      this.#directories.delete(path)
      this.#directories.set(to + path.slice(from.length), directory)
    }
  }

  put(path: string, bytes: Buffer): void {
    this.#make(directoryOf(path))
    const inode: Inode = { number: ++this.#inodes, bytes, durable: bytes, mode: 0o644, version: 0 }
    const directory = this.#directory(directoryOf(path)) as Directory
    directory.entries.set(nameOf(path), inode)
    directory.durable.set(nameOf(path), inode)
  }

  /** Another program writes to a file in place, which keeps its identity. */
  overwrite(path: string, bytes: Buffer): void {
    const inode = this.#directory(directoryOf(path))?.entries.get(nameOf(path))
    if (!inode) throw new Error(`there is no ${path}`)
    inode.bytes = inode.durable = bytes
    inode.room = undefined
    inode.version++
  }

  /** Takes a file away, durably. */
  take(path: string): void {
    const directory = this.#directory(directoryOf(path))
    directory?.entries.delete(nameOf(path))
    directory?.durable.delete(nameOf(path))
  }

  #directory(path: string): Directory | undefined {
    return this.#directories.get(path)
  }

  #make(path: string): void {
    if (!this.#directories.has(path)) this.#directories.set(path, { entries: new Map(), durable: new Map() })
  }

  #copy(entriesOf: (directory: Directory) => Map<string, Inode>, bytesOf: (inode: Inode) => Buffer): SimulatedDisk {
    const disk = new SimulatedDisk()
    // No later file has the number of one that is there.
    disk.#inodes = this.#inodes
    const copies = new Map<Inode, Inode>()
    for (const [path, directory] of [...this.#directories].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const entries = new Map<string, Inode>()
      for (const [name, inode] of entriesOf(directory)) {
        const bytes = copies.get(inode)?.bytes ?? bytesOf(inode)
        const copy = copies.get(inode) ?? {
          number: inode.number,
          bytes,
          durable: bytes,
          mode: inode.mode,
          // A file that lost bytes has another length or time.
          version: inode.version + (bytes.equals(inode.bytes) ? 0 : 1),
        }
        copies.set(inode, copy)
        entries.set(name, copy)
      }
      disk.#directories.set(path, { entries, durable: new Map(entries) })
    }
    return disk
  }
}

function handle(
  inode: Inode,
  path: string,
  at: (operation: Operation, path: string) => Promise<Fault | undefined>,
  isLog = false,
): OpenFile {
  const sync = async (): Promise<void> => {
    if ((await at('sync', path))?.type !== 'lie') inode.durable = inode.bytes
  }
  return {
    write: async (bytes, offset) => {
      const fault = await at('write', path)
      const taken = fault?.type === 'short' ? bytes.subarray(0, Math.min(fault.bytes, bytes.length)) : bytes
      const end = Math.max(inode.bytes.length, offset + taken.length)
      let { room } = inode
      if (!room || offset < inode.bytes.length || end > room.length) {
        room = inode.room = Buffer.alloc(2 * end)
        inode.bytes.copy(room)
      }
      room.set(taken, offset)
      inode.bytes = room.subarray(0, end)
      inode.version++
      if (isLog) await sync()
      return taken.length
    },
    read: async (into, offset) => {
      await at('read', path)
      return offset >= inode.bytes.length ? 0 : inode.bytes.copy(into, 0, offset, offset + into.length)
    },
    size: async () => inode.bytes.length,
    truncate: async (size) => {
      await at('truncate', path)
      const bytes = Buffer.alloc(size)
      inode.bytes.copy(bytes)
      inode.bytes = bytes
      inode.room = undefined
      inode.version++
    },
    sync,
    close: async () => {},
  }
}

/** Each sector as it was last synced, or as it was written since; the size is that of one of the two, or between. */
function survivingBytes({ bytes, durable }: Inode, random: Random): Buffer {
  if (bytes.equals(durable)) return bytes
  const [least, most] = [Math.min(bytes.length, durable.length), Math.max(bytes.length, durable.length)]
  const size = random.chance(0.5) ? bytes.length : least + random.integer(most - least + 1)
  const surviving = Buffer.alloc(size)
  for (let offset = 0; offset < size; offset += SECTOR) {
    const source = random.chance(0.5) ? bytes : durable
    if (offset < source.length) source.copy(surviving, offset, offset, Math.min(offset + SECTOR, size))
  }
  // The bytes before the end of the synced ones were synced, and were not written again.
  durable.copy(surviving, 0, 0, commonPrefix(bytes, durable, size))
  return surviving
}

function commonPrefix(a: Buffer, b: Buffer, most: number): number {
  const end = Math.min(a.length, b.length, most)
  let at = 0
  while (at < end && a[at] === b[at]) at++
  return at
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}
