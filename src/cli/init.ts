import { journalExists } from '../events/directory.ts'
import { createFile, directoryOf, type Files } from '../files/files.ts'
import { Refusal } from '../runtime/errors.ts'
import { journalOf } from '../settings/settings.ts'

const SAMPLE = {
  posts: [
    { id: 1, title: 'Hello', author: 'anna', views: 100 },
    { id: 2, title: 'What changed since', author: 'miranda', views: 200 },
  ],
  comments: [
    { id: 1, postId: 1, body: 'A first comment' },
    { id: 2, postId: 1, body: 'A second one' },
  ],
}

/**
 * Writes a sample data file.
 * @throws {Refusal} when the file or its journal exists.
 */
export async function init(files: Files, path: string): Promise<void> {
  if (await files.stat(path)) throw new Refusal('Conflict', `${path} exists already. It is not overwritten.`)
  const journal = journalOf(path)
  if (await journalExists(files, journal)) {
    throw new Refusal(
      'Conflict',
      `${journal} is the journal of ${path}: recollect ${path} writes the file again from it.`,
    )
  }
  await files.makeDirectory(directoryOf(path))
  await createFile(files, path, [Buffer.from(`${JSON.stringify(SAMPLE, null, 2)}\n`)])
}
