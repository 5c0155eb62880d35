/** `<directory> <writers> <seconds>`: the file journal and nothing else; says how many records it made durable a second. */

import { randomUUID } from 'node:crypto'
import { pino } from 'pino'
import { FileJournal } from '../../src/events/file-journal.ts'
import { nodeFiles } from '../../src/files/node-files.ts'
import { Document } from '../../src/json/document.ts'
import { LimitedLog } from '../../src/runtime/limited-log.ts'
import { bodies, COLLECTION } from './readings.ts'

const [directory = '', writers, seconds] = process.argv.slice(2)
const journal = await FileJournal.open({
  files: nodeFiles,
  directory,
  now: () => new Date(),
  log: new LimitedLog(pino({ level: 'silent' }), () => 0),
  newId: randomUUID,
  segmentBytes: 64 * 1024 * 1024,
  failed: (error) => {
    throw error
  },
})
const items = bodies(1000).map((body) => new Document(body))
let next = 1
const timesUs: number[] = []
let ending = false

async function write(): Promise<void> {
  while (!ending) {
    const item = items[next % items.length]
    if (!item) return
    const began = performance.now()
    const expected = next++
    const event = { type: 'ItemCreated', collection: COLLECTION, id: expected, revision: 1, prior: 0, item } as const
    await journal.append({ expected, actor: 'bench', requestId: 'r', events: [event] })
    timesUs.push((performance.now() - began) * 1000)
  }
}

const writing = Array.from({ length: Number(writers) }, write)
// The first of them is for warming up.
await new Promise((resolve) => setTimeout(resolve, 500))
timesUs.length = 0
const began = performance.now()
await new Promise((resolve) => setTimeout(resolve, Number(seconds) * 1000))
const rate = timesUs.length / ((performance.now() - began) / 1000)
const p50Us = timesUs.toSorted((a, b) => a - b)[timesUs.length >> 1]
ending = true
await Promise.all(writing)
await journal.close()
process.stdout.write(JSON.stringify({ rate, p50Us }))
