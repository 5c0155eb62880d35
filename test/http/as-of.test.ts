import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { after, describe, test } from 'node:test'
import { turnsUntil } from '../support/deadline.ts'
import { randomItem, randomQuery } from '../support/queries.ts'
import { Random, SEED } from '../support/random.ts'
import { headOf, type Reply, send, sendJson } from '../support/requests.ts'
import { json, type RunningServer, startProgram } from '../support/server.ts'
import { startServer } from '../support/service.ts'

async function look(server: RunningServer, path: string): Promise<{ status: number; at: number; body: string }> {
  const answer = await server.fetch(path)
  return {
    status: answer.status,
    at: Number(answer.headers.get('Journal-Position')),
    body: await answer.text(),
  }
}

function asOf(path: string, moment: number | string): string {
  return `${path}${path.includes('?') ? '&' : '?'}asOf=${encodeURIComponent(moment)}`
}

describe('asOf', async () => {
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

const EVENTS = Number(process.env.PAST_EVENTS ?? 600)
const QUERIES = Number(process.env.PAST_QUERIES ?? 30)
const RESTORES = Number(process.env.PAST_RESTORES ?? 1)
const WRITERS = 12
const KEYS = 120
const COLLECTIONS = ['a', 'b', 'c d']
/** Small segments, so that the past lies in many. */
const FLAGS = ['--Api.UpsertOnPut', 'true', '--Journal.SegmentBytes', String(Math.min(300_000, EVENTS * 50))]

/** An answer, as far as it must be the same again. */
interface Answer {
  readonly status: number
  readonly text: string
  readonly total: string | undefined
  readonly link: string | undefined
  readonly tag: string | undefined
}

interface Seen {
  readonly path: string
  readonly at: number
  readonly answer: Answer
}

function answerOf({ status, text, headers }: Reply): Answer {
  const { etag: tag, link } = headers
  const total = headers['x-total-count']
  return { status, text, total: total as string | undefined, link: withoutAsOf(link as string | undefined), tag }
}

function withoutAsOf(link: string | undefined): string | undefined {
  return link?.replace(/asOf=[^&>]*&/g, '').replace(/[?&]asOf=[^&>]*/g, '')
}

/** The parameter goes anywhere among the others. */
function asOfAnywhere(random: Random, path: string, moment: number | string): string {
  const [place = '', query = ''] = path.split('?')
  const parameters = query === '' ? [] : query.split('&')
  parameters.splice(random.integer(parameters.length + 1), 0, `asOf=${encodeURIComponent(moment)}`)
  return `${place}?${parameters.join('&')}`
}

function randomPath(random: Random): string {
  const collection = `/api/${encodeURIComponent(random.pick([...COLLECTIONS, ...(random.chance(0.05) ? ['none'] : [])]))}`
  const item = `${collection}/${random.integer(KEYS + 5)}`
  const kind = random.integer(20)
  if (kind === 0) return '/api'
  if (kind < 4) return item
  if (kind < 6) return `${item}/${random.pick(['n', 'data/deep', 'data/x', 'tags/0', 'list/1/v', 'list', 'no'])}`
  const query = randomQuery(random)
  return query === '' ? collection : `${collection}?${query}`
}

/** Many clients that write, one of them also the data file and the past, and that note what they are answered. */
class Story {
  readonly seen: Seen[] = []
  readonly #server: RunningServer
  readonly #random: Random
  head = 0
  #isBusy = false

  constructor(server: RunningServer, random: Random) {
    this.#server = server
    this.#random = random
  }

  async unfold(): Promise<void> {
    await Promise.all(Array.from({ length: WRITERS }, () => this.#writer()))
  }

  async #writer(): Promise<void> {
    while (this.head < EVENTS) {
      const isOften = this.#random.chance(0.004)
      if (isOften && !this.#isBusy) await this.#alone(() => (this.#random.chance(0.6) ? this.#edit() : this.#restore()))
      else await this.#write()
      if (this.seen.length < (QUERIES * this.head) / EVENTS) await this.#look(randomPath(this.#random))
    }
  }

  async #alone(work: () => Promise<void>): Promise<void> {
    this.#isBusy = true
    await work()
    this.#isBusy = false
  }

  async #write(): Promise<void> {
    const random = this.#random
    const collection = `/api/${encodeURIComponent(random.pick(COLLECTIONS))}`
    const item = `${collection}/${random.integer(KEYS)}`
    const kind = random.integer(13)
    if (kind === 12) await this.#turn(item)
    else if (kind < 2) this.#note(await send(this.#server.url, 'DELETE', item))
    else if (kind < 3) this.#note(await sendJson(this.#server.url, 'POST', collection, randomItem(random)))
    else if (kind < 6)
      this.#note(await sendJson(this.#server.url, 'PATCH', item, { n: random.integer(60), flag: null }))
    else this.#note(await sendJson(this.#server.url, 'PUT', item, randomItem(random)))
  }

  /** The same members in another order: the same to JSON, but not byte for byte. */
  async #turn(path: string): Promise<void> {
    const reply = await send(this.#server.url, 'GET', path)
    if (reply.status !== 200) return
    const turned = Object.fromEntries(Object.entries(reply.json<object>()).reverse())
    this.#note(await sendJson(this.#server.url, 'PUT', path, turned))
  }

  /** By hand: items taken out, moved, changed and put in; now and then a whole collection goes. */
  async #edit(): Promise<void> {
    const random = this.#random
    const file = JSON.parse(await readFile(this.#server.file, 'utf8')) as Record<string, object[]>
    for (const name of Object.keys(file)) {
      if (random.chance(0.15)) {
        delete file[name]
        continue
      }
      const items = (file[name] ?? []).filter(() => random.chance(0.95))
      file[name] = items.map((item) => (random.chance(0.2) ? { ...item, ...randomItem(random) } : item))
      if (random.chance(0.5)) file[name]?.reverse()
      if (random.chance(0.5)) file[name]?.unshift(randomItem(random))
    }
    await writeFile(this.#server.file, JSON.stringify(file))
    this.#note(await send(this.#server.url, 'POST', '/admin/reload'), 200)
  }

  async #restore(): Promise<void> {
    const random = this.#random
    const to = Math.max(0, this.head - random.integer(400))
    const collection = random.chance(0.5) ? { collection: 'a' } : {}
    const reply = await sendJson(this.#server.url, 'POST', '/admin/restore', { to, ...collection })
    this.#note(reply, 200)
  }

  #note(reply: Reply, ...statuses: readonly number[]): void {
    const expected = statuses.length > 0 ? statuses : [201, 204, 400, 404]
    assert.ok(expected.includes(reply.status), `${reply.status}: ${reply.text}`)
    this.head = Math.max(this.head, Number(reply.headers['journal-position'] ?? 0))
  }

  async #look(path: string): Promise<void> {
    const reply = await send(this.#server.url, 'GET', path)
    this.seen.push({ path, at: Number(reply.headers['journal-position']), answer: answerOf(reply) })
  }
}

/** Eight at a time, in any order: near moments and far ones are looked up beside each other. */
async function forEach<T>(random: Random, those: readonly T[], work: (one: T) => Promise<void>): Promise<void> {
  const left = [...those].sort(() => random.next() - 0.5)
  const worker = async (): Promise<void> => {
    for (let one = left.pop(); one !== undefined; one = left.pop()) await work(one)
  }
  await Promise.all(Array.from({ length: 8 }, worker))
}

test('past responses equal those of the time, and a restore brings that state back', async (t) => {
  const random = new Random(SEED)
  let server = await startProgram(t, { data: { a: [{ id: 0 }], b: [{ id: 'one', n: 1 }] }, flags: FLAGS })
  const story = new Story(server, random)
  await story.unfold()
  const { seen } = story
  t.diagnostic(
    `${story.head} events, ${seen.length} answers, ${seen.filter(({ answer }) => answer.status === 200).length} of them 200`,
  )

  const check = async ({ path, at, answer }: Seen): Promise<void> => {
    const context = `SEED=${SEED}, GET ${path} at ${at}`
    const again = await send(server.url, 'GET', asOfAnywhere(random, path, at))
    assert.deepEqual(answerOf(again), answer, context)
    assert.equal(again.headers['journal-position'], String(at), context)
    if (!random.chance(0.05) || at === 0 || at >= story.head) return
    const [time, next] = await Promise.all(
      [at, at + 1].map(
        async (position) => (await send(server.url, 'GET', `/events/${position}`)).json<{ time: string }>().time,
      ),
    )
    if (time === next) return
    assert.deepEqual(
      answerOf(await send(server.url, 'GET', asOfAnywhere(random, path, time as string))),
      answer,
      `${context}, ${time}`,
    )
  }
  await forEach(random, seen, check)
  await server.stop(random.chance(0.5) ? 'SIGKILL' : 'SIGTERM')
  server = await startProgram(t, { directory: server.directory, flags: FLAGS })
  await forEach(random, seen.slice(0, QUERIES / 3), check)

  /** Nothing is written meanwhile, so that what is now must be what was then. */
  const restored = async (to: number): Promise<number> => {
    const reply = await sendJson(server.url, 'POST', '/admin/restore', { to })
    assert.equal(reply.status, 200, reply.text)
    await forEach(random, seen, async ({ path }) => {
      const [now, then] = await Promise.all(
        [path, asOfAnywhere(random, path, to)].map((one) => send(server.url, 'GET', one)),
      )
      const isCollection = /^\/api\/[^/]+$/.test(path.split('?')[0] as string)
      const tag = isCollection ? { tag: undefined } : {}
      const [left, right] = [now, then].map((one) => ({ ...answerOf(one as Reply), ...tag }))
      assert.deepEqual(left, right, `SEED=${SEED}, GET ${path} restored to ${to}`)
    })
    return reply.json<{ events: number }>().events
  }
  for (let round = 0; round < RESTORES; round++) {
    const before = await headOf(server.url)
    // Near, so that little was written since to most items, or far.
    const to = round % 2 === 0 ? before - random.integer(200) : random.integer(before)
    const events = (await restored(to)) + (await restored(before))
    const told = await send(server.url, 'GET', `/events?from=${before + 1}&limit=10000`)
    assert.equal(told.json<unknown[]>().length, events, 'the journal has both')
  }
})
