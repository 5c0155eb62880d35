import fs from 'node:fs'
import { link, mkdir, open, readdir, readFile, readlink, rename, rm, stat } from 'node:fs/promises'
import { platform } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { swap, tryLock, unlock } from 'fs-native-extensions'
import type { FileStat, Files, OpenFile } from './files.ts'

const write = promisify(fs.write)
const read = promisify(fs.read)
const fdatasync = promisify(fs.fdatasync)
const ftruncate = promisify(fs.ftruncate)
const fstat = promisify(fs.fstat)
const close = promisify(fs.close)
const fchmod = promisify(fs.fchmod)
const openFd = promisify(fs.open)

/** Linux only: on other systems O_DSYNC may leave the bytes in the cache of the disk. */
const SYNCED = platform() === 'linux' ? fs.constants.O_DSYNC : undefined
const FLAGS = { read: 'r', edit: 'r+', log: SYNCED === undefined ? 'r+' : fs.constants.O_RDWR | SYNCED, create: 'wx+' }

/** New files and directories are accessible to the owner only. */
const OWNER_ONLY = 0o600
const OWNER_ONLY_DIRECTORY = 0o700

/** The real file system: a thin layer over node:fs. */
export const nodeFiles: Files = {
  async open(path, how, mode) {
    const fd = await openFd(path, FLAGS[how], mode ?? OWNER_ONLY)
    // `open` applies the umask to the mode; fchmod does not.
    if (mode !== undefined) await fchmod(fd, mode)
    return how === 'log' && SYNCED === undefined ? syncing(openFile(fd)) : openFile(fd)
  },
  read: (path) => unlessMissing(readFile(path)),
  stat: async (path) => {
    const found = await unlessMissing(stat(path, { bigint: true }))
    if (!found) return undefined
    return {
      size: Number(found.size),
      signature: `${found.dev}:${found.ino}:${found.size}:${found.mtimeNs}`,
      mode: Number(found.mode) & 0o7777,
      isFile: found.isFile(),
    } satisfies FileStat
  },
  list: async (directory) => (await unlessMissing(readdir(directory))) ?? [],
  async makeDirectory(path) {
    const first = await mkdir(path, { recursive: true, mode: OWNER_ONLY_DIRECTORY }).catch((error) => {
      // In a read-only file system `recursive` reports ENOENT. Without it the reason is reported.
      if (error.code !== 'ENOENT') throw error
      return mkdir(path, OWNER_ONLY_DIRECTORY).then(() => path)
    })
    if (first === undefined) return
    for (let made = path; made.length >= first.length; made = dirname(made)) await syncDirectory(dirname(made))
  },
  rename,
  async exchange(one, other) {
    try {
      await swap(one, other)
      return true
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'EINVAL' || code === 'ENOSYS' || code === 'ENOTSUP') return false
      throw error
    }
  },
  remove: (path) => rm(path),
  async link(from, to) {
    try {
      await link(from, to)
      return true
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'EXDEV' || code === 'EPERM' || code === 'ENOTSUP' || code === 'EMLINK') return false
      throw error
    }
  },
  syncDirectory,
  follow,
  async lock(path) {
    const fd = await openFd(path, 'a+', OWNER_ONLY)
    if (!tryLock(fd)) {
      await close(fd)
      return undefined
    }
    return {
      async release() {
        unlock(fd)
        await close(fd)
      },
    }
  },
}

function openFile(fd: number): OpenFile {
  return {
    write: async (bytes, offset) => (await write(fd, bytes, 0, bytes.length, offset)).bytesWritten,
    read: async (into, offset) => (await read(fd, into, 0, into.length, offset)).bytesRead,
    size: async () => (await fstat(fd)).size,
    truncate: (size) => ftruncate(fd, size),
    sync: () => fdatasync(fd),
    close: () => close(fd),
  }
}

function syncing(file: OpenFile): OpenFile {
  return {
    ...file,
    async write(bytes, offset) {
      const written = await file.write(bytes, offset)
      await file.sync()
      return written
    },
  }
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, 'r')
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

/** Linux follows at most 40 symbolic links. */
const MOST_LINKS = 40

/** Reads one link after the other: `realpath` fails for a dangling link. */
async function follow(path: string): Promise<string> {
  let links = 0
  // Invariant: `target` has no symbolic links, and `names` lead from it to the file.
  let target = '/'
  const names = resolve(path).split('/')
  for (let name = names.shift(); name !== undefined; name = names.shift()) {
    const next = join(target, name)
    const link = name === '' || name === '.' || name === '..' ? undefined : await linkAt(next)
    if (link === undefined) {
      target = next
      continue
    }
    if (++links > MOST_LINKS) {
      throw Object.assign(new Error(`ELOOP: too many symbolic links, ${path}`), { code: 'ELOOP' })
    }
    if (link.startsWith('/')) target = '/'
    names.unshift(...link.split('/'))
  }
  return target
}

/** Where a symbolic link leads; undefined for anything else. */
async function linkAt(path: string): Promise<string | undefined> {
  try {
    return await unlessMissing(readlink(path))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EINVAL') return undefined
    throw error
  }
}

async function unlessMissing<T>(found: Promise<T>): Promise<T | undefined> {
  try {
    return await found
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined
    throw error
  }
}
