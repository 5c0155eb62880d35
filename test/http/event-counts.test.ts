import assert from 'node:assert/strict'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseWindow } from '../../src/query/aggregate/window.ts'
import { RecoveryFile, type RecoveryPoint } from '../../src/store/recovery-file.ts'
import { StoreDirectory } from '../../src/store/store-directory.ts'
import { clock } from '../support/clock.ts'
import { until } from '../support/deadline.ts'
import { temporaryDirectory } from '../support/directory.ts'
import { makeFormat6 } from '../support/format-5.ts'
import { Random, SEED } from '../support/random.ts'
import { send, sendJson } from '../support/requests.ts'
import { startProgram } from '../support/server.ts'
import { type OwnService, startHere, startServer } from '../support/service.ts'

interface Event {
  readonly type: string
  readonly collection: string
  readonly actor: string
  readonly time: string
}

type Row = Readonly<Record<string, string | number>>

const GROUPS = ['type', 'collection', 'actor'] as const
const ZONES = ['UTC', 'Europe/Helsinki', 'Asia/Kathmandu', 'Australia/Lord_Howe', 'America/St_Johns', '+02:07']
const WINDOWS = ['1m', '7m', '120s', '15m', '25m', '1h', '6h', '1d', '1w', '1mo', '1y']

async function eventsOf(url: string): Promise<readonly Event[]> {
  const { text } = await send(url, 'GET', '/events', { headers: { Accept: 'application/x-ndjson' } })
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Event)
}

async function rowsOf(url: string, search: string): Promise<readonly Row[]> {
  const reply = await send(url, 'GET', `/events?aggregate=count&${search}`)
  assert.equal(reply.status, 200, `${search}: ${reply.text}`)
  return reply.json<Row[]>()
}

interface Question {
  readonly groupBy: readonly (typeof GROUPS)[number][]
  readonly window: string | undefined
  readonly tz: string | undefined
  readonly filter: Partial<Pick<Event, (typeof GROUPS)[number]>>
  readonly since: string | undefined
  readonly until: string | undefined
}

/** Counts one event after the other. */
function counted(events: readonly Event[], { groupBy, window, tz, filter, since, until: last }: Question): Row[] {
  const windows = window === undefined ? undefined : parseWindow(window, tz)
  const { start, until: endOf } = {
    start: (ms: number) => (windows ? windows.start(ms) : Math.floor(ms / 60_000) * 60_000),
    until: (ms: number) => (windows ? windows.until(ms) : Math.floor(ms / 60_000) * 60_000 + 60_000),
  }
  const [from, to] = [since === undefined ? 0 : start(Date.parse(since)), last ? endOf(Date.parse(last)) : Infinity]
  const found = new Map<string, { startMs: number; row: Record<string, string | number> }>()
  for (const event of events) {
    const ms = Date.parse(event.time)
    if (ms < from || ms >= to || GROUPS.some((name) => filter[name] !== undefined && filter[name] !== event[name]))
      continue
    const startMs = windows ? windows.start(ms) : 0
    const groups = Object.fromEntries(groupBy.map((name) => [name, event[name]]))
    const key = JSON.stringify([startMs, groups])
    const row = found.get(key)?.row ?? { ...groups, ...(windows && { window: windows.text(startMs) }), count: 0 }
    row.count = Number(row.count) + 1
    found.set(key, { startMs, row })
  }
  if (groupBy.length === 0 && !windows && found.size === 0) return [{ count: 0 }]
  return Array.from(found.values())
    .sort((a, b) => {
      const name = groupBy.find((one) => a.row[one] !== b.row[one])
      return name ? ((a.row[name] as string) < (b.row[name] as string) ? -1 : 1) : a.startMs - b.startMs
    })
    .map(({ row }) => row)
}

function questionOf(random: Random, events: readonly Event[]): Question {
  const some = <Value>(values: readonly Value[], chance: number) =>
    random.chance(chance) ? random.pick(values) : undefined
  const near = () =>
    new Date(Date.parse(random.pick(events).time) + random.integer(7_200_000) - 3_600_000).toISOString()
  const window = some(WINDOWS, 0.8)
  const filter = Object.fromEntries(
    GROUPS.flatMap((name) => (random.chance(0.2) ? [[name, random.pick(events)[name]]] : [])),
  )
  return {
    groupBy: GROUPS.filter(() => random.chance(0.3)).sort(() => random.next() - 0.5),
    window,
    tz: window && some(ZONES, 0.7),
    filter,
    since: random.chance(0.5) ? near() : undefined,
    until: random.chance(0.5) ? near() : undefined,
  }
}

