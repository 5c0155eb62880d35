import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { after, test } from 'node:test'
import { jetstreamManager } from '@nats-io/jetstream'
import { io, type Socket } from 'socket.io-client'
import { healthOf, type RunningCluster, rolesOf, startCluster } from '../support/cluster.ts'
import { once, until, within } from '../support/deadline.ts'
import { type Scope, temporaryDirectory } from '../support/directory.ts'
import { connectTo, startNats, withoutNats } from '../support/nats.ts'
import { json, type RunningProgram, runToEnd, startProgram } from '../support/server.ts'

const skip = withoutNats
const ends: (() => Promise<unknown>)[] = []
after(async () => {
  for (const end of ends.reverse()) await end()
})
let running: Promise<RunningCluster> | undefined
/** One for all tests that leave it whole. */
function cluster(): Promise<RunningCluster> {
  running ??= startCluster({ after: (end) => void ends.push(end) }, { data: { things: [{ id: 1, n: 1 }, { n: 2 }] } })
  return running
}

async function positionOf(answer: Response): Promise<number> {
  await answer.arrayBuffer()
  return Number(answer.headers.get('journal-position'))
}

function waitingFor(position: number): RequestInit {
  return { headers: { 'Wait-For-Position': String(position) } }
}

/** The next message of a name that is the right one. */
function heard<T>(socket: Socket, name: string, isRight: (message: T) => boolean = () => true): Promise<unknown> {
  return within(
    `the message ${name}`,
    new Promise((resolve) => {
      socket.on(name, (message: T) => {
        if (isRight(message)) resolve(message)
      })
    }),
  )
}

function subscribe(socket: Socket, wanted: object) {
  return within('the response to a subscription', socket.emitWithAck('subscribe', wanted))
}

test('every node serves the initial items of the leader, and only the leader merges its data file', {
  skip,
}, async (t) => {
  const { nodes, start } = await cluster()
  for (const node of nodes) {
    const answer = await node.fetch('/api/things', waitingFor(3))
    assert.deepEqual(await answer.json(), [
      { id: 1, n: 1 },
      { id: 2, n: 2 },
    ])
  }
  const directory = await temporaryDirectory(t)
  await writeFile(`${directory}/db.json`, JSON.stringify({ others: [{ id: 1 }] }))
  const late = await start(directory)
  assert.deepEqual(await (await late.fetch('/api')).json(), ['things'])
  assert.equal(await late.stop(), 0)
  assert.equal(await readFile(`${directory}/db.json`, 'utf8'), JSON.stringify({ others: [{ id: 1 }] }))
  nodes.pop()
})

