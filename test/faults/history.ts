import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { get, type IncomingMessage } from 'node:http'
import { createInterface } from 'node:readline'
import { isDeepStrictEqual } from 'node:util'
import type { JsonObject } from '../../src/json/value.ts'
import { each, fetch, within } from '../support/deadline.ts'
import type { Load, Sent } from './load.ts'

interface Told {
  readonly position: number
  readonly type: string
  readonly collection: string
  readonly id?: string | number
  readonly revision?: number
  readonly prior?: number
  readonly requestId: string
  readonly item?: JsonObject
}

interface Known {
  readonly item: JsonObject | undefined
  readonly revision: number
  readonly position: number
}

const TYPES = {
  POST: ['ItemCreated'],
  PUT: ['ItemCreated', 'ItemReplaced'],
  PATCH: ['ItemPatched'],
  DELETE: ['ItemDeleted'],
} as const

/**
 * The expected content of a journal, as its clients know it: everything acknowledged, as it was sent, and nothing that nobody
 * sent. It reads on from where it was; `checkAll` holds the whole again against what was read before.
 */
export class History {
  position = 0
  readonly #items = new Map<string, Map<string, Known>>()
  #digest = createHash('sha256')

  /**
   * Checks what was written since the last time; resolves with the requests that got no answer and left an event.
   * All requests of the load must have come to their end.
   */
  async check(url: string, load: Load): Promise<{ readonly unanswered: readonly string[] }> {
    const happened = new Map<string, number>()
    let begun: Told | undefined
    for await (const line of eventLines(url, this.position + 1)) {
      const event = JSON.parse(line) as Told
      const where = `position ${event.position}: ${line}`
      assert.equal(event.position, this.position + 1, where)
      const sent = load.sent.get(event.requestId)
      assert.ok(sent, `nobody sent this, ${where}`)
      assert.ok(!happened.has(event.requestId), `a request became two writes, ${where}`)
      if (begun) assert.equal(event.requestId, begun.requestId, `a write is not whole, before ${where}`)
      begun = event.type === 'CollectionCreated' ? event : undefined
      if (!begun) {
        this.#apply(event, sent, where)
        happened.set(event.requestId, event.position)
      }
      this.#digest.update(`${line}\n`)
      this.position = event.position
    }
    assert.equal(begun, undefined, 'the last write is not whole')
    assert.ok(
      this.position >= load.seen,
      `an answer spoke of position ${load.seen}, the journal ends at ${this.position}`,
    )
    for (const [id, { acknowledged, refused }] of load.sent) {
      const position = happened.get(id)
      if (acknowledged) assert.equal(position, acknowledged.position, `${id} was acknowledged`)
      if (refused !== undefined) assert.equal(position, undefined, `${id} was refused with ${refused}`)
    }
    const unanswered = [...happened.keys()].filter((id) => !load.sent.get(id)?.acknowledged)
    load.sent.clear()
    return { unanswered }
  }

  /** Takes what there is as given: the first items of a data file, without any. */
  async skip(url: string): Promise<void> {
    for await (const line of eventLines(url, this.position + 1)) {
      const event = JSON.parse(line) as Told
      assert.equal(event.type, 'CollectionCreated')
      this.#digest.update(`${line}\n`)
      this.position = event.position
    }
  }

  /** The whole journal is byte for byte what was read before, and the collections are what it amounts to. */
  async checkAll(url: string): Promise<void> {
    const digest = createHash('sha256')
    for await (const line of eventLines(url, 1)) digest.update(`${line}\n`)
    assert.equal(digest.digest('hex'), this.#digest.copy().digest('hex'), 'the journal has changed')
    for (const [name, items] of this.#items) {
      const answer = await fetch(`${url}/api/${name}?pageSize=10000`)
      assert.equal(answer.status, 200)
      const served = new Map(((await answer.json()) as JsonObject[]).map((item) => [String(item.id), item]))
      const known = new Map([...items].flatMap(([key, { item }]) => (item ? [[key, item]] : [])))
      assert.deepEqual(served, known, name)
    }
  }

  /** The items that there are, by collection. */
  get state(): JsonObject {
    return Object.fromEntries(
      [...this.#items].map(([name, items]) => [name, [...items.values()].flatMap(({ item }) => (item ? [item] : []))]),
    )
  }

  #apply(event: Told, sent: Sent, where: string): void {
    const { method, collection, key, body, acknowledged } = sent
    const id = String(event.id)
    assert.ok((TYPES[method] as readonly string[]).includes(event.type), where)
    assert.equal(event.collection, collection, where)
    if (key !== undefined) assert.equal(id, key, where)
    if (method === 'POST' && acknowledged) assert.equal(event.id, acknowledged.id, where)
    const items = this.#items.get(collection) ?? new Map<string, Known>()
    this.#items.set(collection, items)
    const before = items.get(id)
    assert.equal(event.revision, (before?.revision ?? 0) + 1, where)
    assert.equal(event.prior, before?.position ?? 0, where)
    assert.equal(before?.item === undefined, event.type === 'ItemCreated', where)
    const item =
      method === 'DELETE'
        ? undefined
        : { id: event.id, ...(method === 'PATCH' && before?.item), ...(body as JsonObject) }
    assert.ok(isDeepStrictEqual(event.item, item), `not what was sent, ${where}`)
    items.set(id, { item: event.item, revision: event.revision ?? 0, position: event.position })
  }
}

async function* eventLines(url: string, from: number): AsyncGenerator<string> {
  const answer = await within(
    'the response to GET /events',
    new Promise<IncomingMessage>((resolve, reject) => {
      get(`${url}/events?from=${from}`, { headers: { Accept: 'application/x-ndjson' } }, resolve).on('error', reject)
    }),
  )
  assert.equal(answer.statusCode, 200)
  yield* each('the next line of /events', createInterface({ input: answer }))
}
