// @ts-check
// Readings on their way to the server, in files of a directory, so that neither an outage nor a crash loses one.
//
//   open.ndjson              readings are appended to it
//   <time>-<uuid>.ndjson     a closed batch: it does not change any more, and its name is its Idempotency-Key
//   rejected.ndjson          readings that the server will not have, each with the reason
//   <name>.refused           a batch that was refused as a whole
import { randomUUID } from 'node:crypto'
import { appendFile, mkdir, open, readdir, readFile, rename, unlink } from 'node:fs/promises'
import { join } from 'node:path'

const OPEN = 'open.ndjson'
const BATCH = /^\d+-[0-9a-f-]{36}\.ndjson$/
/** The server takes 10,000 readings at a time (Limits.BatchItems). */
const BATCH_READINGS = 5000
const ANSWER_WITHIN_MS = 60_000

/** The server cannot take a batch now: it is to be sent again later. */
export class NotNow extends Error {
  /**
   * @param {string} reason
   * @param {number} [afterSeconds] what the server asks to wait
   */
  constructor(reason, afterSeconds = 0) {
    super(reason)
    this.afterSeconds = afterSeconds
  }
}

export class Outbox {
  #directory
  #url
  #headers
  /** @type {import('node:fs/promises').FileHandle | undefined} */
  #open
  #readings = 0
  /** One file operation at a time. @type {Promise<unknown>} */
  #last = Promise.resolve()
  sent = 0
  rejected = 0

  /**
   * @param {string} directory
   * @param {{ url: string, apiKey: string | undefined }} options url: of the collection
   */
  constructor(directory, { url, apiKey }) {
    this.#directory = directory
    this.#url = url
    this.#headers = {
      'Content-Type': 'application/x-ndjson',
      // One reading that the server will not have does not keep the others back.
      Prefer: 'handling=lenient',
      ...(apiKey !== undefined && { 'X-API-KEY': apiKey }),
    }
  }

  /** Takes over what an earlier run left. */
  async start() {
    await mkdir(this.#directory, { recursive: true })
    if ((await readdir(this.#directory)).includes(OPEN)) await this.#renameOpen()
  }

  /**
   * Resolves when the readings are on the disk.
   * @param {readonly object[]} readings
   */
  add(readings) {
    return this.#inTurn(async () => {
      this.#open ??= await open(join(this.#directory, OPEN), 'a')
      await this.#open.appendFile(readings.map((reading) => `${JSON.stringify(reading)}\n`).join(''))
      await this.#open.datasync()
      this.#readings += readings.length
      if (this.#readings >= BATCH_READINGS) await this.#close()
    })
  }

  /**
   * Sends all readings, the oldest first.
   * @throws {NotNow} when the server cannot take them: they stay
   */
  async send() {
    await this.#inTurn(() => this.#close())
    const batches = (await readdir(this.#directory)).filter((name) => BATCH.test(name))
    for (const name of batches.sort()) await this.#sendBatch(name)
  }

  /** @param {string} name */
  async #sendBatch(name) {
    const file = join(this.#directory, name)
    const body = await readFile(file)
    if (body.length === 0) return unlink(file)
    const response = await this.#post(body, name)
    if (response.status === 200) {
      const { results } = /** @type {{ results: { status: string, problem?: unknown }[] }} */ (await bodyOf(response))
      const lines = body.toString().split('\n')
      const rejected = results.flatMap(({ status, problem }, at) =>
        status === 'rejected' ? [`${JSON.stringify({ reading: lines[at], problem })}\n`] : [],
      )
      if (rejected.length > 0) await appendFile(join(this.#directory, 'rejected.ndjson'), rejected.join(''))
      // A duplicate is there already: an earlier try has brought it.
      this.sent += results.length - rejected.length
      this.rejected += rejected.length
      await unlink(file)
    } else if (response.status >= 500 || [401, 403, 408, 425, 429].includes(response.status)) {
      throw new NotNow(`The server answered with ${response.status}.`, Number(response.headers.get('Retry-After')) || 0)
    } else {
      console.error(`The batch ${name} was refused with ${response.status}: ${JSON.stringify(await bodyOf(response))}`)
      await rename(file, `${file}.refused`)
    }
  }

  /**
   * @param {Buffer} body
   * @param {string} name
   */
  async #post(body, name) {
    try {
      return await fetch(this.#url, {
        method: 'POST',
        // A batch whose answer was lost is sent again with the same key, and stored once.
        headers: { ...this.#headers, 'Idempotency-Key': name },
        body: new Uint8Array(body),
        signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
      })
    } catch (error) {
      throw new NotNow(reasonOf(error))
    }
  }

  async #close() {
    if (!this.#open) return
    await this.#open.close()
    this.#open = undefined
    this.#readings = 0
    await this.#renameOpen()
  }

  async #renameOpen() {
    const name = `${String(Date.now()).padStart(15, '0')}-${randomUUID()}.ndjson`
    await rename(join(this.#directory, OPEN), join(this.#directory, name))
    const directory = await open(this.#directory)
    await directory.sync()
    await directory.close()
  }

  /**
   * @template T
   * @param {() => Promise<T>} work
   * @returns {Promise<T>}
   */
  #inTurn(work) {
    const done = this.#last.then(work)
    this.#last = done.catch(() => {})
    return done
  }
}

/** @param {Response} response */
async function bodyOf(response) {
  try {
    return await response.json()
  } catch (error) {
    // The connection ended in the middle of the answer.
    throw new NotNow(reasonOf(error))
  }
}

/** @param {unknown} error */
function reasonOf(error) {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}