test('requests that a node forwards together are decided one by one, and counted in the metrics', {
  skip,
}, async (t) => {
  const { nodes } = await cluster()
  const { leader, followers } = await rolesOf(nodes)
  const node = followers[0] as RunningProgram
  const before = await clusterMetrics(node)
  const made = await node.fetch('/api/moments/one', json('PUT', { n: -1 }))
  const tag = made.headers.get('etag') as string
  await made.arrayBuffer()
  const asked = Array.from({ length: 40 }, (_, n): Promise<Response> => {
    if (n % 4 === 0) return node.fetch('/api/moments/one', json('PUT', { n }, { 'If-Match': tag }))
    if (n % 4 === 1) return node.fetch('/api/moments', json('POST', { n: 'once' }, { 'Idempotency-Key': 'moment' }))
    if (n % 4 === 2) return node.fetch('/api/moments/none', json('PATCH', { n }))
    return node.fetch('/api/moments', json('POST', { n }))
  })
  const answers = await Promise.all(asked)
  const statuses = answers.map(({ status }) => status)
  const those = (rest: number): number[] => statuses.filter((_, n) => n % 4 === rest)
  assert.deepEqual(those(0).toSorted(), [204, ...Array.from({ length: 9 }, () => 412)])
  assert.deepEqual([...those(1), ...those(3)], new Array(20).fill(201))
  assert.deepEqual(those(2), new Array(10).fill(404))
  const positions = await Promise.all(answers.map(positionOf))
  assert.equal(new Set(positions.filter((_, n) => n % 4 === 1)).size, 1, 'stored once')
  assert.equal(new Set(positions.filter((_, n) => n % 4 === 3)).size, 10)

  const metrics = await clusterMetrics(node)
  const since = (name: string): number => (metrics.get(name) ?? Number.NaN) - (before.get(name) ?? 0)
  assert.equal(since('forwarded_commands_total{outcome="stored"}'), 22)
  assert.equal(since('forwarded_commands_total{outcome="refused"}'), 19)
  assert.equal(since('forward_duration_seconds_count'), 41)
  assert.equal(since('forward_commands_sum'), 41)
  t.diagnostic(`41 commands in ${since('forward_commands_count')} messages`)
  assert.equal(metrics.get('role{role="follower"}'), 1)
  assert.equal(metrics.get('connected'), 1)
  const ofLeader = await clusterMetrics(leader)
  assert.equal(ofLeader.get('role{role="leader"}'), 1)
  assert.equal(ofLeader.get('takeovers_total'), 1)
  assert.ok(Number(ofLeader.get('publish_duration_seconds_count{outcome="stored"}')) > 0)
  assert.ok(Number(ofLeader.get('publish_writes_sum')) >= 13)
  const document = await readFile(new URL('../../docs/cluster.md', import.meta.url), 'utf8')
  for (const name of metrics.keys()) {
    const family = `recollect_cluster_${name.replace(/\{.*/, '').replace(/_(bucket|sum|count)$/, '')}`
    assert.ok(document.includes(`\`${family}\``), `${family} is documented`)
  }
})

/** By their names without what all of them begin with. */
async function clusterMetrics(node: RunningProgram): Promise<ReadonlyMap<string, number>> {
  const text = await (await node.fetch('/metrics')).text()
  return new Map(
    Array.from(text.matchAll(/^recollect_cluster_(\S+) (\S+)$/gm), ([, name, value]) => [
      name as string,
      Number(value),
    ]),
  )
}

test('a write at any node reaches all others, and its writer can read it at each', {
  skip,
}, async () => {
  const { nodes } = await cluster()
  const ids: unknown[] = []
  for (const node of nodes) {
    const created = await node.fetch('/api/things', json('POST', { by: node.url }))
    assert.equal(created.status, 201)
    const { id } = (await created.json()) as { id: number }
    ids.push(id)
    const position = Number(created.headers.get('journal-position'))
    for (const other of nodes) {
      const read = await other.fetch(`/api/things/${id}`, waitingFor(position))
      assert.deepEqual(await read.json(), { id, by: node.url })
      assert.equal(read.headers.get('etag'), created.headers.get('etag'))
    }
  }
  assert.equal(new Set(ids).size, 3)
})

test('conditions, refusals and idempotency keys work the same at every node', { skip }, async () => {
  const { nodes } = await cluster()
  const at = (index: number): RunningProgram => nodes[index % nodes.length] as RunningProgram
  for (let index = 0; index < 3; index++) {
    const path = `/api/things/c${index}`
    const put = await at(index).fetch(path, json('PUT', { id: `c${index}`, n: 0 }))
    assert.equal(put.status, 201)
    const tag = put.headers.get('etag') as string
    const raced = await Promise.all(
      nodes.flatMap((node) => [1, 2].map((n) => node.fetch(path, json('PATCH', { n }, { 'If-Match': tag })))),
    )
    assert.deepEqual(raced.map(({ status }) => status).sort(), [204, 412, 412, 412, 412, 412])
    assert.equal((await at(index + 1).fetch('/api/unknown/1', { method: 'DELETE' })).status, 404)
    const invalid = await at(index + 1).fetch(path, json('PUT', { id: 'other' }))
    assert.equal(invalid.status, 409)
    const key = { 'Idempotency-Key': `key-${index}` }
    const first = await at(index).fetch('/api/things', json('POST', { once: index }, key))
    const again = await at(index + 1).fetch('/api/things', json('POST', { once: index }, key))
    assert.deepEqual(await again.json(), await first.json())
    assert.equal(again.headers.get('journal-position'), first.headers.get('journal-position'))
    const other = await at(index + 2).fetch('/api/things', json('POST', { once: 'other' }, key))
    assert.equal(other.status, 422)
    assert.ok(Array.isArray(((await other.json()) as { errors: unknown }).errors))
  }
})

