import { type FileHandle, open } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

/** The files that Node opens at a time while it loads a package, and some more. */
const NEEDED = 8

/**
 * Loads a package when it is first used. A failure is not remembered. Node itself remembers one, and would never load that
 * package again, so nothing is loaded while there are too few descriptors.
 */
export function onFirstUse<T>(load: () => Promise<T>): () => Promise<T> {
  let loading: Promise<T> | undefined
  return () => {
    loading ??= checkDescriptors()
      .then(load)
      .catch((error: unknown) => {
        loading = undefined
        throw error
      })
    return loading
  }
}

async function checkDescriptors(): Promise<void> {
  const handles: FileHandle[] = []
  try {
    for (let count = 0; count < NEEDED; count++) handles.push(await open(fileURLToPath(import.meta.url)))
  } finally {
    for (const handle of handles) await handle.close()
  }
}
