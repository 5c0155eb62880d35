import { type FileHandle, open } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'

/** The number of files that Node opens at a time while loading a package, and some more. */
const NEEDED = 8

/**
 * Loads a package on first use, and retries after a failure. Node caches a failed load for ever, so nothing is loaded
 * while descriptors are scarce.
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
