import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { before, describe, type TestContext, test } from 'node:test'
import type { JsonObject } from '../../src/json/value.ts'
import { within } from '../support/deadline.ts'
import { type Reply, send, sendJson } from '../support/requests.ts'
import type { RunningServer } from '../support/server.ts'
import { startServer } from '../support/service.ts'

const MAC = 'F4:A5:74:89:16:57'
const ITEM = `/api/sensors/${encodeURIComponent(MAC)}`
const READINGS = 1200

interface Event extends JsonObject {
  readonly position: number
  readonly journal: string
  readonly type: string
  readonly collection: string
  readonly time: string
  readonly actor: string
  readonly requestId: string
}

let server: RunningServer
/** The whole journal, read once as NDJSON. */
let journal: Event[]

before(async (t) => {
  const scope = t as unknown as TestContext
  const readings = Array.from({ length: READINGS }, (_, id) => ({ id, humidity: id % 100 }))
  server = await startServer(scope, {
    data: { sensors: [{ id: 'first', n: 1 }], readings },
    flags: ['--Api.UpsertOnPut', 'true'],
  })
  await write('PUT', ITEM, { id: MAC, n: 1 }, 201)
  await write('PUT', ITEM, { id: MAC, n: 2 }, 204)
  await write('PATCH', ITEM, { n: 3 }, 204)
  await write('PATCH', ITEM, { n: 3 }, 204)
  await write('DELETE', ITEM, undefined, 204)
  await write('DELETE', ITEM, undefined, 404)
  await write('PUT', ITEM, { id: MAC, n: 4 }, 201)
  await write('POST', '/api/sensors', { n: 5 }, 201)
  await write('POST', '/api/new%20one', { n: 6 }, 201)
  journal = linesOf(await get('/events', 'application/x-ndjson'))
})

async function write(method: string, path: string, body: unknown, status: number): Promise<void> {
  const headers = { 'X-Request-Id': `${method}-${status}` }
  const reply =
    body === undefined
      ? await send(server.url, method, path, { headers })
      : await sendJson(server.url, method, path, body, headers)
  assert.equal(reply.status, status, reply.text)
}

function get(path: string, accept?: string): Promise<Reply> {
  return send(server.url, 'GET', path, accept === undefined ? {} : { headers: { Accept: accept } })
}

async function events(path: string): Promise<Event[]> {
  const reply = await get(path)
  assert.equal(reply.status, 200, reply.text)
  assert.equal(reply.headers['content-type'], 'application/json')
  return reply.json<Event[]>()
}

function linesOf(reply: Reply): Event[] {
  assert.equal(reply.status, 200)
  assert.equal(reply.headers['content-type'], 'application/x-ndjson')
  assert.ok(reply.text === '' || reply.text.endsWith('\n'), 'every line is ended')
  return reply.text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Event)
}

function nextOf(reply: Reply): string | undefined {
  return /^<([^>]*)>; rel="next"$/.exec(String(reply.headers.link ?? ''))?.[1]
}

async function isRefused(path: string, status = 400): Promise<void> {
  const reply = await get(path)
  assert.equal(reply.status, status, `${path}: ${reply.text}`)
  assert.equal(reply.headers['content-type'], 'application/problem+json')
}

describe('the journal', () => {
  test('contains every event, oldest first, at positions without gaps', () => {
    const seeded = 2 + 1 + READINGS
    const written = 6 + 1 + 2
    assert.equal(journal.length, seeded + written)
    assert.deepEqual(
      journal.map(({ position }) => position),
      journal.map((_, index) => index + 1),
    )
    assert.deepEqual(
      [...journal].map(({ time }) => time).sort(),
      journal.map(({ time }) => time),
    )
  })

  test('contains revision and prior of create, replace, patch, delete and create again', () => {
    const story = journal.filter(({ id }) => id === MAC)
    const first = story[0]?.position as number
    assert.deepEqual(
      story.map(({ position, type, revision, prior, item }) => ({ position, type, revision, prior, item })),
      [
        { type: 'ItemCreated', prior: 0, item: { id: MAC, n: 1 } },
        { type: 'ItemReplaced', prior: first, item: { id: MAC, n: 2 } },
        { type: 'ItemPatched', prior: first + 1, item: { id: MAC, n: 3 } },
        { type: 'ItemPatched', prior: first + 2, item: { id: MAC, n: 3 } },
        { type: 'ItemDeleted', prior: first + 3, item: undefined },
        { type: 'ItemCreated', prior: first + 4, item: { id: MAC, n: 4 } },
      ].map((event, index) => ({ position: first + index, ...event, revision: index + 1 })),
    )
  })

  test('contains time, actor and request id', () => {
    const [seeded] = journal
    assert.equal(seeded?.actor, 'data-file')
    const [, replaced] = journal.filter(({ id }) => id === MAC)
    assert.equal(replaced?.actor, 'anonymous')
    assert.equal(replaced?.requestId, 'PUT-204')
    for (const { time } of journal) assert.equal(new Date(time).toISOString(), time)
  })

  test('a collection that a write creates has its own event before that of the item', () => {
    assert.deepEqual(
      journal.slice(-2).map(({ type, collection, id, requestId }) => ({ type, collection, id, requestId })),
      [
        { type: 'CollectionCreated', collection: 'new one', id: undefined, requestId: 'POST-201' },
        { type: 'ItemCreated', collection: 'new one', id: 0, requestId: 'POST-201' },
      ],
    )
  })
})

