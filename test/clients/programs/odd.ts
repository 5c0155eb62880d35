/** Both clients, for the data of `odd.ts`, another name of the id, and an API key. */
import assert from 'node:assert/strict'
import createClient from 'openapi-fetch'
import * as orval from './orval.ts'
import type { components, paths } from './paths.ts'

const [, , baseUrl = '', apiKey = ''] = process.argv
const client = createClient<paths>({ baseUrl, headers: { 'X-API-KEY': apiKey } })

const path = { id: 'AA:BB' }
const sensor = await client.GET('/api/order-items/{id}', { params: { path } })
const mac: string | undefined = sensor.data?._id
assert.equal(mac, 'AA:BB')
const value: number | null | undefined = sensor.data?.['a b']
assert.equal(value, null)
assert.equal(sensor.data?.$ref, 'x')
assert.equal(sensor.data?.constructor, 1)
assert.equal((await orval.getItemOrderItems('AA:BB')).data['sl/ash'], 2)

const created = await client.POST('/api/%C3%9Cberschrift', { body: { mixed: 'text' } })
assert.ok(created.data && '_id' in created.data)
const read = await orval.getItemUberschrift(String(created.data._id))
const mixed: number | string | undefined = read.data.mixed
assert.equal(mixed, 'text')

assert.deepEqual((await client.GET('/api/empty')).data, [])
assert.deepEqual((await client.GET('/api/nothing')).data, {})
assert.deepEqual((await orval.getItems1st()).data, [{ _id: 1 }])
assert.deepEqual((await orval.getItemsConstructor()).data, [{ _id: 2 }])
assert.deepEqual((await orval.getItemsAB()).data, [{ _id: 3 }])
assert.deepEqual((await orval.getItemsAB2()).data, [{ _id: 4 }])
const problems: readonly components['schemas']['Item_Problem'][] = (await orval.getItemsProblem()).data
assert.deepEqual(problems, [{ _id: 5 }])

const stranger = createClient<paths>({ baseUrl })
assert.equal((await stranger.GET('/health')).data?.status, 'ok')
const refused = await stranger.GET('/api/1st')
assert.deepEqual([refused.response.status, refused.error?.title], [401, 'Credentials are needed'])
