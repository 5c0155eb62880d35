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
    await until('it to be refused', () => stranger.state === 'refused')
    assert.deepEqual(nothing.items, [])
    const states: StateChange[] = []
    stranger.onState((change) => states.push(change))
    stranger.authenticate(await server.credentialsOf(scheme, 'writer'))
    await within('the items of a live list', nothing.ready)
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

test('a client logs in, is rejected when its token has expired, and continues after the next login', async (t) => {
  const lifetime = ['--Authentication.Token.ExpiresInSeconds', '1800']
  const server = await startGuarded(t, { a: [{ id: 1 }] }, ['token'], lifetime)
  const { password = '' } = await server.credentialsOf('basic', 'reader')
  const client = clientOf(t, server.url, {})
  await assert.rejects(client.login('reader', 'wrong'), { status: 401 })
  const { expiresInSeconds } = await client.login('reader', password)
  assert.equal(expiresInSeconds, 1800)
  const states: StateChange[] = []
  client.onState((change) => states.push(change))
  const list = client.collection('a').live()
  await within('the items of a live list', list.ready)
  await server.advance(1_800_000)
  await until('the end of the token', () => client.state === 'refused')
  const writer = clientOf(t, server.url, await server.credentialsOf('token', 'writer'))
  await writer.collection('a').create({})
  await client.login('reader', password)
  await until('what was missed', () => list.items.length === 2)
  await until('that to be said', () => states.at(-1)?.caughtUp === 1)

  await client.logout()
  await assert.rejects(client.collections(), { status: 401 })
  await until('the end of the session', () => client.state === 'refused')
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
