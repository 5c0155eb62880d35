import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { WebSocket } from 'ws'
import { once } from '../support/deadline.ts'
import { Random, SEED } from '../support/random.ts'
import { headOf } from '../support/requests.ts'
import { json, type RunningServer } from '../support/server.ts'
import { startServer } from '../support/service.ts'

interface Restored {
  readonly position: number
  readonly dryRun: boolean
  readonly events: number
  readonly changes: readonly { readonly type: string; readonly collection: string; readonly id?: unknown }[]
}

async function restore(server: RunningServer, body: object): Promise<Restored> {
  const answer = await server.fetch('/admin/restore', json('POST', body))
  assert.equal(answer.status, 200, await answer.clone().text())
  return (await answer.json()) as Restored
}

/** Every collection as it is, or was. */
async function stateOf(server: RunningServer, at?: number): Promise<Record<string, string>> {
  const suffix = at === undefined ? '' : `asOf=${at}`
  const names = (await (await server.fetch(`/api?${suffix}`)).json()) as string[]
  const entries = await Promise.all(
    names.sort().map(async (name) => [name, await (await server.fetch(`/api/${name}?${suffix}`)).text()] as const),
  )
  return Object.fromEntries(entries)
}

async function change(server: RunningServer, random: Random, steps: number): Promise<void> {
  for (let step = 0; step < steps; step++) {
    const collection = random.pick(['a', 'b', 'c'])
    const path = `/api/${collection}/${random.integer(5)}`
    const kind = random.integer(5)
    if (kind === 0) await server.fetch(path, { method: 'DELETE' })
    else if (kind === 1) await server.fetch(`/api/${collection}`, json('POST', { n: random.integer(100) }))
    else await server.fetch(path, json('PUT', { n: random.integer(100) }))
  }
}

/** Restores to random positions, half of which are reverted. */
const ROUNDS = Number(process.env.RESTORE_ROUNDS ?? 6)

/** Each test has collections of its own. */
const DATA = {
  parts: [
    { id: 0, n: 1 },
    { id: 1, n: 1 },
  ],
  others: [{ id: 0, n: 1 }],
  deleted: [{ id: 0, n: 1 }],
  ordered: [{ id: 0, n: 1, m: { x: 1, y: 2 } }],
  told: [{ id: 0, n: 1 }],
  single: { theme: 'dark' },
  watched: [
    { id: 0, n: 1 },
    { id: 1, n: 1 },
  ],
}