describe('a page of events', () => {
  test('has 512 events from the first on, and a link to the next page', async () => {
    const reply = await get('/events')
    assert.deepEqual(reply.json(), journal.slice(0, 512))
    assert.equal(nextOf(reply), '/events?from=513')
    assert.equal(reply.headers['journal-position'], String(journal.length))
    assert.match(String(reply.headers.vary), /\baccept\b/i)
  })

  test('begins at from, inclusive, and contains up to limit events', async () => {
    assert.deepEqual(await events('/events?from=3&limit=2'), journal.slice(2, 4))
    assert.deepEqual(await events('/events?from=0&limit=1'), journal.slice(0, 1))
    assert.deepEqual(await events(`/events?from=${journal.length}`), journal.slice(-1))
  })

  test('is empty behind the last event, without a next link', async () => {
    for (const from of [journal.length + 1, 'now']) {
      const reply = await get(`/events?from=${from}`)
      assert.deepEqual([reply.status, reply.text, reply.headers.link], [200, '[]', undefined])
    }
  })

  test('beyond the next position is 400, in every form', async () => {
    for (const from of [journal.length + 2, '9'.repeat(30), '9'.repeat(400)]) {
      for (const accept of ['application/json', 'application/x-ndjson', 'text/event-stream']) {
        const reply = await send(server.url, 'GET', `/events?from=${from}`, { headers: { Accept: accept } })
        assert.equal(reply.status, 400, accept)
        assert.match(reply.text, new RegExp(`from=.* is beyond the last position, ${journal.length}`))
      }
    }
  })

  test('of another journal than the client knows is 409 with both ids', async () => {
    const id = journal[0]?.journal as string
    assert.equal((await get(`/events?from=2&journal=${id}`)).status, 200)
    const other = await get('/events?from=2&journal=5e1f7c1e-7f0f-4a43-9a55-3a2f51b6c1ad')
    assert.equal(other.status, 409)
    assert.match(other.text, new RegExp(`The journal is ${id}, and not .*5e1f7c1e-`))
  })

  test('following next visits the whole journal, with all other parameters kept', async () => {
    for (const query of [
      'limit=300',
      'limit=10000',
      'collection=readings&limit=400&type=ItemCreated',
      'id=7&limit=1',
    ]) {
      const walked: Event[] = []
      let next: string | undefined = `/events?${query}`
      while (next) {
        const reply: Reply = await get(next)
        walked.push(...reply.json<Event[]>())
        next = nextOf(reply)
      }
      assert.deepEqual(
        walked,
        linesOf(await get(`/events?${query.replace(/&?limit=\d+/, '')}`, 'application/x-ndjson')),
      )
    }
  })

  test('has no next link when no later event matches', async () => {
    const reply = await get('/events?collection=sensors&limit=9')
    assert.equal(reply.json<Event[]>().length, 9)
    assert.equal(nextOf(reply), undefined)
  })
})