test('a reset is forwarded to the leader, with the ids', { skip }, async (t) => {
  const data = { things: [{ id: 1, n: 1 }, { n: 2 }] }
  const { nodes } = await startCluster(t, { data, flags: ['--Api.Reset', 'true'] })
  const { leader, followers } = await rolesOf(nodes)
  const [follower] = followers as [RunningProgram]
  for (const node of [follower, leader, follower]) {
    const posted = await node.fetch('/api/things', json('POST', { n: 3 }))
    assert.deepEqual(await posted.json(), { id: 3 })
    await node.fetch('/api/things/1', { method: 'DELETE' })
    const reset = await node.fetch('/admin/reset', { method: 'POST' })
    assert.deepEqual([reset.status, ((await reset.json()) as { events: number }).events], [200, 4])
    assert.deepEqual(await (await node.fetch('/api/things')).json(), [
      { id: 1, n: 1 },
      { id: 2, n: 2 },
    ])
  }
})

test('restore, reload and snapshot are forwarded to the leader', { skip }, async () => {
  const { nodes } = await cluster()
  const { leader, followers } = await rolesOf(nodes)
  const [follower] = followers as [RunningProgram]
  const before = await positionOf(await follower.fetch('/api/kept', json('POST', { n: 1 })))
  await follower.fetch('/api/kept/0', { method: 'DELETE' })
  const dry = await follower.fetch('/admin/restore', json('POST', { to: before, collection: 'kept', dryRun: true }))
  assert.equal(((await dry.json()) as { events: number }).events, 1)
  const restored = await follower.fetch('/admin/restore', json('POST', { to: before, collection: 'kept' }))
  assert.equal(restored.status, 200)
  const { events, changes } = (await restored.json()) as { events: number; changes: unknown }
  assert.deepEqual([events, changes], [1, [{ type: 'ItemCreated', collection: 'kept', id: 0 }]])
  assert.deepEqual(await (await follower.fetch('/api/kept')).json(), [{ id: 0, n: 1 }])

  const { position } = await healthOf(leader)
  await until('the data file is written', async () => (await healthOf(leader)).dataFile?.position === position)
  const file = JSON.parse(await readFile(leader.file, 'utf8'))
  file.kept[0].n = 2
  await writeFile(leader.file, JSON.stringify(file))
  const reloaded = await follower.fetch('/admin/reload', { method: 'POST' })
  assert.equal(((await reloaded.json()) as { events: number }).events, 1)
  assert.deepEqual(await (await follower.fetch('/api/kept')).json(), [{ id: 0, n: 2 }])
  await follower.fetch('/api/kept/0', json('PUT', { n: 3 }))
  const snapshot = await follower.fetch('/admin/snapshot', { method: 'POST' })
  assert.deepEqual([snapshot.status, await snapshot.json()], [200, { position: position + 2 }])
  assert.deepEqual(JSON.parse(await readFile(leader.file, 'utf8')).kept, [{ id: 0, n: 3 }])
})

