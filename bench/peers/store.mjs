// What bare node:http and Koa serve alike: items as bytes that were encoded once, and writes that are durable, with
// group commit: all that arrives while a sync is running shares the next one.
import { readFileSync } from 'node:fs'
import { open } from 'node:fs/promises'

export async function openStore(lines, log) {
  const items = new Map()
  let next = 0
  for (const line of readFileSync(lines, 'utf8').split('\n')) {
    if (line === '') continue
    const { id } = JSON.parse(line)
    items.set(String(id), Buffer.from(line))
    next = Math.max(next, id + 1)
  }
  const file = await open(log, 'a')
  let waiting = []
  let flushing = false

  async function flush() {
    flushing = true
    await new Promise((resolve) => setImmediate(resolve))
    while (waiting.length > 0) {
      const batch = waiting
      waiting = []
      await file.write(Buffer.concat(batch.flatMap(({ bytes }) => [bytes, NEWLINE])))
      await file.datasync()
      for (const { key, bytes, resolve } of batch) {
        items.set(key, bytes)
        resolve()
      }
    }
    flushing = false
  }

  return {
    get: (key) => items.get(key),
    nextId: () => next++,
    /** Resolves when the item is on the disk, and read. */
    put(key, item) {
      const bytes = Buffer.from(JSON.stringify(item))
      return new Promise((resolve) => {
        waiting.push({ key, bytes, resolve })
        if (!flushing) flush()
      })
    },
  }
}

const NEWLINE = Buffer.from('\n')

/** Never resolves when the client disconnects: nobody waits for the response. */
export function bodyOf(request) {
  return new Promise((resolve) => {
    const chunks = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', () => resolve(JSON.parse((chunks.length === 1 ? chunks[0] : Buffer.concat(chunks)).toString())))
    request.on('error', () => {})
  })
}
