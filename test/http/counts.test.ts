import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { Random, SEED } from '../support/random.ts'
import { send, sendJson } from '../support/requests.ts'
import { startServer } from '../support/service.ts'

test('counts have the names in the order of /api, and null for a single object', async (t) => {
  const { url } = await startServer(t, { data: { posts: [{ id: 1 }, { id: 2 }], profile: { a: 1 } } })
  assert.equal((await send(url, 'PUT', '/api/7')).status, 201)
  const reply = await send(url, 'GET', '/api?count=true')
  assert.equal(reply.text, '{"posts":2,"profile":null,"7":0}')
  const { position } = (await send(url, 'GET', '/health')).json<{ position: number }>()
  assert.equal(reply.headers['journal-position'], String(position))
  const headers = { 'If-None-Match': String(reply.headers.etag) }
  assert.equal((await send(url, 'GET', '/api?count=true', { headers })).status, 304)
  await sendJson(url, 'POST', '/api/posts', {})
  assert.match((await send(url, 'GET', '/api?count=true', { headers })).text, /"posts":3/)
  assert.deepEqual((await send(url, 'GET', '/api?count=false')).json(), ['posts', 'profile', '7'])
  for (const wrong of ['count=yes', 'count=true&count=true', 'counts=true']) {
    assert.equal((await send(url, 'GET', `/api?${wrong}`)).status, 400, wrong)
  }
})

test('counts of any position are those that were there, after random writes, edits and reorderings', async (t) => {
  const { url, file } = await startServer(t, { data: { a: [{ id: 1 }, { id: 2 }], profile: { n: 1 } } })
  const random = new Random(SEED)
  const known = new Map<string, string>()
  const note = async (): Promise<void> => {
    const reply = await send(url, 'GET', '/api?count=true')
    known.set(String(reply.headers['journal-position']), reply.text)
  }
  const name = () => random.pick(['a', 'b', 'c'])
  const edit = async (): Promise<void> => {
    assert.equal((await send(url, 'POST', '/admin/snapshot')).status, 200)
    // Among others, the object becomes a collection and a collection an object, and the order changes.
    const value = () =>
      random.chance(0.4)
        ? { n: random.integer(9) }
        : [{ id: random.integer(9) }, { id: 'x' }, { id: 'y' }].slice(random.integer(3)).reverse()
    await writeFile(file, JSON.stringify({ a: value(), b: value(), profile: value() }))
    assert.equal((await send(url, 'POST', '/admin/reload')).status, 200)
  }
  for (let step = 0; step < 150; step++) {
    const kind = random.integer(10)
    if (kind === 0) await edit()
    else if (kind <= 5) await sendJson(url, 'POST', `/api/${name()}`, { n: step })
    else if (kind <= 7) await sendJson(url, 'PATCH', `/api/${name()}/${random.integer(12)}`, { n: step })
    else if (kind === 8) await send(url, 'DELETE', `/api/${name()}/${random.integer(12)}`)
    else await send(url, 'DELETE', `/api/${random.pick(['a?n_lt=90', 'b?all=true', 'profile'])}`)
    await note()
  }
  assert.ok(known.size > 60, `${known.size} positions`)
  for (const [position, counts] of known) {
    assert.equal((await send(url, 'GET', `/api?count=true&asOf=${position}`)).text, counts, position)
  }
})
