// json-server as its own command line starts it, on a port that is free.
import { mkdirSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname } from 'node:path'

const [file] = process.argv.slice(2)
// In production it does not start without a directory of static files.
process.chdir(dirname(file))
mkdirSync('public', { recursive: true })
const probe = createServer()
await new Promise((resolve) => probe.listen(0, '127.0.0.1', resolve))
const { port } = probe.address()
await new Promise((resolve) => probe.close(resolve))
process.argv = [process.argv[0], 'json-server', file, '--port', String(port), '--host', '127.0.0.1']
process.on('SIGTERM', () => process.exit(0))
await import('../node_modules/json-server/lib/bin.js')
for (;;) {
  const answer = await fetch(`http://127.0.0.1:${port}/readings/0`).catch(() => undefined)
  if (answer?.ok) break
  await new Promise((resolve) => setTimeout(resolve, 50))
}
console.log(`listens on http://127.0.0.1:${port}`)
