import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { DomainEvent } from '../../src/events/event.ts'
import { apiResources } from '../../src/http/api.ts'
import { type HttpRequest, Reply } from '../../src/http/exchange.ts'
import { Document } from '../../src/json/document.ts'
import { Past } from '../../src/projections/past.ts'
import { Views } from '../../src/projections/views.ts'
import { Queries } from '../../src/query/queries.ts'
import { Turns } from '../../src/runtime/turns.ts'
import { apiRequest } from '../support/api.ts'
import { project, recordOf, storedHistory } from '../support/collections.ts'

const LIMITS = {
  bytes: 1000,
  parameters: 10,
  pageSize: 100,
  scanSeconds: 1,
  bodyBytes: 1000,
  itemValues: 1000,
  batchBytes: 1000,
  batchItems: 1,
}

/** The routes over views of one collection with one item, whose `n` is the position that it came from. */
function served(turns = new Turns()) {
  const now = () => new Date()
  const views = Views.temporary()
  const history = storedHistory(views)
  const journal = {
    id: '00000000-0000-4000-8000-000000000000',
    timeMs: 0,
    get head() {
      return views.position
    },
    async *read() {},
  }
  const apply = (event: DomainEvent): void => {
    project(views, recordOf(views.position + 1, [event], now().getTime()))
  }
  const write = (): void => {
    const position = views.position + 1
    const item = Document.of({ id: 1, n: position })
    const stamp = { collection: 'things', id: 1, revision: position - 1, prior: position === 2 ? 0 : position - 1 }
    apply({ type: position === 2 ? 'ItemCreated' : 'ItemReplaced', ...stamp, item })
  }
  apply({ type: 'CollectionCreated', collection: 'things' })
  write()
  const handler = {
    bulk: () => Promise.reject(new Error('nothing is written')),
    restore: () => Promise.reject(new Error('nothing is restored')),
    handle: () => Promise.reject(new Error('nothing is written here')),
  }
  const past = new Past(journal, views, history)
  const queries = new Queries({ views, bytes: 2 ** 20, turns })
  const hints = { check: () => true }
  const resources = apiResources({
    views,
    handler,
    past,
    queries,
    journal,
    now,
    hints,
    isJsonServer: false,
    times: new Map(),
    limits: LIMITS,
    turns,
    useResultObject: false,
    idField: 'id',
  })
  const ask = async (path: string, querystring: string, headers: HttpRequest['headers'] = {}, reply = new Reply()) => {
    const resource = resources.find((one) => one.path.split('/').length === path.split('/').length)
    await resource?.routes.GET?.(apiRequest(path, querystring, headers), reply)
    return reply
  }
  return { apply, write, ask }
}

/** Lets so many others that wait for nothing go first. */
async function after(turns: number): Promise<void> {
  for (let turn = 0; turn < turns; turn++) await undefined
}

for (const [path, shown] of [
  ['/api/things/1', (body: string) => (JSON.parse(body) as { n: number }).n],
  ['/api/things/1/n', Number],
  ['/api/things', (body: string) => (JSON.parse(body) as [{ n: number }])[0].n],
] as const) {
  test(`${path} shows the state at the position that it names, when events are appended meanwhile`, async () => {
    const { write, ask } = served()
    for (let turns = 0; turns < 20; turns++) {
      const asked = ask(path, 'x_exists=false')
      await after(turns)
      write()
      const { body, position } = await asked
      assert.equal(position, shown(String(body)), `an event ${turns} turns after the question`)
    }
  })
}

test('a 304 of a collection has the position of the matching ETag', async () => {
  const { write, ask } = served()
  for (let turns = 0; turns < 20; turns++) {
    const asked = ask('/api/things', 'x_exists=false', { 'if-none-match': '*' })
    await after(turns)
    write()
    const { status, headers, position } = await asked
    assert.equal(status, 304)
    assert.equal(headers[headers.indexOf('ETag') + 1], `"${position}-00000000-0000-4000-8000-000000000000"`)
  }
})

test('a collection that is removed during a scan is returned as it was at the begin of the request', async () => {
  let time = 0
  // Every look at the clock takes a millisecond, so that nothing is done at once.
  const { apply, ask } = served(new Turns(() => time++))
  for (let id = 2; id < 50; id++) {
    apply({ type: 'ItemCreated', collection: 'things', id, revision: 1, prior: 0, item: Document.of({ id }) })
  }
  const asked = ask('/api/things', 'q=4')
  apply({ type: 'ItemDeleted', collection: 'things', id: 4, revision: 2, prior: 5 })
  apply({ type: 'CollectionRemoved', collection: 'things' })
  const { body, position, headers } = await asked
  assert.deepEqual(
    (JSON.parse(String(body)) as { id: number }[]).map(({ id }) => id),
    [4, 14, 24, 34, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49],
  )
  assert.equal(position, 50)
  assert.equal(headers[headers.indexOf('ETag') + 1], '"50-00000000-0000-4000-8000-000000000000"')
  await assert.rejects(ask('/api/things', 'q=4'), { code: 'NotFound' })
})
