import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FileEngine } from '../../src/engine/file-engine.ts'
import type { Files } from '../../src/files/files.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { type Scope, temporaryDirectory } from './directory.ts'

const ITEMS = 20
const TEXT = 'x'.repeat(64 * 1024)

/** Items that make a data file of 1.25 MiB, which is too large to be written whenever it is behind. */
export const LARGE = { a: Array.from({ length: ITEMS }, (_, id) => ({ id, n: 0, text: TEXT })) }

/** A data file on the real disk: where it is, as settings. */
export async function largeFile(t: Scope): Promise<{ readonly file: string; readonly journal: string }> {
  const directory = await temporaryDirectory(t)
  const [file, journal] = [join(directory, 'db.json'), join(directory, 'db.journal')]
  await mkdir(directory, { recursive: true })
  await writeFile(file, `${JSON.stringify(LARGE, null, 2)}\n`)
  return { file, journal }
}

/** Replaces an item by one as long. */
export async function replaceItem(engine: FileEngine, key: number, n: number): Promise<void> {
  const command = { type: 'ReplaceItem', collection: 'a', key: String(key), item: { n, text: TEXT } } as const
  await engine.handler.handle(command, { actor: 'client', requestId: 'r' })
}

/** The real disk, and how often and with how many bytes a new data file was written. */
export function countedFiles(written: (bytes: number) => void | Promise<void> = () => {}): Files & {
  readonly count: { files: number; bytes: number }
} {
  const count = { files: 0, bytes: 0 }
  return {
    ...nodeFiles,
    count,
    async open(path, how, mode) {
      const file = await nodeFiles.open(path, how, mode)
      if (how !== 'create' || !path.endsWith('.json.recollect.new')) return file
      count.files++
      return {
        ...file,
        async write(bytes, offset) {
          await written(bytes.length)
          const taken = await file.write(bytes, offset)
          count.bytes += taken
          return taken
        },
      }
    },
  }
}