test('sockets at one node report writes at another, and a subscription continues at a third node', {
  skip,
}, async (t) => {
  const { nodes } = await cluster()
  const [first, second, third] = nodes as [RunningProgram, RunningProgram, RunningProgram]
  const socket = io(first.url, { transports: ['websocket'], forceNew: true })
  t.after(async () => socket.disconnect())
  await heard(socket, 'connect')
  const { journal, position } = await subscribe(socket, { collection: 'live' })
  const updated = heard(socket, 'updated', ({ path }: { path: string }) => path === '/api/live/x')
  await second.fetch('/api/live/x', json('PUT', { id: 'x', n: 1 }))
  const told = (await updated) as { position: number }
  await third.fetch('/api', waitingFor(told.position))
  const moved = io(third.url, { transports: ['websocket'], forceNew: true })
  t.after(async () => moved.disconnect())
  const changes: unknown[] = []
  moved.on('change', ({ kind, id }: { kind: string; id: string }) => changes.push([kind, id]))
  await heard(moved, 'connect')
  const resumed = await subscribe(moved, { collection: 'live', after: position, journal })
  assert.equal(resumed.reset, undefined)
  await second.fetch('/api/live/x', { method: 'DELETE' })
  await until('both changes have come', () => changes.length === 2)
  assert.deepEqual(changes, [
    ['enter', 'x'],
    ['leave', 'x'],
  ])
})

test('when a leader stops or is killed another one takes over, and no acknowledged write is lost', {
  skip,
}, async () => {
  const { nodes, start } = await cluster()
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    const { leader, followers } = await rolesOf(nodes)
    const [follower] = followers as [RunningProgram]
    const last = await positionOf(await leader.fetch('/api/failover', json('POST', { signal })))
    await leader.stop(signal)
    nodes.splice(nodes.indexOf(leader), 1)
    assert.equal((await follower.fetch('/api/failover')).status, 200, 'reads go on')
    const answer = await until('writes go on', async () => {
      const tried = await follower.fetch('/api/failover', json('POST', { after: signal }))
      if (tried.status === 503) assert.equal(tried.headers.get('retry-after'), '1')
      return tried.status === 201 && tried
    })
    assert.equal(await positionOf(answer), last + 1)
    // Comes back on what it has, and joins.
    const again = await start(leader.directory)
    const read = await again.fetch('/api/failover', waitingFor(last + 1))
    assert.equal(((await read.json()) as unknown[]).at(-1) !== undefined, true)
    assert.deepEqual(
      await (await again.fetch('/api/failover')).json(),
      await (await follower.fetch('/api/failover')).json(),
    )
  }
})

test('/health shows the leader, the lag of a node, and its peers', { skip }, async () => {
  const { nodes } = await cluster()
  const healths = await until('they know of each other', async () => {
    const all = await Promise.all(nodes.map(healthOf))
    return all.every(({ cluster: { peers, lag } }) => peers.length === 2 && lag === 0) && all
  })
  assert.equal(healths.filter(({ cluster: { role } }) => role === 'leader').length, 1)
  const { node } = healths.find(({ cluster: { role } }) => role === 'leader')?.cluster ?? {}
  for (const health of healths) {
    assert.equal(health.status, 'ok')
    assert.equal(health.cluster.leader, node)
  }
})

test('tokens are valid, and revoked, at every node', { skip }, async (t) => {
  const { nats } = await cluster()
  const { nodes } = await startCluster(t, {
    nats,
    nodes: 2,
    data: { things: [] },
    flags: [
      '--Authentication.Enabled',
      'true',
      '--Authentication.Users',
      '[{"Username":"miranda","Password":"ceres-station","Role":"admin"}]',
    ],
  })
  const [first, second] = nodes as [RunningProgram, RunningProgram]
  const credentials = { username: 'miranda', password: 'ceres-station' }
  const answer = await first.fetch('/token', json('POST', credentials))
  const { access_token } = (await answer.json()) as { access_token: string }
  const headers = { Authorization: `Bearer ${access_token}` }
  assert.equal((await second.fetch('/api/things', { headers })).status, 200)
  assert.equal((await second.fetch('/api/things', json('POST', {}, headers))).status, 201)
  assert.equal((await first.fetch('/logout', { method: 'POST', headers })).status, 204)
  await until('the token has ended', async () => (await second.fetch('/api/things', { headers })).status === 401)
})