describe('the filters of events', () => {
  const expects = async (query: string, matches: (event: Event) => boolean): Promise<void> => {
    const wanted = journal.filter(matches)
    assert.deepEqual(await events(`/events?limit=10000&${query}`), wanted, query)
    assert.deepEqual(linesOf(await get(`/events?${query}`, 'application/x-ndjson')), wanted, query)
  }

  test('collection matches the exact name', async () => {
    await expects('collection=sensors', ({ collection }) => collection === 'sensors')
    await expects('collection=new+one', ({ collection }) => collection === 'new one')
    await expects('collection=Sensors', () => false)
    await expects('collection=__proto__', () => false)
  })

  test('id matches the id as text', async () => {
    await expects(`id=${encodeURIComponent(MAC)}`, ({ id }) => id === MAC)
    await expects('id=7', ({ id }) => id === 7)
    await expects('id=07', () => false)
    await expects('id=undefined', () => false)
  })

  test('type matches the event type', async () => {
    for (const type of ['ItemCreated', 'ItemReplaced', 'ItemPatched', 'ItemDeleted', 'CollectionCreated']) {
      assert.ok(journal.some((event) => event.type === type))
      await expects(`type=${type}`, (event) => event.type === type)
    }
    await expects('type=CollectionRemoved', () => false)
  })

  test('actor matches the user', async () => {
    await expects('actor=anonymous', ({ actor }) => actor === 'anonymous')
    await expects('actor=data-file', ({ actor }) => actor === 'data-file')
    await expects('actor=', () => false)
  })

  test('requestId matches the events of one request, of which there may be many', async () => {
    const seeded = (journal[0] as Event).requestId
    const replaced = (journal.find(({ type }) => type === 'ItemReplaced') as Event).requestId
    for (const wanted of [seeded, replaced]) {
      await expects(`requestId=${encodeURIComponent(wanted)}`, ({ requestId }) => requestId === wanted)
    }
    assert.ok(journal.filter(({ requestId }) => requestId === seeded).length > 1)
    await expects('requestId=', () => false)
  })

  test('since and until are inclusive instants with microseconds and zones', async () => {
    const middle = (journal.find(({ id }) => id === MAC) as Event).time
    const at = Date.parse(middle)
    await expects(`since=${middle}`, ({ time }) => Date.parse(time) >= at)
    await expects(`until=${middle}`, ({ time }) => Date.parse(time) <= at)
    await expects(`since=${middle.replace('Z', '001Z')}`, ({ time }) => Date.parse(time) > at)
    await expects(`until=${middle.replace('Z', '999')}`, ({ time }) => Date.parse(time) <= at)
    await expects(`since=${middle}&until=${middle}`, ({ time }) => Date.parse(time) === at)
    const zoned = new Date(at + 3_600_000).toISOString().replace('Z', '+01:00')
    await expects(`since=${zoned}`, ({ time }) => Date.parse(time) >= at)
    await expects(`since=${encodeURIComponent(zoned)}`, ({ time }) => Date.parse(time) >= at)
    await expects('since=2000-01-01', () => true)
    await expects('until=2000-01-01', () => false)
  })

  test('all filters can be combined', () =>
    expects(
      `from=5&collection=sensors&type=ItemPatched&actor=anonymous&id=${MAC}&since=2000-01-01&until=3000-01-01`,
      ({ id, type }) => id === MAC && type === 'ItemPatched',
    ))
})

describe('a stream of events', () => {
  test('contains all matching events, one a line, within from and limit', async () => {
    const path = '/events?from=1000&collection=readings'
    const wanted = journal.slice(999).filter(({ collection }) => collection === 'readings')
    assert.ok(wanted.length > 0)
    assert.deepEqual(linesOf(await get(path, 'application/x-ndjson')), wanted)
    assert.deepEqual(linesOf(await get(`${path}&limit=3`, 'application/x-ndjson')), wanted.slice(0, 3))
    assert.deepEqual(linesOf(await get('/events?collection=nowhere', 'application/x-ndjson')), [])
  })

  test('the server is unaffected when a client disconnects', async () => {
    const { hostname, port } = new URL(server.url)
    await within(
      'the end of a stream that is left',
      new Promise<void>((resolve, reject) => {
        const asked = request(
          { hostname, port, path: '/events', headers: { Accept: 'application/x-ndjson' } },
          (answer) => answer.once('data', () => answer.destroy()).once('close', resolve),
        )
        asked.on('error', reject).end()
      }),
    )
    assert.equal((await get('/events/1')).status, 200)
    assert.equal(
      (await send(server.url, 'HEAD', '/events', { headers: { Accept: 'application/x-ndjson' } })).status,
      200,
    )
    assert.doesNotMatch(server.log(), /"level":[56]0/)
  })
})