describe('POST /admin/restore', async () => {
  const server = await startServer({ after }, { data: DATA })

  test('to a position gives the state of asOf, and restoring the position before reverts it', async (t) => {
    const random = new Random(SEED)
    const server = await startServer(t, { data: { a: [{ id: 0 }], b: [] }, flags: ['--Api.UpsertOnPut', 'true'] })
    for (let round = 0; round < ROUNDS; round++) {
      await change(server, random, 25)
      const before = await headOf(server.url)
      const to = random.integer(before + 1)
      const dry = await restore(server, { to, dryRun: true })
      assert.equal(await headOf(server.url), before, 'a dry run writes nothing')
      const done = await restore(server, { to })
      const context = `SEED=${SEED}, round ${round}, to ${to}`
      assert.deepEqual(await stateOf(server), await stateOf(server, to), context)
      assert.deepEqual(done.changes, dry.changes, context)
      assert.equal(done.position, before + done.events, context)
      if (!random.chance(0.5)) continue
      await restore(server, { to: before })
      assert.deepEqual(await stateOf(server), await stateOf(server, before), `${context}: restored again`)
    }
    const events = (await (await server.fetch('/events?limit=10000')).json()) as { position: number }[]
    assert.deepEqual(
      events.map(({ position }) => position),
      events.map((_, index) => index + 1),
      'the journal has all of it',
    )
  })

  test('one collection or item leaves the others unchanged', async () => {
    const to = await headOf(server.url)
    for (const path of ['parts/0', 'parts/1', 'others/0']) await server.fetch(`/api/${path}`, json('PUT', { n: 2 }))
    assert.deepEqual((await restore(server, { to, collection: 'parts', id: 1 })).changes, [
      { type: 'ItemReplaced', collection: 'parts', id: 1 },
    ])
    assert.equal(await (await server.fetch('/api/parts/0/n')).text(), '2')
    assert.equal(await (await server.fetch('/api/parts/1/n')).text(), '1')
    await restore(server, { to, collection: 'others' })
    assert.equal(await (await server.fetch('/api/others/0/n')).text(), '1')
    assert.equal(await (await server.fetch('/api/parts/0/n')).text(), '2')
  })

  test('brings a deleted item back, and removes one that did not exist yet', async () => {
    const to = await headOf(server.url)
    await server.fetch('/api/deleted', json('POST', { n: 5 }))
    await server.fetch('/api/deleted/0', { method: 'DELETE' })
    assert.equal((await restore(server, { to, collection: 'deleted', id: '0' })).changes[0]?.type, 'ItemCreated')
    assert.equal((await restore(server, { to, collection: 'deleted', id: 1 })).changes[0]?.type, 'ItemDeleted')
    assert.equal(await (await server.fetch('/api/deleted')).text(), '[{"id":0,"n":1}]')
    assert.equal((await restore(server, { to })).events, 0, 'there is nothing left to do')
  })

  test('restores the order of members, too', async () => {
    const to = await headOf(server.url)
    for (const other of [
      { id: 0, m: { x: 1, y: 2 }, n: 1 },
      { id: 0, n: 1, m: { y: 2, x: 1 } },
    ]) {
      await server.fetch('/api/ordered/0', json('PUT', other))
      assert.equal((await restore(server, { to })).events, 1)
      assert.equal(await (await server.fetch('/api/ordered/0')).text(), '{"id":0,"n":1,"m":{"x":1,"y":2}}')
    }
  })

  test('makes events with the user who restored, and sends notifications', async (t) => {
    const to = await headOf(server.url)
    await server.fetch('/api/told/0', json('PUT', { n: 2 }))
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}/ws`)
    t.after(() => socket.close())
    await once(socket, 'open')
    const told = once(socket, 'message')
    const { position } = await restore(server, { to })
    assert.equal(JSON.parse(String((await told)[0])).position, position)
    const event = (await (await server.fetch(`/events/${position}`)).json()) as { actor: string; type: string }
    assert.equal(event.actor, 'anonymous')
    assert.equal(event.type, 'ItemReplaced')
  })

  test('with If-Unchanged-Since fails when something that would change has changed since', async () => {
    const to = await headOf(server.url)
    await server.fetch('/api/watched/0', json('PUT', { n: 2 }))
    await server.fetch('/api/watched/1', { method: 'DELETE' })
    const since = await headOf(server.url)
    const answered = async (body: object, position: number | string) => {
      const headers = { 'Content-Type': 'application/json', 'If-Unchanged-Since': String(position) }
      const before = await headOf(server.url)
      const { status } = await server.fetch('/admin/restore', { ...json('POST', { to, ...body }), headers })
      const { dryRun } = body as { dryRun?: boolean }
      if (status !== 200 || dryRun) assert.equal(await headOf(server.url), before, 'nothing is written')
      return status
    }
    const whole = { collection: 'watched' }
    assert.equal(await answered({ ...whole, dryRun: true }, since), 200)
    assert.equal(await answered(whole, since - 1), 412, 'an item was deleted')
    assert.equal(await answered({ ...whole, id: 0 }, since - 1), 200, 'only this item counts')
    for (const [change, path, init] of [
      ['an item was changed', '0', json('PUT', { n: 3 })],
      ['an item was created', '', json('POST', { n: 4 })],
    ] as const) {
      const now = await headOf(server.url)
      await server.fetch(`/api/watched${path && '/'}${path}`, init)
      for (const body of [{}, { dryRun: true }]) assert.equal(await answered({ ...whole, ...body }, now), 412, change)
    }
    const now = await headOf(server.url)
    assert.equal(await answered(whole, now + 1), 412, 'a position of another journal')
    for (const invalid of ['', '-1', 'now']) assert.equal(await answered(whole, invalid), 400)
    await server.fetch('/api/others/0', json('PUT', { n: 7 }))
    assert.equal(await answered(whole, now), 200, 'other collections may change')
    assert.equal(await (await server.fetch('/api/watched')).text(), JSON.stringify(DATA.watched))
  })

  for (const [what, body, status] of [
    ['nothing', {}, 422],
    ['a position beyond the head', { to: 9999 }, 400],
    ['the future', { to: '2999-01-01' }, 400],
    ['no moment', { to: 'yesterday' }, 400],
    ['a fraction', { to: 1.5 }, 400],
    ['an item of no collection', { to: 1, id: 0 }, 422],
    ['an unknown collection', { to: 1, collection: 'x' }, 422],
    ['an unknown member', { to: 1, really: true }, 422],
    ['an array', [1], 422],
    ['an item that a single object never had', { to: 1, collection: 'single', id: 1 }, 409],
    ['a member of a single object', { to: 1, collection: 'single', id: 'theme' }, 409],
    ['a list by the id of a single object', { to: 1, collection: 'told', id: '' }, 409],
  ] as const) {
    test(`${what} is rejected, and nothing is written`, async () => {
      const before = await headOf(server.url)
      const answer = await server.fetch('/admin/restore', json('POST', body))
      assert.equal(answer.status, status, await answer.text())
      assert.equal(await headOf(server.url), before)
    })
  }

  test('at most twenty unknown members of a request are named', async () => {
    const members = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`a/${index}`, 0]))
    const answer = await server.fetch('/admin/restore', json('POST', { to: 0, ...members }))
    assert.equal(answer.status, 422)
    const { errors } = (await answer.json()) as { errors: { pointer: string }[] }
    assert.deepEqual([errors.length, errors[0]?.pointer], [20, '/a~10'])
  })
})
