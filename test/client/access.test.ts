import assert from 'node:assert/strict'
import { after, type TestContext, test } from 'node:test'
import { type Credentials, connect, type StateChange } from '../../src/client/index.ts'
import { each, until, within } from '../support/deadline.ts'
import { type Scheme, startGuarded } from './host.ts'

const SCHEMES: readonly Scheme[] = ['token', 'basic', 'apikey']
/** A collection for each scheme. */
const data = { token: [{ id: 1 }], basic: [{ id: 1 }], apikey: [{ id: 1 }] }
const server = await startGuarded({ after }, data, SCHEMES)

function clientOf(t: TestContext, url: string, credentials: Credentials) {
  const client = connect(url, credentials)
  t.after(async () => client.close())
  return client
}

for (const scheme of SCHEMES) {
  test(`with ${scheme} a client reads, writes and follows; without credentials it cannot`, async (t) => {
    const client = clientOf(t, server.url, await server.credentialsOf(scheme, 'writer'))
    const items = client.collection<{ id: number }>(scheme)
    const list = items.live()
    await within('the items of a live list', list.ready)
    await items.create({})
    await until('the new item', () => list.items.length === 2)
    const actors: string[] = []
    for await (const { actor } of each('an event', client.events({ collection: scheme, from: 7 }))) actors.push(actor)
    assert.deepEqual(actors, [scheme === 'apikey' ? 'writer-key' : 'writer'])
    await assert.rejects(client.restore({ to: 1 }), { status: 403, code: 'Forbidden' })

    const stranger = clientOf(t, server.url, {})
    const nothing = stranger.collection(scheme).live()
    await assert.rejects(stranger.collections(), { status: 401, code: 'Unauthenticated' })
    await assert.rejects(within('the answer', nothing.ready), { status: 401 })
    assert.equal(stranger.state, 'refused')
    assert.deepEqual(nothing.items, [])
    const states: StateChange[] = []
    stranger.onState((change) => states.push(change))
    stranger.authenticate(await server.credentialsOf(scheme, 'writer'))
    await until('it to be let in', () => stranger.state === 'connected')
    stranger.authenticate(await server.credentialsOf(scheme, 'writer'))
    await until('it to be let in again', () => states.length === 4)
    assert.deepEqual(
      states.map(({ state }) => state),
      ['connecting', 'connected', 'connecting', 'connected'],
    )
    assert.equal(nothing.items.length, 2)
  })
}

const LIFETIME = ['--Authentication.Token.ExpiresInSeconds', '1800']
const LIFETIME_MS = 1_800_000

test('a client with a name and a password gets tokens, and another one when its token has expired', async (t) => {
  const server = await startGuarded(t, { a: [{ id: 1 }] }, ['token'], LIFETIME)
  const client = clientOf(t, server.url, await server.credentialsOf('basic', 'writer'))
  const states: StateChange[] = []
  client.onState((change) => states.push(change))
  const items = client.collection('a')
  const list = items.live()
  await within('the items of a live list', list.ready)
  await server.advance(LIFETIME_MS)
  await items.create({})
  await until('the new item', () => list.items.length === 2)
  await until('the reconnection', () => states.length === 4)
  assert.deepEqual(
    states.map(({ state }) => state),
    ['connected', 'disconnected', 'connecting', 'connected'],
  )
  await server.advance(LIFETIME_MS)
  await Promise.all([items.create({}), items.get(), items.item(1).get()])
  await until('the newest item', () => list.items.length === 3)
})

test('a client with a password logs in again, unless it logs out', async (t) => {
  const server = await startGuarded(t, { a: [{ id: 1 }] }, ['token'], LIFETIME)
  const { password = '' } = await server.credentialsOf('basic', 'reader')
  const client = clientOf(t, server.url, {})
  await assert.rejects(client.login('reader', 'wrong'), { status: 401 })
  const { expiresInSeconds } = await client.login('reader', password)
  assert.equal(expiresInSeconds, 1800)
  const list = client.collection('a').live()
  await within('the items of a live list', list.ready)
  await server.advance(LIFETIME_MS)
  assert.deepEqual(await client.collections(), ['a'])
  await client.logout()
  await assert.rejects(client.collections(), { status: 401 })
  await until('the end of the session', () => client.state === 'refused')
})

