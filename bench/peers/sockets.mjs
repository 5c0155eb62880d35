// Tells 1,000 clients of every durable POST, in one of three ways: `ws` (each client is sent the text), `framed` (the
// frame is made once, and written to each socket), `socket.io` (as its users do). POST /burst?n= tells of n at once.
import { createServer } from 'node:http'
import { Server } from 'socket.io'
import { Sender, WebSocketServer } from 'ws'
import { bodyOf, openStore } from './store.mjs'

const [way, lines, log] = process.argv.slice(2)
const store = await openStore(lines, log)
const server = createServer((request, response) => {
  const burst = /^\/burst\?n=(\d+)$/.exec(request.url)
  if (burst) {
    for (let position = 0; position < Number(burst[1]); position++) tell({ method: 'POST', position })
    response.writeHead(204).end()
    return
  }
  if (request.url.startsWith('/socket.io')) return
  if (request.method !== 'POST') return void response.writeHead(404).end()
  bodyOf(request).then(async (body) => {
    const id = store.nextId()
    await store.put(String(id), { id, ...body })
    const answer = JSON.stringify({ id })
    response.writeHead(201, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(answer) })
    response.end(answer)
    tell({ method: 'POST', path: `/api/readings/${id}`, collection: 'readings', itemId: id, position: id + 1 })
  })
})

function tellBy() {
  if (way === 'socket.io') {
    const io = new Server(server)
    return (updated) => io.emit('updated', updated)
  }
  const { clients } = new WebSocketServer({ server, path: '/ws' })
  if (way === 'ws') {
    return (updated) => {
      const text = JSON.stringify(updated)
      for (const client of clients) client.send(text)
    }
  }
  const options = { fin: true, opcode: 1, mask: false, rsv1: false, readOnly: false }
  return (updated) => {
    const frame = Buffer.concat(Sender.frame(Buffer.from(JSON.stringify(updated)), options))
    for (const { _socket: socket } of clients) socket.write(frame)
  }
}

const tell = tellBy()
server.listen(0, '127.0.0.1', () => console.log(`listens on http://127.0.0.1:${server.address().port}`))
process.on('SIGTERM', () => process.exit(0))