describe('one event', () => {
  test('is found by its position, with its fields in the documented order', async () => {
    const replaced = journal.find(({ type }) => type === 'ItemReplaced') as Event
    const reply = await get(`/events/${replaced.position}`)
    assert.deepEqual(reply.json(), replaced)
    assert.deepEqual(Object.keys(reply.json<object>()), [
      'position',
      'journal',
      'type',
      'collection',
      'id',
      'revision',
      'prior',
      'time',
      'actor',
      'requestId',
      'item',
    ])
    assert.deepEqual(linesOf(await get(`/events/${replaced.position}`, 'application/x-ndjson')), [replaced])
  })

  test('every event of a write has a position of its own', async () => {
    for (const wanted of journal.slice(-2)) {
      assert.deepEqual((await get(`/events/${wanted.position}`)).json(), wanted)
    }
  })

  test('is not found before the first position or beyond the head', async () => {
    for (const position of ['0', journal.length + 1, '9'.repeat(30)]) await isRefused(`/events/${position}`, 404)
  })

  test('a position must be a non-negative integer', async () => {
    for (const position of ['x', '-1', '1.5', '1e2', '%31x', '%zz', '%00', '__proto__'])
      await isRefused(`/events/${position}`)
  })
})

describe('invalid requests for events', () => {
  test('invalid values and unknown or repeated parameters are rejected for every content type', async () => {
    for (const query of [
      'from=x',
      'from=-1',
      'from=',
      'from=1.5',
      'limit=0',
      'limit=10001',
      'limit=x',
      'type=Nothing',
      'type=toString',
      'since=yesterday',
      'until=2026-02-30',
      'since=',
      'page=1',
      'collection_ne=x',
      'constructor=1',
      'from=1&from=2',
      'collection=a&collection=b',
      'id=%',
      `${'a=1&'.repeat(1001)}`,
    ]) {
      await isRefused(`/events?${query}`)
      assert.equal((await get(`/events?${query}`, 'application/x-ndjson')).status, 400)
    }
  })

  test('an unsupported content type gets 406', async () => {
    for (const path of ['/events', '/events/1']) {
      for (const accept of ['text/html', 'application/xml', 'text/event-streams']) {
        assert.equal((await get(path, accept)).status, 406, `${path} as ${accept}`)
      }
      assert.equal((await get(path, 'text/html, */*;q=0.1')).headers['content-type'], 'application/json')
      assert.equal(
        (await get(path, 'application/json;q=0.5, application/x-ndjson')).headers['content-type'],
        'application/x-ndjson',
      )
    }
  })

  test('parameters of Accept do not change the type', async () => {
    for (const path of ['/events', '/events/1']) {
      for (const type of ['application/json', 'application/x-ndjson']) {
        for (const accept of [`${type}; charset=utf-8`, `${type};a="b,c;d";q=0.5, */*;e=f;q=0.1`]) {
          const { status, headers } = await get(path, accept)
          assert.deepEqual([status, headers['content-type']], [200, type], `${path} as ${accept}`)
        }
      }
    }
    const stream = await get('/events?follow=false', 'Text/Event-Stream; charset=utf-8')
    assert.deepEqual([stream.status, stream.headers['content-type']], [200, 'text/event-stream'])
  })

  test('a single event is no stream', async () => {
    assert.equal((await get('/events/1', 'text/event-stream')).status, 406)
  })

  test('writes to events get 405', async () => {
    for (const path of ['/events', '/events/1']) {
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
        const reply = await send(server.url, method, path)
        assert.deepEqual([reply.status, reply.headers.allow], [405, 'GET, HEAD, OPTIONS'], `${method} ${path}`)
      }
      const options = await send(server.url, 'OPTIONS', path)
      assert.deepEqual([options.status, options.headers.allow], [200, 'GET, HEAD, OPTIONS'])
    }
  })
})