test('a client with a token is refused when it has expired, and continues with another one', async (t) => {
  const server = await startGuarded(t, { a: [{ id: 1 }] }, ['token'], LIFETIME)
  const client = clientOf(t, server.url, await server.credentialsOf('token', 'reader'))
  const states: StateChange[] = []
  client.onState((change) => states.push(change))
  const list = client.collection('a').live()
  await within('the items of a live list', list.ready)
  await server.advance(LIFETIME_MS)
  await until('the end of the token', () => client.state === 'refused')
  assert.equal(states.at(-1)?.error?.code, 'Unauthenticated')
  const late = client.collection('a').live()
  await assert.rejects(within('the items of a live list', late.ready), { status: 401, code: 'Unauthenticated' })
  const writer = clientOf(t, server.url, await server.credentialsOf('token', 'writer'))
  await writer.collection('a').create({})
  client.authenticate(await server.credentialsOf('token', 'reader'))
  await until('what was missed', () => list.items.length === 2)
  await until('that to be said', () => states.at(-1)?.caughtUp === 1)
  assert.equal(late.items.length, 2)
})

test('a client with a function for tokens calls it when it needs another one, and again when it has failed', async (t) => {
  const server = await startGuarded(t, { a: [{ id: 1 }] }, ['token'], LIFETIME)
  let isFailing = true
  let calls = 0
  const token = async (): Promise<string> => {
    calls++
    if (isFailing) throw new Error('no token yet')
    return (await server.credentialsOf('token', 'writer')).token as string
  }
  const client = clientOf(t, server.url, { token })
  const list = client.collection('a').live()
  await assert.rejects(client.collections(), { message: 'no token yet' })
  await until('a second connection to be tried', () => calls >= 3)
  assert.equal(client.state, 'disconnected')
  isFailing = false
  await within('the items of a live list', list.ready)
  await server.advance(LIFETIME_MS)
  await client.collection('a').create({})
  await until('the new item', () => list.items.length === 2)
})

test('a function that returns the rejected token again is not called without end', async (t) => {
  const server = await startGuarded(t, { a: [] }, ['token'])
  let calls = 0
  const client = clientOf(t, server.url, { token: () => `wrong ${++calls}` })
  await assert.rejects(within('the answer', client.collection('a').live().ready), { status: 401 })
  assert.equal(client.state, 'refused')
  assert.equal(calls, 2)
})

test('a token that comes after other credentials were set is not sent', async (t) => {
  const server = await startGuarded(t, { a: [{ id: 1 }] }, ['token'])
  const given: ((token: string) => void)[] = []
  const token = () =>
    new Promise<string>((resolve) => {
      given.push(resolve)
    })
  const client = clientOf(t, server.url, { token })
  const states: StateChange[] = []
  client.onState((change) => states.push(change))
  const list = client.collection('a').live()
  await until('the first token to be asked for', () => given.length === 1)
  client.authenticate({ token })
  await until('the second token to be asked for', () => given.length === 2)
  given[0]?.('late and wrong')
  const other = clientOf(t, server.url, await server.credentialsOf('token', 'reader'))
  for (let n = 0; n < 20; n++) await other.collections()
  given[1]?.((await server.credentialsOf('token', 'reader')).token as string)
  await within('the items of a live list', list.ready)
  assert.deepEqual(
    states.map(({ state }) => state),
    ['connected'],
  )
})

test('a list is not ready when the credentials are refused, and is loaded with others', async (t) => {
  const server = await startGuarded(t, { a: [{ id: 1 }] }, ['token'])
  const client = clientOf(t, server.url, { username: 'reader', password: 'wrong' })
  const list = client.collection('a').live()
  const changes = list[Symbol.asyncIterator]()
  const first = changes.next()
  await assert.rejects(within('the answer', list.ready), { status: 401, code: 'Unauthenticated' })
  await until('the refusal', () => client.state === 'refused')
  client.authenticate(await server.credentialsOf('basic', 'reader'))
  const { value } = await within('the items of a live list', first)
  assert.equal(value?.entered.length, 1)
})

test('a client whose password is not checked, since others of its address failed, connects by itself later', async (t) => {
  const server = await startGuarded(t, { a: [{ id: 1 }] }, ['basic'], ['--Limits.FailuresPerMinute', '1'])
  await assert.rejects(clientOf(t, server.url, { username: 'reader', password: 'wrong' }).collections(), {
    status: 401,
  })
  const client = clientOf(t, server.url, await server.credentialsOf('basic', 'reader'))
  const states: string[] = []
  client.onState(({ state }) => states.push(state))
  await until('a first refusal', () => states.length > 0)
  assert.deepEqual(states, ['disconnected'])
})
