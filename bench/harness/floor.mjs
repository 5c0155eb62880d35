// `replay <directory>` or `parsed <lines>`: the least that a start, and items in memory, cost in one Node thread.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'

const PREFIX_BYTES = '{"frame":"'.length + 24 + 2
const NEWLINE = 0x0a
const [what, path] = process.argv.slice(2)
const items = new Map()

if (what === 'replay') {
  const segments = readdirSync(path).filter((name) => name.endsWith('.ndjson'))
  for (const segment of segments.sort()) {
    const bytes = readFileSync(join(path, segment))
    for (let start = bytes.indexOf(NEWLINE) + 1; start < bytes.length; ) {
      const end = bytes.indexOf(NEWLINE, start)
      const crc = Number.parseInt(bytes.latin1Slice(start + 10, start + 18), 16)
      if (crc32(bytes.subarray(start + PREFIX_BYTES, end)) !== crc) throw new Error(`damaged at ${start} of ${segment}`)
      for (const { id, item } of JSON.parse(bytes.utf8Slice(start, end)).events) if (item) items.set(id, item)
      start = end + 1
    }
  }
  console.log(JSON.stringify({ items: items.size }))
} else {
  const bytes = readFileSync(path)
  globalThis.gc()
  const before = process.memoryUsage().heapUsed
  for (let start = 0; start < bytes.length; ) {
    const end = bytes.indexOf(NEWLINE, start)
    const item = JSON.parse(bytes.utf8Slice(start, end))
    items.set(item.id, item)
    start = end + 1
  }
  globalThis.gc()
  console.log(JSON.stringify({ items: items.size, heapBytes: process.memoryUsage().heapUsed - before }))
}