function searchOf({ groupBy, window, tz, filter, since, until: last }: Question): string {
  const parameters = {
    ...(groupBy.length > 0 && { groupBy: groupBy.join(',') }),
    window,
    tz,
    ...filter,
    since,
    until: last,
  }
  return Object.entries(parameters)
    .flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${encodeURIComponent(value)}`]))
    .join('&')
}

/** API keys, each of an actor of its own. */
const KEYS = ['ada', 'émile', 'x'.repeat(300)].map((Name, index) => ({ Name, Key: `key-${index}-7f3a91` }))

async function checkCounts(url: string, random: Random, questions: number): Promise<void> {
  const events = await eventsOf(url)
  for (let asked = 0; asked < questions; asked++) {
    const question = questionOf(random, events)
    const search = searchOf(question)
    assert.deepEqual(await rowsOf(url, search), counted(events, question), `SEED=${SEED}: ${search}`)
  }
}

test('counts of random events are those of the journal, in zones with daylight saving, also after restarts', async (t) => {
  const random = new Random(SEED)
  const directory = await temporaryDirectory(t)
  const time = clock('2026-03-28T21:00:00.000Z')
  const flags = ['--Collections', '{}']
  const serve = () =>
    startHere(t, { directory, data: { a: [], b: [{ id: 1 }], profile: { n: 0 } }, now: time.now, flags })
  let service = await serve()
  for (let round = 0; round < 4; round++) {
    for (let step = 0; step < 60; step++) {
      // Mostly minutes, and now and then the hours up to a change of the clock, or months.
      time.pass(random.chance(0.9) ? random.integer(400_000) : random.pick([3.6e6, 86.4e6, 31 * 86.4e6]))
      await writeSomething(service, random, step)
    }
    await checkCounts(service.url, random, 60)
    await service.stop()
    service = await serve()
    await checkCounts(service.url, random, 20)
  }
})

async function writeSomething({ url }: Pick<OwnService, 'url'>, random: Random, step: number): Promise<void> {
  const name = random.pick(['a', 'b', 'c', 'new ones'])
  const path = `/api/${encodeURIComponent(name)}`
  const kind = random.integer(7)
  if (kind <= 2) await sendJson(url, 'POST', path, { n: step })
  else if (kind === 3)
    await sendJson(
      url,
      'POST',
      path,
      Array.from({ length: random.integer(50) + 1 }, (_, n) => ({ n })),
    )
  else if (kind === 4) await sendJson(url, 'PATCH', `${path}/${random.integer(20)}`, { n: step })
  else if (kind === 5) await send(url, 'DELETE', `${path}/${random.integer(20)}`)
  else await send(url, 'DELETE', random.pick(['/api/profile', `${path}?n_lt=9`, `${path}?all=true`]))
}

test('counts by actor have the names of users, however long', async (t) => {
  const flags = ['Enabled', 'true', 'AuthenticationType', 'apikey', 'ApiKeys', JSON.stringify(KEYS)].map(
    (flag, index) => (index % 2 === 0 ? `--Authentication.${flag}` : flag),
  )
  const { url } = await startHere(t, { data: { a: [] }, flags })
  const headersOf = (index: number) => ({ 'X-Api-Key': KEYS[index]?.Key as string })
  for (const index of [0, 1, 1, 2]) await sendJson(url, 'POST', '/api/a', {}, headersOf(index))
  const get = (search: string) => send(url, 'GET', `/events?aggregate=count&${search}`, { headers: headersOf(0) })
  const rows = (await get('groupBy=actor&type=ItemCreated')).json()
  const [ada, emile, long] = KEYS.map(({ Name }) => Name)
  assert.deepEqual(rows, [
    { actor: ada, count: 1 },
    { actor: long, count: 1 },
    { actor: emile, count: 2 },
  ])
  assert.deepEqual(
    (await get(`actor=${long}&window=1y`)).json<Row[]>().map(({ count }) => count),
    [1],
  )
  assert.equal((await send(url, 'GET', '/events?aggregate=count')).status, 401)
})

test('counts are right after kills of the process', async (t) => {
  const random = new Random(SEED)
  const directory = await temporaryDirectory(t)
  for (let round = 0; round < 3; round++) {
    const program = await startProgram(t, { directory, data: { a: [] } })
    const writes = Array.from({ length: 200 }, (_, step) => writeSomething(program, random, step).catch(() => {}))
    await Promise.race(writes.slice(50))
    await program.stop('SIGKILL')
    await Promise.all(writes)
    const again = await startProgram(t, { directory })
    await checkCounts(again.url, random, 10)
    await again.stop()
  }
})

test('events that an earlier version stored are counted in the background, also after interruptions', async (t) => {
  const random = new Random(SEED)
  const time = clock()
  const service = await startHere(t, { data: { a: [], b: [] }, now: time.now })
  for (let step = 0; step < 150; step++) {
    time.pass(random.integer(1_000_000))
    await writeSomething(service, random, step)
  }
  const expected = await rowsOf(service.url, 'groupBy=type,collection&window=15m')
  await service.stop()
  const directory = await temporaryDirectory(t)
  cpSync(service.directory, directory, { recursive: true, preserveTimestamps: true })
  const path = join(directory, 'db.journal', 'store')
  const opened = new StoreDirectory(path)
  const store = opened.open()
  store.transaction(() => makeFormat6(store))
  await opened.close(store)
  const point = new RecoveryFile(join(path, 'recovery-point'))
  await point.write({ ...(point.read() as RecoveryPoint), format: 6 })
  // Each start is interrupted at once, and the last one writes meanwhile.
  for (let start = 0; start < 3; start++) await (await startHere(t, { directory, now: time.now })).stop()
  const last = await startHere(t, { directory, now: time.now })
  time.pass(3_600_000)
  await sendJson(last.url, 'POST', '/api/a', {})
  const search = '/events?aggregate=count&groupBy=type,collection&window=15m&until='
  const until15 = new Date(time.now().getTime() - 1_800_000).toISOString()
  const reply = await until('the events to be counted', async () => {
    const asked = await send(last.url, 'GET', search + until15)
    assert.ok(asked.status === 200 || asked.headers['retry-after'] !== undefined, asked.text)
    return asked.status === 200 && asked
  })
  assert.deepEqual(reply.json(), expected)
  await checkCounts(last.url, random, 30)
})

test('counts without windows are one row for each group, or one row', async (t) => {
  const { url } = await startServer(t, { data: { posts: [{ id: 1 }, { id: 2 }], profile: { n: 1 } } })
  assert.deepEqual(await rowsOf(url, ''), [{ count: 4 }])
  assert.deepEqual(await rowsOf(url, 'type=IdsReset'), [{ count: 0 }])
  assert.deepEqual(await rowsOf(url, 'collection=nothing'), [{ count: 0 }])
  assert.deepEqual(await rowsOf(url, 'until=1969-01-01'), [{ count: 0 }])
  assert.deepEqual(await rowsOf(url, 'type=IdsReset&window=1h'), [])
  assert.deepEqual(await rowsOf(url, 'groupBy=collection,type'), [
    { collection: 'posts', type: 'CollectionCreated', count: 1 },
    { collection: 'posts', type: 'ItemCreated', count: 2 },
    { collection: 'profile', type: 'ObjectCreated', count: 1 },
  ])
  const reply = await send(url, 'GET', '/events?aggregate=count&window=1h&_=7')
  assert.deepEqual([reply.headers['content-type'], reply.headers['journal-position']], ['application/json', '4'])
})

test('counts that cannot be given are 400 with the reason, and other formats than JSON 406', async (t) => {
  const { url } = await startServer(t, { data: { posts: [] }, flags: ['--Limits.PageSize', '10'] })
  for (const [search, why] of [
    ['groupBy=type', /groupBy needs aggregate=count/],
    ['window=1h', /window needs aggregate=count/],
    ['aggregate=sum', /aggregate must be count/],
    ['aggregate=count&groupBy=id', /groupBy must be type or collection or actor/],
    ['aggregate=count&groupBy=type,type', /names a column twice/],
    ['aggregate=count&tz=UTC', /tz needs window/],
    ['aggregate=count&window=90s', /whole minutes/],
    ['aggregate=count&window=x', /must be a number of s, m, h/],
    ['aggregate=count&window=1h&tz=Nowhere', /must be a time zone/],
    ['aggregate=count&from=1', /from cannot be combined with aggregate/],
    ['aggregate=count&limit=1', /limit cannot/],
    ['aggregate=count&order=asc', /order cannot/],
    ['aggregate=count&id=1', /id cannot/],
    ['aggregate=count&requestId=1', /requestId cannot/],
    ['aggregate=count&follow=false', /follow cannot/],
    ['aggregate=count&changes=true', /changes cannot/],
  ] as const) {
    const reply = await send(url, 'GET', `/events?${search}`)
    assert.equal(reply.status, 400, search)
    assert.match(reply.text, why)
  }
  for (const Accept of ['application/x-ndjson', 'text/event-stream']) {
    assert.equal((await send(url, 'GET', '/events?aggregate=count', { headers: { Accept } })).status, 406)
  }
  const headers = { Accept: 'application/x-ndjson, application/json;q=0.5' }
  assert.equal((await send(url, 'GET', '/events?aggregate=count', { headers })).status, 200)
  for (let n = 0; n < 11; n++) await send(url, 'PUT', `/api/c${n}`)
  const many = await send(url, 'GET', '/events?aggregate=count&groupBy=collection')
  assert.match(many.text, /more than 10 rows/)
  assert.equal(many.status, 400)
})
