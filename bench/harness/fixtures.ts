import { existsSync } from 'node:fs'
import { cp, mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { changes, creations, writeJournal } from './journal-text.ts'
import { COLLECTION, readings, sensorReadings, writeTexts } from './readings.ts'

/** The data of servers, made when first asked for, and kept for the run. */
export class Fixtures {
  readonly #directory: string
  #copies = 0

  constructor(directory: string) {
    this.#directory = directory
  }

  /** A reading a line. */
  lines(count: number): Promise<string> {
    return this.#made(`readings-${count}.ndjson`, (path) =>
      writeTexts(
        path,
        (function* () {
          for (const reading of readings(count)) yield `${JSON.stringify(reading)}\n`
        })(),
      ),
    )
  }

  /** A data file, `{"readings": […]}`. */
  dataFile(count: number): Promise<string> {
    return this.#made(`readings-${count}.json`, (path) =>
      writeTexts(
        path,
        (function* () {
          let before = `{"${COLLECTION}":[`
          for (const reading of readings(count)) {
            yield `${before}${JSON.stringify(reading)}`
            before = ','
          }
          yield ']}'
        })(),
      ),
    )
  }

  /** A journal that holds the creation of each of so many readings, as POSTs leave it. */
  journal(count: number): Promise<string> {
    return this.#made(`journal-${count}`, async (path) => {
      await mkdir(path)
      await writeJournal(path, creations(readings(count)))
    })
  }

  /** The same of so many readings of many sensors. */
  sensorJournal(count: number): Promise<string> {
    return this.#made(`sensor-journal-${count}`, async (path) => {
      await mkdir(path)
      await writeJournal(path, creations(sensorReadings(count)))
    })
  }

  /** A journal of so many readings, each of which was replaced `times` times. */
  changedJournal(count: number, times: number): Promise<string> {
    return this.#made(`changed-journal-${count}-${times}`, async (path) => {
      await mkdir(path)
      await writeJournal(path, changes(count, times))
    })
  }

  /** Where a peer keeps what it has made of so many readings, for every group that only reads them. */
  database(count: number): string {
    return join(this.#directory, `readings-${count}.db`)
  }

  /** A directory of one's own. */
  async directory(): Promise<string> {
    const path = join(this.#directory, `own-${this.#copies++}`)
    await mkdir(path)
    return path
  }

  /** The journal as a directory of one's own, that may be written to. */
  async ownJournal(count: number): Promise<string> {
    const path = join(await this.directory(), 'journal')
    await cp(await this.journal(count), path, { recursive: true })
    return path
  }

  async #made(name: string, make: (path: string) => Promise<void>): Promise<string> {
    const path = join(this.#directory, name)
    if (existsSync(path)) return path
    await rm(`${path}.tmp`, { recursive: true, force: true })
    await make(`${path}.tmp`)
    await rename(`${path}.tmp`, path)
    return path
  }
}