test('a node that starts before NATS waits for it, and logs what it waits for', {
  skip,
}, async (t) => {
  const [server] = await startNats(t)
  await server?.stop('SIGKILL')
  const flags = ['--Journal.Type', 'jetstream', '--Journal.Servers', server?.url as string]
  // Until the node has knocked there is somebody else at the door.
  const door = createServer((socket) => socket.destroy()).listen(
    Number(new URL(server?.url as string).port),
    '127.0.0.1',
  )
  const starting = startProgram(t, { flags, data: { things: [{ id: 1 }] } })
  await once(door, 'connection')
  await once(door.close(), 'close')
  server?.start()
  const node = await starting
  assert.deepEqual(await (await node.fetch('/api/things')).json(), [{ id: 1 }])
  assert.match(node.stderr(), /NATS servers cannot be used yet/)
  assert.match(node.stderr(), /The stream has one copy/)
  assert.equal(await node.stop(), 0)
})

test('a stream that discards messages is rejected and left unchanged', { skip }, async (t) => {
  const nats = await startNats(t)
  const nc = await connectTo(nats)
  t.after(() => nc.close())
  const jsm = await jetstreamManager(nc)
  await jsm.streams.add({ name: 'ephemeral', subjects: ['recollect.ephemeral.journal'], max_msgs: 5 })
  const servers = nats.map(({ url }) => url).join(',')
  const flags = ['--Journal.Type', 'jetstream', '--Journal.Stream', 'ephemeral', '--Journal.Servers', servers]
  const anyPort = ['--urls', 'http://127.0.0.1:0']
  const { code, stderr } = await runToEnd(t, await temporaryDirectory(t), [...flags, ...anyPort])
  assert.equal(code, 1)
  assert.match(stderr, /The stream ephemeral is not suitable for a journal: .*discards old messages.*deny_delete/)
  assert.equal((await jsm.streams.info('ephemeral')).state.messages, 0)
})

test('a node starts from its store, applies the rest of its copy, and then the rest of the stream', {
  skip,
}, async (t) => {
  const { nodes, start } = await startCluster(t, {
    servers: 1,
    nodes: 2,
    data: { things: [] },
    flags: ['--Log.Level', 'debug'],
  })
  const { leader, followers } = await rolesOf(nodes)
  const [follower] = followers as [RunningProgram]
  const add = async (count: number): Promise<void> => {
    for (let n = 0; n < count; n++) await leader.fetch('/api/things', json('POST', { n }))
  }
  await add(60)
  await until('the follower has them in its store', async () => (await healthOf(follower)).store?.position === 61)
  await add(5)
  await follower.stop('SIGKILL')
  await add(5)
  const again = await start(follower.directory)
  await until('it has gone on from the store', () =>
    /the journal up to the position of the store was verified/.test(again.stderr()),
  )
  const { position } = await healthOf(leader)
  const states = await Promise.all(
    [leader, again].map(async (node) => (await node.fetch('/api/things', waitingFor(position))).text()),
  )
  assert.equal(states[0], states[1])
  assert.equal((JSON.parse(states[0] as string) as unknown[]).length, 70)
  // Ids go on, and what was answered before is known, also by the one that went on from its store.
  await leader.stop()
  const written = await until('the other one leads', async () => {
    const answer = await again.fetch('/api/things', json('POST', {}))
    return answer.status === 201 && answer
  })
  assert.deepEqual(await written.json(), { id: 70 })
})

const DATA = { things: [{ id: 1, n: 1 }], profile: { n: 1 } }

/** Two nodes on one stream, one after the other; of the first one the data file is imported, and it decides. */
async function startNodes(t: Scope, flags: readonly [readonly string[], readonly string[]]) {
  const nats = await startNats(t)
  const journal = ['--Journal.Type', 'jetstream', '--Journal.Stream', `test-${randomUUID()}`, '--Journal.Replicas', '1']
  const common = [...journal, '--Journal.Servers', nats.map(({ url }) => url).join(','), '--Api.UpsertOnPut', 'true']
  const first = await startProgram(t, { data: DATA, flags: [...common, ...flags[0]] })
  await rolesOf([first])
  const second = await startProgram(t, { flags: [...common, ...flags[1]] })
  return [first, second] as const
}

