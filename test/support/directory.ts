import { rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What something made for a test goes away with: a test's context, or a file's `after` of node:test. */
export interface Scope {
  after(end: () => Promise<unknown>): void
}

const left = new Set<string>()
process.on('exit', () => {
  for (const path of left) rmSync(path, { recursive: true, force: true })
})

/**
 * A new directory that goes away with the test; at the latest with the process, as hooks run in the order in
 * which they were set and a server of the test's may still be writing when this one's turn comes.
 */
export async function temporaryDirectory(t: Scope): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'recollect-'))
  left.add(path)
  t.after(() =>
    rm(path, { recursive: true, force: true }).then(
      () => left.delete(path),
      () => {},
    ),
  )
  return path
}
