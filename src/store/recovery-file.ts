import { closeSync, existsSync, fdatasyncSync, fsyncSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { crc32 } from 'node:zlib'

/** The commit of a database from which the next start continues; it was synced, and none of its pages is written to. */
export interface RecoveryPoint {
  /** The format of the store. */
  readonly format: number
  /** The name of the database file. */
  readonly file: string
  /** The meta page of the commit, in hexadecimal. */
  readonly meta: string
  /** The size that the file had when it was synced; it never shrinks. */
  readonly bytes: number
  /** The boot id of the system, if it is known. */
  readonly boot?: string | undefined
  /** How many processes in a row ended, without closing the store, soon after they had opened it. */
  readonly ended: number
  /** Modification time in ms since 1970, if the store is closed: another program that changes the file changes it. */
  readonly writtenMs?: number | undefined
  /** The reason why the store must not be used again. */
  readonly doubt?: string | undefined
}

/** Fixed size of a copy, which is padded with blanks: the largest sector. */
const COPY_BYTES = 4096
const COPIES = [0, 1] as const
const CRC_DIGITS = 8

/**
 * Holds a recovery point twice, so that an interrupted write or a damaged sector leaves a valid copy. Written in place,
 * so that it can be written on a full disk.
 */
export class RecoveryFile {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  /** The first valid copy; undefined if there is none. */
  read(): RecoveryPoint | undefined {
    if (!existsSync(this.#path)) return undefined
    const text = readFileSync(this.#path, 'latin1')
    for (const copy of COPIES) {
      const crc = text.slice(copy * COPY_BYTES, copy * COPY_BYTES + CRC_DIGITS)
      const json = text.slice(copy * COPY_BYTES + CRC_DIGITS, (copy + 1) * COPY_BYTES)
      if (json !== '' && crc === crcOf(json)) return JSON.parse(json) as RecoveryPoint
    }
    return undefined
  }

  /** Durable when it resolves. */
  async write(point: RecoveryPoint): Promise<void> {
    const bytes = copyOf(point)
    const isNew = !existsSync(this.#path)
    const file = await open(this.#path, isNew ? 'w' : 'r+', 0o600)
    try {
      for (const copy of COPIES) {
        await file.write(bytes, 0, COPY_BYTES, copy * COPY_BYTES)
        await file.datasync()
      }
    } finally {
      await file.close()
    }
    if (isNew) synchronize(dirname(this.#path))
  }

  /** Durable when it returns. */
  writeSync(point: RecoveryPoint): void {
    const bytes = copyOf(point)
    const isNew = !existsSync(this.#path)
    const file = openSync(this.#path, isNew ? 'w' : 'r+', 0o600)
    try {
      for (const copy of COPIES) {
        writeSync(file, bytes, 0, COPY_BYTES, copy * COPY_BYTES)
        fdatasyncSync(file)
      }
    } finally {
      closeSync(file)
    }
    if (isNew) synchronize(dirname(this.#path))
  }

  /** Durable when it returns. */
  remove(): void {
    if (!existsSync(this.#path)) return
    rmSync(this.#path)
    synchronize(dirname(this.#path))
  }
}

/** Returns when what was written to a file, or what was created and removed in a directory, is on the medium. */
export function synchronize(path: string): void {
  const file = openSync(path, 'r')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}

function copyOf(point: RecoveryPoint): Buffer {
  const json = JSON.stringify(point).padEnd(COPY_BYTES - CRC_DIGITS)
  return Buffer.from(crcOf(json) + json, 'latin1')
}

function crcOf(json: string): string {
  return crc32(Buffer.from(json, 'latin1')).toString(16).padStart(CRC_DIGITS, '0')
}