describe('newest first', () => {
  const positions = async (query: string) => (await events(`/events?order=desc&${query}`)).map((one) => one.position)
  const backwards = (matches: (event: Event) => boolean) =>
    journal
      .filter(matches)
      .map((event) => event.position)
      .reverse()

  test('a page has the same events in reverse order, and its next link continues down', async () => {
    const found: number[] = []
    let path: string | undefined = '/events?order=desc&limit=500'
    while (path) {
      const reply: Reply = await get(path)
      found.push(...reply.json<Event[]>().map(({ position }) => position))
      path = /<([^>]*)>; rel="next"/.exec(String(reply.headers.link ?? ''))?.[1]
    }
    assert.deepEqual(
      found,
      backwards(() => true),
    )
  })

  test('works with every filter, and with from', async () => {
    const last = journal.at(-1) as Event
    assert.deepEqual(await positions(`from=20&limit=3`), [20, 19, 18])
    assert.deepEqual(
      await positions('collection=sensors'),
      backwards(({ collection }) => collection === 'sensors'),
    )
    assert.deepEqual(
      await positions(`collection=sensors&id=${encodeURIComponent(MAC)}`),
      backwards(({ id }) => id === MAC),
    )
    assert.deepEqual(
      await positions('type=ItemDeleted'),
      backwards(({ type }) => type === 'ItemDeleted'),
    )
    assert.deepEqual(
      await positions(`limit=1000&from=${last.position - 2}&since=${last.time}`),
      backwards(({ time, position }) => time >= last.time && position <= last.position - 2),
    )
    assert.deepEqual(await positions('from=0'), [])
  })

  test('order applies only to pages, and is asc or desc', async () => {
    assert.equal((await get('/events?order=up')).status, 400)
    await isRefused('/events?order=desc&from=now')
    assert.equal((await get('/events?order=desc', 'application/x-ndjson')).status, 400)
    assert.equal((await get('/events?order=desc', 'text/event-stream')).status, 400)
    assert.deepEqual(await events('/events?order=asc&limit=2'), await events('/events?limit=2'))
  })
})

test('removals and reorderings in an edited data file make events of the collection', async (t) => {
  const [ordered, removed] = [[{ id: 1 }, { id: 2 }, { id: 'three' }], [{ id: 'x' }]]
  const first = await startServer(t, { data: { ordered, removed } })
  await first.stop()
  assert.deepEqual(JSON.parse(await readFile(first.file, 'utf8')), { ordered, removed })
  await writeFile(first.file, JSON.stringify({ ordered: [{ id: 'three' }, { id: 1 }, { id: 2 }] }))
  const second = await startServer(t, { directory: first.directory })
  const told = (await send(second.url, 'GET', '/events?from=7')).json<Event[]>()
  const brief = told.map(({ type, collection, id, ids, prior, revision }) => ({
    type,
    collection,
    id,
    ids,
    prior,
    revision,
  }))
  const none = { id: undefined, ids: undefined, prior: undefined, revision: undefined }
  const order = { ...none, type: 'CollectionOrdered', collection: 'ordered', ids: ['three', 1, 2] }
  const deletion = { ...none, type: 'ItemDeleted', collection: 'removed', id: 'x', prior: 6, revision: 2 }
  const removal = { ...none, type: 'CollectionRemoved', collection: 'removed' }
  assert.deepEqual(
    brief.filter(({ collection }) => collection === 'ordered'),
    [order],
  )
  assert.deepEqual(
    brief.filter(({ collection }) => collection === 'removed'),
    [deletion, removal],
  )
  assert.deepEqual(Object.keys(told.find(({ type }) => type === 'CollectionOrdered') ?? {}).at(-1), 'ids')
  for (const { type } of [order, removal]) {
    assert.equal((await send(second.url, 'GET', `/events?type=${type}`)).json<Event[]>().length, 1)
  }
})

test('pages of long events end earlier, each with a Content-Length and the address of the next, in either order', async (t) => {
  const { url } = await startServer(t, { data: {} })
  const texts = Array.from({ length: 9 }, (_, n) => 'é'.repeat(n % 2 === 0 ? 400_000 : 10))
  for (const text of texts) assert.equal((await sendJson(url, 'POST', '/api/long', { text })).status, 201)
  for (const order of ['asc', 'desc']) {
    const found: number[] = []
    let next: string | undefined = `/events?type=ItemCreated&limit=8&order=${order}`
    while (next !== undefined) {
      const page = await send(url, 'GET', next)
      assert.equal(page.status, 200)
      assert.equal(page.headers['content-length'], String(Buffer.byteLength(page.text)))
      const lengths = page.json<{ item: { text: string } }[]>().map(({ item }) => item.text.length)
      assert.ok(lengths.length < 8, 'a page of such events is shorter than its limit')
      found.push(...lengths)
      next = /<(.*)>; rel="next"/.exec(String(page.headers.link))?.[1]
    }
    const lengths = texts.map(({ length }) => length)
    assert.deepEqual(found, order === 'asc' ? lengths : lengths.toReversed())
  }
})
