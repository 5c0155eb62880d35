// Nothing but node:http: what one Node process can do at most.
import { createServer } from 'node:http'
import { bodyOf, openStore } from './store.mjs'

const [lines, log] = process.argv.slice(2)
const store = await openStore(lines, log)
const PREFIX = '/api/readings/'

const server = createServer((request, response) => {
  const { method, url } = request
  if (method === 'GET') {
    const bytes = store.get(url.slice(PREFIX.length))
    if (!bytes) return void response.writeHead(404).end()
    response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': bytes.length })
    response.end(bytes)
    return
  }
  bodyOf(request).then(async (body) => {
    const id = method === 'POST' ? store.nextId() : Number(url.slice(PREFIX.length))
    await store.put(String(id), { id, ...body })
    if (method === 'PUT') return void response.writeHead(204).end()
    const answer = JSON.stringify({ id })
    response.writeHead(201, {
      Location: PREFIX + id,
      'Content-Type': 'application/json',
      'Content-Length': Buffer.byteLength(answer),
    })
    response.end(answer)
  })
})
server.listen(0, '127.0.0.1', () => console.log(`listens on http://127.0.0.1:${server.address().port}`))
process.on('SIGTERM', () => process.exit(0))