async function refusesWrites(node: RunningProgram): Promise<void> {
  const writes: readonly [string, RequestInit][] = [
    ['/api', json('POST', {})],
    ['/api/things', json('POST', { n: 2 })],
    ['/api/things', { method: 'DELETE' }],
    ['/api/things/1', json('PUT', { n: 2 })],
    ['/api/things/1/n', json('PUT', 2)],
    ['/api/profile', json('PATCH', { n: 2 })],
    ['/admin/restore', json('POST', { to: 0 })],
    ['/admin/reload', { method: 'POST' }],
    ['/admin/snapshot', { method: 'POST' }],
  ]
  for (const [path, init] of writes) {
    const answer = await node.fetch(path, init)
    assert.equal(answer.status, 405, `${init.method} ${path}`)
    assert.match(((await answer.json()) as { detail: string }).detail, /read-only/)
  }
}

test('a read-only node rejects writes, and shows those of the others', { skip }, async (t) => {
  const [writable, readOnly] = await startNodes(t, [[], ['--read-only']])
  await refusesWrites(readOnly)
  const written = await writable.fetch('/api/things/1', json('PUT', { n: 2 }))
  assert.equal(written.status, 204)
  const wait = { headers: { 'Wait-For-Position': String(written.headers.get('journal-position')) } }
  assert.deepEqual(await (await readOnly.fetch('/api/things/1', wait)).json(), { id: 1, n: 2 })
  assert.deepEqual(await (await readOnly.fetch('/api/profile', wait)).json(), DATA.profile)
  const [one, other] = [await healthOf(writable), await healthOf(readOnly)] as { readOnly?: boolean; status: string }[]
  assert.deepEqual([one?.readOnly, other?.readOnly, other?.status], [false, true, 'ok'])
})

test('a read-only leader accepts writes of the other nodes, and ignores edits of its data file', {
  skip,
}, async (t) => {
  const [readOnly, writable] = await startNodes(t, [['--read-only'], []])
  assert.equal((await healthOf(readOnly)).cluster.role, 'leader')
  await refusesWrites(readOnly)
  assert.deepEqual(await (await writable.fetch('/api/things')).json(), DATA.things, 'the first items were imported')
  const writes = [
    await writable.fetch('/api/things/1', json('PUT', { n: 2 })),
    await writable.fetch('/api/profile/n', json('PUT', 2)),
    await writable.fetch('/api/things', json('POST', [{ n: 3 }, { n: 4 }])),
  ]
  assert.deepEqual(
    writes.map(({ status }) => status),
    [204, 204, 201],
  )
  const position = String(writes[2]?.headers.get('journal-position'))
  const items = [
    { id: 1, n: 2 },
    { id: 2, n: 3 },
    { id: 3, n: 4 },
  ]
  const seen = await readOnly.fetch('/api/things', { headers: { 'Wait-For-Position': position } })
  assert.deepEqual(await seen.json(), items)

  await until('the data file is written', async () => (await readFile(readOnly.file, 'utf8')).includes('4'))
  const edited = JSON.stringify({ things: [] })
  await writeFile(readOnly.file, edited)
  const reloaded = await writable.fetch('/admin/reload', { method: 'POST' })
  assert.equal(reloaded.status, 409)
  assert.match(((await reloaded.json()) as { detail: string }).detail, /read-only/)
  assert.deepEqual(await (await writable.fetch('/api/things')).json(), items)

  const everything = await writable.fetch('/api', json('POST', { things: [{ n: 9 }] }))
  assert.equal(everything.status, 200)
  assert.deepEqual(await (await writable.fetch('/api/things')).json(), [{ id: 4, n: 9 }])
  assert.equal(await readFile(readOnly.file, 'utf8'), edited)
})
