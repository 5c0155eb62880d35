import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { after, describe, test } from 'node:test'
import { turnsUntil } from '../support/deadline.ts'
import { Random, SEED } from '../support/random.ts'
import { json, type RunningServer, startServer } from '../support/server.ts'

interface Recorded {
  readonly path: string
  readonly at: number
  readonly status: number
  readonly body: string
  readonly tag: string | null
  readonly total: string | null
}

const PATHS = [
  '/api',
  '/api/a',
  '/api/a?sort=-n&pageSize=3',
  '/api/a?n_gt=40&fields=id,n',
  '/api/b?q=7',
  '/api/b?page=2&pageSize=2',
  '/api/c',
  '/api/a/0',
  '/api/a/3',
  '/api/a/3/n',
  '/api/b/1/list/0',
  '/api/c/0',
]

async function look(server: RunningServer, path: string): Promise<Recorded> {
  const answer = await server.fetch(path)
  return {
    path,
    at: Number(answer.headers.get('Journal-Position')),
    status: answer.status,
    body: await answer.text(),
    tag: answer.headers.get('ETag'),
    total: answer.headers.get('X-Total-Count'),
  }
}

function asOf(path: string, moment: number | string): string {
  return `${path}${path.includes('?') ? '&' : '?'}asOf=${encodeURIComponent(moment)}`
}

/** Requests that write. */
const STEPS = Number(process.env.AS_OF_STEPS ?? 100)

/** A problem names its path and a sentence; what matters of it here is its status. */
function comparable({ status, body, tag, total }: Recorded) {
  return { status, body: status === 200 ? body : '', tag, total }
}

describe('asOf', async () => {
  test('the response equals, byte for byte, that of a GET at that position, even after a restart', async (t) => {
    const random = new Random(SEED)
    const flags = ['--Api.UpsertOnPut', 'true', '--Journal.SegmentBytes', '8192']
    let server = await startServer(t, { data: { a: [{ id: 0, n: 0 }], b: [] }, flags })
    const recorded: Recorded[] = []
    for (let step = 0; step < STEPS; step++) {
      const collection = random.pick(['a', 'b', 'b', ...(step > STEPS / 3 ? ['c'] : [])])
      const item = { n: random.integer(100), list: [random.integer(10)] }
      const path = `/api/${collection}/${random.integer(6)}`
      const kind = random.integer(20)
      if (kind < 5) await server.fetch(`/api/${collection}`, json('POST', item))
      else if (kind < 8) await server.fetch(path, { method: 'DELETE' })
      else if (kind < 11) await server.fetch(path, json('PATCH', { n: item.n }))
      else if (kind < 19) await server.fetch(path, json('PUT', item))
      else {
        const file = JSON.parse(await readFile(server.file, 'utf8')) as Record<string, unknown[]>
        file.a?.reverse()
        if (random.chance(0.3)) delete file.c
        await writeFile(server.file, JSON.stringify(file))
        assert.equal((await server.fetch('/admin/reload', { method: 'POST' })).status, 200)
      }
      if (random.chance(0.3)) recorded.push(await look(server, random.pick(PATHS)))
    }
    const check = async (): Promise<void> => {
      for (const before of recorded) {
        const context = `SEED=${SEED}, ${before.path} at ${before.at}`
        const now = await look(server, asOf(before.path, before.at))
        assert.deepEqual(comparable(now), comparable(before), context)
        assert.equal(now.at, before.at, context)
      }
    }
    assert.ok(recorded.length > STEPS / 6)
    await check()
    await server.stop()
    server = await startServer(t, { directory: server.directory, flags })
    await check()
  })

  test('an instant selects the state after the last event up to it', async (t) => {
    const server = await startServer(t, { data: { a: [] } })
    const times: string[] = []
    for (let n = 0; n < 3; n++) {
      await server.fetch('/api/a', json('POST', { n }))
      const events = (await (await server.fetch('/events?from=2')).json()) as { time: string }[]
      const event = events.at(-1) as { time: string }
      times.push(event.time)
      const before = event.time
      await turnsUntil('the next millisecond', () => new Date().toISOString() > before)
    }
    for (const [index, time] of times.entries()) {
      const { body, at } = await look(server, asOf('/api/a', time))
      assert.deepEqual(
        JSON.parse(body).map(({ n }: { n: number }) => n),
        [0, 1, 2].slice(0, index + 1),
      )
      assert.equal(at, index + 2)
    }
    const offset = new Date(Date.parse(times[1] as string) + 3_600_000).toISOString().replace('Z', '+01:00')
    assert.equal((await look(server, `/api/a?asOf=${offset}`)).at, 3, 'an unescaped plus is understood')
    assert.equal((await look(server, asOf('/api/a', '2000-01-01'))).status, 404)
    assert.equal((await look(server, asOf('/api', '2000-01-01'))).body, '[]')
  })

  test('past responses have a strong entity tag, and their links keep asOf', async (t) => {
    const server = await startServer(t, { data: { a: [{ id: 0 }, { id: 1 }, { id: 2 }] } })
    await server.fetch('/api/a/0', { method: 'DELETE' })
    const past = await server.fetch('/api/a?pageSize=1&asOf=4')
    assert.equal(past.headers.get('Cache-Control'), 'private, no-cache')
    assert.equal(past.headers.get('X-Total-Count'), '3')
    assert.match(past.headers.get('Link') ?? '', /<\/api\/a\?pageSize=1&asOf=4&page=2>; rel="next"/)
    const tag = past.headers.get('ETag') as string
    assert.match(tag, /^"/)
    const again = await server.fetch('/api/a?pageSize=1&asOf=4', { headers: { 'If-None-Match': tag } })
    assert.equal(again.status, 304)
    assert.equal(again.headers.get('Journal-Position'), '4')
    const head = await server.fetch('/api/a/0?asOf=4', { method: 'HEAD' })
    assert.equal(head.status, 200)
  })

  const untouched = await startServer({ after }, { data: { a: [{ id: 0 }] } })
  for (const [name, value, why] of [
    ['a position beyond the head', '99', /beyond the last position, 2/],
    ['an instant in the future', '2999-01-01', /in the future/],
    ['text that is neither', 'yesterday', /must be a position or an ISO 8601/],
    ['nothing', '', /must be a position or an ISO 8601/],
    ['a negative position', '-1', /must be a position or an ISO 8601/],
    ['two moments', '1&asOf=2', /given once/],
  ] as const) {
    test(`${name} gets 400`, async () => {
      for (const path of ['/api', '/api/a', '/api/a/0', '/api/a/0/id']) {
        const answer = await untouched.fetch(`${path}?asOf=${value}`)
        assert.equal(answer.status, 400, path)
        assert.match(((await answer.json()) as { detail: string }).detail, why)
      }
    })
  }

  test('many moments requested at once get right responses', async (t) => {
    const server = await startServer(t, { data: { a: [] } })
    for (let n = 0; n < 60; n++) await server.fetch('/api/a', json('POST', { n }))
    const moments = Array.from({ length: 60 }, (_, index) => 1 + ((index * 37) % 61))
    const counts = await Promise.all(
      moments.map(async (at) => (await server.fetch(`/api/a?asOf=${at}&fields=n`)).json() as Promise<unknown[]>),
    )
    assert.deepEqual(
      counts.map(({ length }) => length),
      moments.map((at) => at - 1),
    )
  })
})
