import type { FileContents } from '../collections/file-items.ts'
import { Malformed } from '../json/parse-steps.ts'
import { Refusal } from '../runtime/errors.ts'
import type { Slices } from '../runtime/time-slices.ts'
import { FileParser, whyInvalid } from './file-parser.ts'

/** Reads what a client sent in the form of a data file. All of its items are among the edited ones. Fails with `Invalid` as a file does. */
export async function contentsOfBody(bytes: Buffer, idField: string, slices: Slices): Promise<FileContents> {
  const reading = new FileParser({ base: new Map(), idField, slices, full: () => {} })
  try {
    for (let at = 0; at <= bytes.length; ) {
      const room = await reading.room(bytes.length - at)
      const part = bytes.subarray(at, at + room.length)
      room.set(part)
      reading.fed(part.length)
      // No bytes are the end.
      if (part.length === 0) break
      at += part.length
    }
    return await reading.contents()
  } catch (error) {
    const isInvalid = error instanceof Refusal && error.code === 'Invalid'
    if (!isInvalid && !(error instanceof Malformed)) throw error
    throw (await slices.run(() => whyInvalid([bytes], reading.place))) ?? error
  }
}
