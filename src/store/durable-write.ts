import { closeSync, existsSync, fsyncSync, openSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'

/** Writes text to a file durably, in place if it exists, so that it succeeds on a full disk. */
export function overwriteDurably(path: string, text: string): void {
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
