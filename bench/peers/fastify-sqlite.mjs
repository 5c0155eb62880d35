// Fastify with better-sqlite3: a table of JSON texts, write-ahead log, every write synced (synchronous FULL).
import { createReadStream, existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import Database from 'better-sqlite3'
import Fastify from 'fastify'

const [lines, path] = process.argv.slice(2)
const isNew = !existsSync(path)
const db = new Database(path)
db.pragma('journal_mode = WAL')
db.pragma('synchronous = FULL')
db.pragma('cache_size = -1000000')
db.pragma('mmap_size = 2000000000')
if (isNew) {
  db.exec('CREATE TABLE readings (id INTEGER PRIMARY KEY, body TEXT NOT NULL)')
  const insert = db.prepare('INSERT INTO readings (id, body) VALUES (?, ?)')
  db.exec('BEGIN')
  for await (const line of createInterface({ input: createReadStream(lines) })) insert.run(JSON.parse(line).id, line)
  db.exec('COMMIT')
  db.exec(`
    CREATE INDEX by_number ON readings (body ->> '$.data.measurement_sequence_number');
    CREATE INDEX by_time ON readings (body ->> '$.timestamp');
    ANALYZE;
  `)
}

const one = db.prepare('SELECT body FROM readings WHERE id = ?').pluck()
const page = db.prepare('SELECT body FROM readings ORDER BY id LIMIT 20 OFFSET ?').pluck()
const equal = db
  .prepare("SELECT body FROM readings WHERE body ->> '$.data.measurement_sequence_number' = ? LIMIT 512")
  .pluck()
const later = db
  .prepare(
    "SELECT body FROM readings WHERE body ->> '$.timestamp' > ? ORDER BY body ->> '$.timestamp' DESC LIMIT 20 OFFSET ?",
  )
  .pluck()
const insert = db.prepare(
  "INSERT INTO readings (body) VALUES (json_set(?, '$.id', (SELECT coalesce(max(id), -1) + 1 FROM readings)))",
)
/** As many as a batch brings, in one transaction; with it come the compound index and the unique key that batches are measured with. */
let insertAll
function batchInsert() {
  db.exec(`CREATE INDEX IF NOT EXISTS by_sensor
    ON readings (body ->> '$.mac', body ->> '$.timestamp', body ->> '$.data.temperature')`)
  db.exec("CREATE UNIQUE INDEX IF NOT EXISTS by_key ON readings (body ->> '$.mac', body ->> '$.timestamp')")
  return db.transaction((bodies) => bodies.map((body) => Number(insert.run(JSON.stringify(body)).lastInsertRowid)))
}
const replace = db.prepare('UPDATE readings SET body = ? WHERE id = ?')

const app = Fastify({ bodyLimit: 10 * 1024 * 1024 })
const JSON_TYPE = 'application/json'
app.get('/api/readings/:id', (request, reply) => {
  const body = one.get(Number(request.params.id))
  if (body === undefined) return reply.code(404).send()
  return reply.type(JSON_TYPE).send(body)
})
app.get('/api/readings', (request, reply) => {
  const { page: number, pageSize, timestamp_gt: after, ...filters } = request.query
  const offset = (Number(number ?? 1) - 1) * Number(pageSize ?? 20)
  const [field] = Object.keys(filters).filter((name) => name.startsWith('data.'))
  let bodies
  if (field === 'data.measurement_sequence_number') bodies = equal.all(Number(filters[field]))
  else if (field !== undefined) {
    bodies = db
      .prepare(`SELECT body FROM readings WHERE body ->> '$.${field}' = ? LIMIT 512`)
      .pluck()
      .all(Number(filters[field]))
  } else if (after !== undefined) bodies = later.all(after, offset)
  else bodies = page.all(offset)
  return reply.type(JSON_TYPE).send(`[${bodies.join(',')}]`)
})
app.post('/api/readings', (request, reply) => {
  if (Array.isArray(request.body)) {
    insertAll ??= batchInsert()
    return reply.code(201).send(insertAll(request.body))
  }
  const { lastInsertRowid } = insert.run(JSON.stringify(request.body))
  const id = Number(lastInsertRowid)
  return reply.code(201).header('Location', `/api/readings/${id}`).send({ id })
})
app.put('/api/readings/:id', (request, reply) => {
  const id = Number(request.params.id)
  const { changes } = replace.run(JSON.stringify({ id, ...request.body }), id)
  return reply.code(changes === 1 ? 204 : 404).send()
})
await app.listen({ host: '127.0.0.1', port: 0 })
console.log(`listens on http://127.0.0.1:${app.server.address().port}`)
process.on('SIGTERM', () => process.exit(0))
