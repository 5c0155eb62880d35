import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { test } from 'node:test'
import { connect } from '../../src/client/index.ts'
import { until, within } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { send, sendJson } from '../support/requests.ts'
import { startHere } from '../support/service.ts'

const FLAGS = ['--DataStore.IdField', 'key', '--Common.EagerDataReload', 'true', '--Api.UpsertOnPut', 'true']
const DATA = {
  users: [
    { key: 1, name: 'Ann', id: 'a', friends: [{ key: 7, name: 'Bob' }] },
    { name: 'no key', id: 'a' },
    { key: 'x', name: 'Cid' },
  ],
}

const start = (t: Parameters<typeof startHere>[0]) => startHere(t, { flags: FLAGS, data: DATA })

test('items have their ids in the configured field, and `id` is an ordinary field', async (t) => {
  const { url } = await start(t)
  const get = async (path: string) => (await send(url, 'GET', path)).json<Record<string, unknown>>()
  assert.deepEqual((await get('/api/users/2')).name, 'no key')
  const made = await sendJson(url, 'POST', '/api/users', { name: 'Dan', key: 99, id: 'own' })
  assert.deepEqual([made.json(), made.headers.location], [{ key: 3 }, '/api/users/3'])
  assert.deepEqual(await get('/api/users/3'), { name: 'Dan', key: 3, id: 'own' })
  assert.deepEqual((await sendJson(url, 'PUT', '/api/users/9', { name: 'Eve' })).json(), { key: '9' })
  assert.deepEqual(await get('/api/users/9'), { key: '9', name: 'Eve' })
  assert.equal((await sendJson(url, 'PUT', '/api/users/9', { key: 8 })).status, 409)
  assert.equal((await sendJson(url, 'PATCH', '/api/users/9', { key: null })).status, 409)
  assert.equal((await sendJson(url, 'PATCH', '/api/users/9', { id: 5 })).status, 204)
  assert.deepEqual(await get('/api/users/1/friends/7/name'), 'Bob')
  assert.equal((await sendJson(url, 'PUT', '/api/users/1/friends/7/name', 'Bo')).status, 204)
  assert.deepEqual(await get('/api/users?key=9&fields=key,id'), [{ key: '9', id: 5 }])
  const { ids } = (await sendJson(url, 'POST', '/api/users', [{}, { key: 4 }])).json<{ ids: number[] }>()
  assert.deepEqual(ids, [10, 11])
  const event = (await get('/events?order=desc&limit=1')) as unknown as { id: number; item: object }[]
  assert.deepEqual([event[0]?.id, event[0]?.item], [11, { key: 11 }])
  const document = await send(url, 'GET', '/openapi.json')
  const { schemas } = document.json<{ components: { schemas: Record<string, { required?: string[] }> } }>().components
  assert.deepEqual(schemas.Created?.required, ['key'])
  assert.deepEqual((await get('/health')).idField, 'key')
})

test('the data file uses the configured id field when it is read, written and edited, and in error messages', async (t) => {
  const { url, file } = await start(t)
  await until('the file is written', async () => /"key": ?2/.test(await readFile(file, 'utf8')))
  await writeFile(file, JSON.stringify({ users: [{ key: 'x', name: 'Cy' }, { name: 'New' }] }))
  const names = async () => (await send(url, 'GET', '/api/users?fields=key,name')).json()
  await until('the edit is merged', async () => JSON.stringify(await names()).includes('New'))
  assert.deepEqual(await names(), [
    { key: 'x', name: 'Cy' },
    { key: 3, name: 'New' },
  ])
  const wrong = await sendJson(url, 'POST', '/api', { users: [{ key: 1 }, { key: 1 }, { key: [] }] })
  assert.deepEqual(
    wrong.json<{ errors: { pointer: string }[] }>().errors.map(({ pointer }) => pointer),
    ['/users/1/key', '/users/2/key'],
  )
})

test('an item of a client whose id an editor removes stays that item', async (t) => {
  for (const idField of ['id', 'key']) {
    const first = { [idField]: 1, name: 'Ann', age: 30 }
    const added = { name: 'New', age: 1, town: 'Oulu' }
    const flags = ['--DataStore.IdField', idField]
    const { url, file } = await startHere(t, { data: { users: [first] }, flags })
    assert.equal((await sendJson(url, 'POST', '/api/users', added)).status, 201)
    assert.equal((await send(url, 'POST', '/admin/snapshot')).status, 200)
    await writeFile(file, JSON.stringify({ users: [{ ...first, name: 'Anna' }, added] }))
    assert.equal((await send(url, 'POST', '/admin/reload')).status, 200)
    const expected = [
      { ...first, name: 'Anna' },
      { [idField]: 2, ...added },
    ]
    assert.deepEqual((await send(url, 'GET', '/api/users')).json(), expected)
  }
})

test('the client learns the id field, and keeps live lists by it', async (t) => {
  const { url } = await start(t)
  const client = connect(url, { idField: 'key' })
  t.after(() => client.close())
  const users = client.collection<{ key: number | string; name: string }>('users')
  const list = users.live()
  await within('the items of a live list', list.ready)
  const { id } = await within('the new user', users.create({ name: 'Fay' } as never))
  assert.equal(id, 3)
  await until('the list has it', () => list.items.some(({ key, name }) => key === 3 && name === 'Fay'))
  await within('the response to a deletion', users.item(3).delete())
  await until('it has left', () => list.items.length === 3)
})

test('a journal with another id field fails the start, and names the field', async (t) => {
  const directory = await temporaryDirectory(t)
  const ends: (() => Promise<unknown>)[] = []
  await startHere({ after: (end) => void ends.push(end) }, { directory, flags: FLAGS, data: DATA })
  for (const end of ends) await end()
  await assert.rejects(
    startHere(t, { directory, flags: [] }),
    /another DataStore\.IdField than "id": the item 1 of "users" .* It seems to be "key"\./,
  )
})
