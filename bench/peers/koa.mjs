// Koa and @koa/router, and nothing else on the way.
import Router from '@koa/router'
import Koa from 'koa'
import { bodyOf, openStore } from './store.mjs'

const [lines, log] = process.argv.slice(2)
const store = await openStore(lines, log)
const router = new Router()
router.get('/api/readings/:id', (ctx) => {
  const bytes = store.get(ctx.params.id)
  if (!bytes) return
  ctx.type = 'application/json'
  ctx.body = bytes
})
router.post('/api/readings', async (ctx) => {
  const id = store.nextId()
  await store.put(String(id), { id, ...(await bodyOf(ctx.req)) })
  ctx.status = 201
  ctx.set('Location', `/api/readings/${id}`)
  ctx.body = { id }
})
router.put('/api/readings/:id', async (ctx) => {
  const { id } = ctx.params
  await store.put(id, { id: Number(id), ...(await bodyOf(ctx.req)) })
  ctx.status = 204
})
const app = new Koa()
app.use(router.routes())
const server = app.listen(0, '127.0.0.1', () => console.log(`listens on http://127.0.0.1:${server.address().port}`))
process.on('SIGTERM', () => process.exit(0))
